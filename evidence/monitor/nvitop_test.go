package monitor

import "testing"

// TestNvitop: the table of `nvitop -1` in its frame, and its list of processes, whose columns between memory and command vary.
func TestNvitop(t *testing.T) {
	const text = `Wed May  1 12:00:01 2024
╒═════════════════════════════════════════════════════════════════════════════╕
│ NVITOP 1.4.2      Driver Version: 550.54.15      CUDA Driver Version: 12.4  │
├───────────────────────────────┬──────────────────────┬──────────────────────┤
│ GPU  Name        Persistence-M│ Bus-Id        Disp.A │ Volatile Uncorr. ECC │
│ Fan  Temp  Perf  Pwr:Usage/Cap│         Memory-Usage │ GPU-Util  Compute M. │
╞═══════════════════════════════╪══════════════════════╪══════════════════════╡
│   0  A100-SXM4-80GB      Off  │ 00000000:07:00.0 Off │                    0 │
│ N/A   41C    P0   298W / 400W │  60.00GiB / 80.00GiB │     98%      Default │
├───────────────────────────────┼──────────────────────┼──────────────────────┤
│   1  A100-SXM4-80GB      Off  │ 00000000:0F:00.0 Off │                    0 │
│ N/A   33C    P0    55W / 400W │  500.0MiB / 80.00GiB │      0%      Default │
╘═══════════════════════════════╧══════════════════════╧══════════════════════╛
╒═════════════════════════════════════════════════════════════════════════════╕
│ Processes:                                                      lena@node-3 │
│ GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND           │
╞═════════════════════════════════════════════════════════════════════════════╡
│   0 1204411 C    lena 58.61GiB  98 100.5   4.1   1:11:22  python train.py   │
│   1    7711 C    lena 420.0MiB   0   0.1   0.4  1.5 days  python idle.py    │
╘═════════════════════════════════════════════════════════════════════════════╛
`
	r := parse(text)
	if len(r.GPUs) != 2 || r.Rows[Nvitop] != 2 {
		t.Fatalf("%d GPUs, %v", len(r.GPUs), r.Rows)
	}
	for i, want := range []struct {
		used, total  int64
		bus, program string
		pid          int
	}{
		{60 << 30, 80 << 30, "07:00.0", "python train.py", 1204411},
		{500 << 20, 80 << 30, "0f:00.0", "python idle.py", 7711},
	} {
		g := &r.GPUs[i]
		if *g.PeakUsedBytes != want.used || *g.TotalBytes != want.total || g.BusID != want.bus || *g.Name != "A100-SXM4-80GB" ||
			g.Tool != "nvitop" || g.FirstTime == nil || len(g.Processes) != 1 || g.Series.Samples[0].UtilizationPercent != float32(98*(1-i)) {
			t.Errorf("GPU %d: %+v", i, g)
			continue
		}
		if p := &g.Processes[0]; p.PID != want.pid || *p.Name != want.program || *p.PeakUsedBytes < 400<<20 {
			t.Errorf("GPU %d: %+v", i, p)
		}
	}
}
