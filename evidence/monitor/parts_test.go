package monitor

import (
	"fmt"
	"strings"
	"testing"
)

const (
	gpuTable = `| NVIDIA-SMI 535.00     Driver Version: 535.00     CUDA Version: 12.2 |
|   0  Tesla T4       Off  | 00000000:01:00.0 Off |               0 |
| N/A   40C    P0    30W /  70W |   6000MiB / 15360MiB |   10%    Default |
`
	listHead = `| Processes:                                             GPU Memory |
|  GPU       PID   Type   Process name                   Usage      |
|====================================================================|
`
	listRow  = "|    0      4242      C   python                       5900MiB |\n"
	listEnd  = "+--------------------------------------------------------------------+\n"
	noneRow  = "|  No running processes found                                        |\n"
	migTable = `| MIG devices:                                                        |
|  GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared |
|==================+======================+===========+================|
|  1    3   0   0  |   7000MiB /  9984MiB | 28      0 |  2   0    1    0 |
|                  |      4MiB / 16383MiB |           |                  |
`
)

// TestParts: parts of tables, whose other parts were left out, and process lists
// that are blank, for good or for once.
func TestParts(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a list alone":              {listHead + listRow + listEnd, "GPU 0: -1 of -1, 0 unlisted, 4242 python 5900"},
		"rows alone":                {listRow, "GPU 0: -1 of -1, 0 unlisted, 4242 python 5900"},
		"rows with columns for MIG": {"|    2   N/A  N/A      77      G   /usr/lib/xorg/Xorg     100MiB |", "GPU 2: -1 of -1, 0 unlisted, 77 /usr/lib/xorg/Xorg 100"},
		"a process without a name":  {listHead + "|    0      4242      C   Unknown Error                5900MiB |\n" + listEnd, "GPU 0: -1 of -1, 0 unlisted, 4242 Unknown Error 5900"},
		"MIG's devices alone":       {migTable, "GPU 1: -1 of -1, 0 unlisted, instance 3 7000 of 9984"},
		"a blank list":              {gpuTable + listHead + listEnd, "GPU 0: 6000 of 15360, 6000 unlisted"},
		"nobody listed":             {gpuTable + listHead + noneRow + listEnd, "GPU 0: 6000 of 15360, 6000 unlisted"},
		"once, as a program ends": {gpuTable + listHead + listRow + listEnd + gpuTable + listHead + noneRow + listEnd,
			"GPU 0: 6000 of 15360, 0 unlisted, 4242 python 5900"},
		"for good": {gpuTable + listHead + listRow + listEnd + strings.Repeat(gpuTable+listHead+noneRow+listEnd, 3),
			"GPU 0: 6000 of 15360, 6000 unlisted, 4242 python 5900"},
		"rows below a date": {"Wed Feb 26 01:50:18 PM EST 2025\n0 %, 7000 MiB, 46068 MiB, 32\n0 %, 4 MiB, 46068 MiB, 24\n" +
			"Wed Feb 26 01:50:48 PM EST 2025\n0 %, 6000 MiB, 46068 MiB, 32\n0 %, 5 MiB, 46068 MiB, 24\n",
			"GPU 0: 7000 of 46068, 0 unlisted; GPU 1: 5 of 46068, 0 unlisted"},
		"amd-smi's monitor": {"GPU  POWER   GFX%   MEM%      VRAM_USAGE\n  0  142 W    0 %    0 %    2.0/192.0 GB\n  1  748 W   98 %   44 %  187.0/192.0 GB\n",
			"GPU 0: 2048 of 196608, 0 unlisted; GPU 1: 191488 of 196608, 0 unlisted"},
		"npu-smi's processes": {Forms[NPUSMI].Example + "\n+==+\n| NPU     Chip | Process id    | Process name | Process memory(MB) |\n" +
			"| 0       0    | 41234         | python       | 3900               |\n", "GPU 0: 4000 of 65536, 0 unlisted, 41234 python 3900"},
	} {
		var got []string
		r := parse(test.text)
		if len(r.GPUs) > 0 && len(r.Forms()) == 0 {
			t.Errorf("%s: no row counts", name)
		}
		for _, g := range r.GPUs {
			used, total := int64(-1), int64(-1)
			if g.PeakUsedBytes != nil {
				used, total = *g.PeakUsedBytes/mib, *g.TotalBytes/mib
			}
			text := fmt.Sprintf("GPU %d: %d of %d, %d unlisted", g.GPU, used, total, g.UnlistedBytes/mib)
			for _, p := range g.Processes {
				text += fmt.Sprintf(", %d %s %d", p.PID, *p.Name, *p.PeakUsedBytes/mib)
			}
			for _, m := range g.Instances {
				text += fmt.Sprintf(", instance %d %d of %d", m.GI, m.PeakUsedBytes/mib, m.TotalBytes/mib)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
	const later = "|    0      4343      C   python                       5000MiB |\n"
	for name, test := range map[string]struct {
		text   string
		inTurn bool
	}{
		"two jobs, one after the other": {gpuTable + listHead + listRow + listEnd + gpuTable + listHead + later + listEnd, true},
		"two at once":                   {gpuTable + listHead + listRow + later + listEnd + gpuTable + listHead + later + listEnd, false},
		"without the GPU's readings": {"Wed Feb 26 01:50:18 2025\n" + listHead + listRow + listEnd + "Wed Feb 26 01:50:48 2025\n" + listHead + later +
			listEnd, true},
		"one": {gpuTable + listHead + listRow + listEnd + gpuTable + listHead + listRow + listEnd, false},
	} {
		g := parse(test.text).GPUs[0]
		if list := g.InTurn(); test.inTurn != (len(list) == 2 && list[0].PID == 4242) {
			t.Errorf("%s: %+v", name, g.Processes)
		}
	}
	r := parse("0       1     0x74a1,   60795  43.0°C      134.0W    NPS1, CPX, 0        146Mhz  900Mhz  0%   auto  750.0W  0%     0%\n" +
		"GPU[0]      : VRAM Total Memory (B): 206141652992\nGPU[0]      : VRAM Total Used Memory (B): 297771008\n")
	if len(r.GPUs) != 1 || r.GPUs[0].Partition != "CPX" {
		t.Errorf("a card in parts: %+v", r.GPUs)
	}
}
