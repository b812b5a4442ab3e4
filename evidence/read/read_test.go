package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

func TestErrors(t *testing.T) {
	tests := []struct {
		name, input string
		want        error
	}{
		{"empty", "", ErrNothingKnown},
		{"prose", "Dear diary,\nthe GPU was full again.\n", ErrNothingKnown},
		{"source text", "if \"out of memory\" in str(e):\n    raise\n", ErrNothingKnown},
		{"a table of numbers", "x,y\n1,2\n3,4\n", ErrNothingKnown},
		{"results with a memory column", "model,batch,memory(MiB),time(s)\nbert,8,1000,2.0\n", ErrNothingKnown},
		{"rows that don't say what they are", "2024/05/01 12:00:00.123, 40000, 90\n", ErrUnnamed},
		{"a column of numbers", strings.Repeat("12000\n12001\n", 9), ErrNothingKnown},
		{"binary", "\x80\x04\x95\x01\x02\x03\x04\x05\x06\x0e\x0f\x10", ErrNothingKnown},
		{"a model's configuration", `{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}`, ErrOtherJSON},
		{"labels", `{"schema": "vramscope.labels/1", "device": 0, "labels": []}`, ErrOtherJSON},
		{"a list of names", `["a", "b"]`, ErrNothingKnown},
		{"a list of objects", `[{"a": 1}, {"a": 2}]`, ErrOtherJSON},
		{"lists of odd length", `[[1, 2], [3, 4]]`, ErrOtherJSON},
		{"a trace cut short", `{"traceEvents": [{"ph": "i", "name": "[memory]", "args": {"Bytes": 1`, io.ErrUnexpectedEOF},
		{"a timeline cut short", `[[1, 0, 1000, 0], [2, 1, `, io.ErrUnexpectedEOF},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Evidence(strings.NewReader(test.input), "in.txt", 0)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if !strings.HasPrefix(err.Error(), "in.txt: ") {
				t.Errorf("error %q does not name the file", err)
			}
		})
	}
}

// TestGpustat reads gpustat's JSON, also of several readings and cut, and its lines in colours.
func TestGpustat(t *testing.T) {
	reading := func(used int) string {
		return fmt.Sprintf(`{"hostname": "n", "query_time": "2025-03-12T16:02:11.123456", "gpus": [{"index": 1, "uuid": "GPU-1", "name": "NVIDIA A100", "utilization.gpu": null,
"memory.used": %d, "memory.total": 81920, "processes": [{"username": "a", "command": "python", "gpu_memory_usage": 900, "pid": 77}]}]}`, used)
	}
	for name, x := range map[string]struct {
		text    string
		samples int
		peak    int64
		err     error
	}{
		"one":     {reading(1000), 1, 1000, nil},
		"several": {reading(1000) + "\n" + reading(1001) + reading(10), 3, 1001, nil},
		"cut":     {reading(1000) + reading(1001)[:200], 1, 1000, io.ErrUnexpectedEOF},
		"colours": {"\x1b[1m\x1b[37mn   \x1b(B\x1b[m  Wed Mar 12 16:02:11 2025  " +
			"\x1b[1m\x1b[30m550.54.15\x1b(B\x1b[m\n\x1b[36m[1]\x1b(B\x1b[m \x1b[34mNVIDIA A100\x1b(B\x1b[m |\x1b[31m " +
			"42°C\x1b(B\x1b[m, \x1b[1m\x1b[32m 98 %\x1b(B\x1b[m | " +
			"\x1b[36m\x1b[1m\x1b[33m1000\x1b(B\x1b[m / \x1b[33m81920\x1b(B\x1b[m MB | " +
			"\x1b[1m\x1b[30ma\x1b(B\x1b[m:python/77(\x1b[33m900M\x1b(B\x1b[m)\n", 1, 1000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kinds, ev, err := Evidence(strings.NewReader(x.text), "gpustat", 0)
			if !errors.Is(err, x.err) || len(kinds) != 1 || kinds[0] != "gpustat" || len(ev.GPUs) != 1 {
				t.Fatalf("%v, %+v, error %v", kinds, ev, err)
			}
			g := ev.GPUs[0]
			if g.GPU != 1 || *g.Name != "NVIDIA A100" || g.Samples != x.samples || *g.PeakUsedBytes != x.peak<<20 ||
				*g.TotalBytes != 80<<30 || !strings.HasPrefix(g.FirstTime.String(), "2025-03-12T16:02:11") ||
				len(g.Processes) != 1 || *g.Processes[0].PeakUsedBytes != 900<<20 || *g.Processes[0].Name != "python" {
				t.Errorf("%+v", g)
			}
		})
	}
}

// TestOtherTools reads what others than nvidia-smi say of two GPUs, in every form they have.
func TestOtherTools(t *testing.T) {
	const nvitop = `╒══════════════════════════════════════════════════════════════════════════╕
│ NVITOP 1.4.2    Driver Version: 550.54.15    CUDA Driver Version: 12.4    │
├───────────────────────────────┬──────────────────────┬─────────────────────┤
│   0  A100-SXM4-80GB      On   │ 00000000:07:00.0 Off │                   0 │
│ N/A   42C    P0   298W / 400W │  60.00GiB / 80.00GiB │     98%     Default │
├───────────────────────────────┼──────────────────────┼─────────────────────┤
│   1  A100-SXM4-80GB      On   │ 00000000:0F:00.0 Off │                   0 │
│ N/A   33C    P0    61W / 400W │  512.0MiB / 80.00GiB │      0%     Default │
╘═══════════════════════════════╧══════════════════════╧═════════════════════╛
│ Processes:                                                     me@node3 │
│ GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND        │
│   0      77 C      me 58.00GiB  98 100.5   4.1  1.5 days  python x.py   │
`
	const amd = `+------------------------------------------------------------------------------+
| AMD-SMI 25.3.0+ede62f2  amdgpu version: 6.12.12  ROCm version: 6.4.0         |
|=====================================+========================================|
| 0000:05:00.0    AMD Instinct MI300X | 31 %      41 °C   0           142/750 W|
|   0       0       7        SPX/NPS1 | 99 %      N/A           61440/81920 MB |
|-------------------------------------+----------------------------------------|
| 0000:06:00.0    AMD Instinct MI300X | 31 %      41 °C   0           142/750 W|
|   1       0       7        SPX/NPS1 | 0 %       N/A             512/81920 MB |
+-------------------------------------+----------------------------------------+
| Processes:                                                                   |
|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
|    0         77  python                 2.0 MB  58.00 GB   58.10 GB   96.5 % |
+------------------------------------------------------------------------------+
`
	for name, x := range map[string]struct{ text, kind, process string }{
		"dcgmi": {"#Entity   GPUTL   FBUSD   FBTTL\nID                                 \nGPU 0     98      61440   " +
			"81920\nGPU-I 0   98      N/A   N/A\nGPU 1     0       512   81920\n", "dcgm", ""},
		"DCGM's exporter": {"# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in MiB).\n# TYPE DCGM_FI_DEV_FB_FREE " +
			"gauge\nDCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-1\"} 20480\nDCGM_FI_DEV_FB_FREE{gpu=\"1\",UUID=\"GPU-2\"} " +
			"81408\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-1\"} 61440\nDCGM_FI_DEV_FB_USED{gpu=\"0\",GPU_I_ID=\"1\"} " +
			"70000\nDCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"GPU-2\"} 512\n", "dcgm", ""},
		"nvitop": {nvitop, "nvitop", "python x.py"},
		"rocm-smi": {"GPU[0]\t\t: VRAM Total Memory (B): 85899345920\nGPU[0]\t\t: VRAM Total Used Memory (B): " +
			"64424509440\nGPU[1]\t\t: VRAM Total Memory (B): 85899345920\nGPU[1]\t\t: VRAM Total Used Memory (B): 536870912\n",
			"rocm_smi", ""},
		"rocm-smi as CSV": {"device,VRAM Total Memory (B),VRAM Total Used Memory " +
			"(B)\ncard0,85899345920,64424509440\ncard1,85899345920,536870912\n", "rocm_smi", ""},
		"rocm-smi as JSON": {
			`{"card1": {"VRAM Total Memory (B)": "85899345920", "VRAM Total Used Memory (B)": "536870912"}, "card0": {"VRAM Total Memory (B)": "85899345920", "VRAM Total Used Memory (B)": "64424509440"}}`, "rocm_smi", ""},
		"amd-smi": {amd, "amd_smi", "python"},
		"amd-smi metric": {"GPU: 0\n    MEM_USAGE:\n        TOTAL_VRAM: 81920 MB\n        USED_VRAM: 61440 MB\n\nGPU: 1\n    " +
			"MEM_USAGE:\n        TOTAL_VRAM: 81920 MB\n        USED_VRAM: 512 MB\n", "amd_smi", ""},
		"amd-smi as CSV": {
			"gpu,total_vram,used_vram,free_vram,total_visible_vram,used_visible_vram\n0,81920,61440,20480,81920,61440\n1,81920,512,80000,81920,512\n", "amd_smi", ""},
		"amd-smi as JSON": {
			`[{"gpu": 0, "mem_usage": {"total_vram": {"value": 81920, "unit": "MB"}, "used_vram": {"value": 61440, "unit": "MB"}}}, {"gpu": 1, "mem_usage": {"total_vram": {"value": 81920, "unit": "MB"}, "used_vram": {"value": 512, "unit": "MB"}}}]`, "amd_smi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			kinds, ev, err := Evidence(strings.NewReader(x.text+"\n| of | another | table |\n│ and │ another │\n"), "smi", 0)
			if strings.HasSuffix(name, "JSON") {
				kinds, ev, err = Evidence(strings.NewReader(x.text), "smi", 0)
			}
			if err != nil || len(kinds) != 1 || kinds[0] != x.kind || len(ev.GPUs) != 2 {
				t.Fatalf("%v, %+v, error %v", kinds, ev, err)
			}
			a, b := ev.GPUs[0], ev.GPUs[1]
			if *a.PeakUsedBytes != 60<<30 || *a.TotalBytes != 80<<30 || *b.PeakUsedBytes != 512<<20 || *b.TotalBytes != 80<<30 ||
				a.Samples != 1 || b.Samples != 1 {
				t.Errorf("%+v", ev.GPUs)
			}
			if x.process != "" && (len(a.Processes) != 1 || a.Processes[0].PID != 77 || *a.Processes[0].Name != x.process ||
				*a.Processes[0].PeakUsedBytes != 58<<30) {
				t.Errorf("%+v", a.Processes)
			}
		})
	}
}

func TestReadErrorKeepsWhatWasRead(t *testing.T) {
	broken := errors.New("disk gone")
	in := io.MultiReader(strings.NewReader("step 1 loss 2.5\nstep 2 loss 2.4\n"+strings.Repeat("x\n", peekBytes)),
		&failing{broken})
	kinds, ev, err := Evidence(in, "train.log", 0)
	if !errors.Is(err, broken) {
		t.Fatalf("error %v, want %v", err, broken)
	}
	if len(kinds) != 1 || ev == nil || len(ev.Steps) != 1 || ev.Steps[0].Count != 2 {
		t.Errorf("kinds %v, evidence %+v", kinds, ev)
	}
}

// TestCutAnywhere reads a stream that breaks off after any of its bytes, and that
// says so only once.
func TestCutAnywhere(t *testing.T) {
	log := "step 1 loss 2.5\nstep 2 loss 2.4\n"
	wide := "\xff\xfe"
	for _, c := range log {
		wide += string([]byte{byte(c), 0})
	}
	torn := fmt.Errorf("torn: %w", io.ErrUnexpectedEOF)
	for _, text := range []string{log, wide} {
		for n := len(text) / 2; n <= len(text); n++ {
			kinds, ev, err := Evidence(io.MultiReader(strings.NewReader(text[:n]), &failing{torn}), "train.log", 0)
			if !errors.Is(err, torn) || len(kinds) != 1 || len(ev.Steps) != 1 {
				t.Fatalf("%d of %d bytes: kinds %v, error %v", n, len(text), kinds, err)
			}
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestContract holds the names that other tools rely on.
func TestContract(t *testing.T) {
	one, name := int64(1), "x"
	full := &evidence.Evidence{
		GPUs:            []evidence.GPU{{Processes: []evidence.Process{{}}}},
		OOMMessages:     []evidence.OOMMessage{{}},
		MemorySummaries: []evidence.MemorySummary{{}},
		Steps:           []*evidence.Steps{{First: &one}},
		Traces:          []evidence.Trace{{Accelerators: []int{}, PeakAllocatedBytes: &one}},
		Logs:            []evidence.Log{{}},
		Timelines:       []evidence.Timeline{{}},
	}
	full.GPUs[0].Name, full.Parameters = &name, []evidence.Parameters{}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	const none = `{"activation":0,"autograd_detail":0,"gradient":0,"input":0,"optimizer_state":0,"parameter":0,"temporary":0,"unknown":0}`
	want := `{"gpus":[{"gpu":0,"name":"x","source":0,"samples":0,"total_bytes":null,"peak_used_bytes":null,"first_time":null,"last_time":null,` +
		`"processes":[{"pid":0,"name":null,"peak_used_bytes":null}]}],` +
		`"oom_messages":[{"source":0,"line":0,"gpu":null,"rank":null,"requested_bytes":null,"capacity_bytes":null,"device_free_bytes":null,"process_bytes":null,` +
		`"allocated_bytes":null,"reserved_unallocated_bytes":null,"user_file":null,"user_line":null,"user_function":null,"phase":null,"verdict":null,"fix":null}],` +
		`"memory_summaries":[{"source":0,"line":0,"device":null,"allocated_bytes":null,"peak_allocated_bytes":null,"reserved_bytes":null,"peak_reserved_bytes":null,"ooms":null}],` +
		`"steps":[{"source":0,"count":0,"first":1,"last":null,"median_step_seconds":null,"max_memory_bytes":null,"max_reserved_bytes":null}],` +
		`"traces":[{"source":0,"memory_events":0,"devices":[],"peak_allocated_bytes":1,"peak_reserved_bytes":null}],` +
		`"timelines":[{"source":0,"rows":0,"peak_bytes":0,"at_peak":` + none + `,"peak_by_category":` + none + `,"host":false}],"parameters":[]}`
	if string(text) != want {
		t.Errorf("found %s\nwant  %s", text, want)
	}
	if text, _ := json.Marshal(evidence.New()); string(
		text) != `{"gpus":[],"oom_messages":[],"memory_summaries":[],"steps":[],"traces":[],"timelines":[],"parameters":[]}` {
		t.Errorf("no evidence is %s", text)
	}
}

// TestAdd puts the log with most steps first, whatever the order of inputs.
func TestAdd(t *testing.T) {
	all := evidence.New()
	for i, log := range []string{"step 1 loss 2.0\n", "step 1 loss 2.0\nstep 2 loss 1.0\nstep 3 loss 1.0\n",
		"step 5 loss 2.0\nstep 6 loss 2.0\n"} {
		_, ev, err := Evidence(strings.NewReader(log), "log", i)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(ev)
	}
	var order []int
	for _, s := range all.Steps {
		order = append(order, s.Source)
	}
	if len(order) != 3 || order[0] != 1 || order[1] != 2 || order[2] != 0 {
		t.Errorf("sources in order %v, want [1 2 0]", order)
	}
}

// TestBoundedMemory reads a long log and looks at what is kept of it.
func TestBoundedMemory(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("index, memory.used [MiB], memory.total [MiB]\n")
	for i := 0; i < 200_000; i++ {
		used := i % 8000
		if i == 123_457 {
			used = 8191
		}
		b.WriteString("0, ")
		b.WriteString(decimal(used))
		b.WriteString(" MiB, 8192 MiB\n")
	}
	_, ev, err := Evidence(&b, "gpu.csv", 0)
	if err != nil {
		t.Fatal(err)
	}
	series := ev.GPUs[0].Series
	if n := len(series.Samples); n > 2048 || n < 512 {
		t.Errorf("%d samples kept of 200000", n)
	}
	peak := int64(0)
	for _, s := range series.Samples {
		peak = max(peak, s.UsedBytes)
	}
	if want := int64(8191 << 20); peak != want || *ev.GPUs[0].PeakUsedBytes != want || ev.GPUs[0].Samples != 200_000 {
		t.Errorf("peak of the curve %d, of the GPU %d, want %d; %d samples", peak, *ev.GPUs[0].PeakUsedBytes, want,
			ev.GPUs[0].Samples)
	}
}

func decimal(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// TestProgressBar: backspaces, with which it is drawn, don't make a log binary.
func TestProgressBar(t *testing.T) {
	log := " 1/10" + strings.Repeat("\b", 5) + "10/10\nstep 1 loss 2.5\nstep 2 loss 2.4\n"
	kinds, _, err := Evidence(strings.NewReader(log), "train.log", 0)
	if err != nil || len(kinds) != 1 || kinds[0] != evidence.KindTrainingLog {
		t.Errorf("%v, %v", kinds, err)
	}
}

// TestBesideNvidiaSMI: what nvidia-smi prints into a log, whole or cut, hides
// nothing of what the others wrote.
func TestBesideNvidiaSMI(t *testing.T) {
	const table = `+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
| N/A   52C    P0            432W /  700W |   11125MiB /  81559MiB |     98%      Default |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|    0   N/A  N/A            4711      C   python                                11000MiB |
`
	const query = `==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 08:12:38 2026
Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA L40S
    FB Memory Usage
        Total                             : 46068 MiB
        Used                              : 11125 MiB
`
	const xml = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<gpu id="00000000:01:00.0">
		<fb_memory_usage>
			<used>11125 MiB</used>
		</fb_memory_usage>
`
	const summary = `|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |
|===========================================================================|
| Allocated memory      |  15281 MiB |  15281 MiB | 103000 MiB |  87718 MiB |
`
	const reserved = `| GPU reserved memory   |  15630 MiB |  15630 MiB |  15630 MiB |      0 B   |
|===========================================================================|
`
	const failure = `Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "/home/me/train.py", line 12, in <module>
    step(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.90 GiB. GPU 0 has a total capacity of 44.35 GiB of which 1.47 GiB is free.
`
	const nvitop = `╒══════════════════════════════════════════════════════════════════════════╕
│ NVITOP 1.4.2    Driver Version: 550.54.15    CUDA Driver Version: 12.4    │
├───────────────────────────────┬──────────────────────┬─────────────────────┤
│   0  A100-SXM4-80GB      On   │ 00000000:07:00.0 Off │                   0 │
│ N/A   42C    P0   298W / 400W │  11125MiB / 80.00GiB │     98%     Default │
╘═══════════════════════════════╧══════════════════════╧═════════════════════╛
`
	steps := func(format string) (text string) {
		for i := 1; i <= 30; i++ {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	for name, x := range map[string]struct {
		text                 string
		gpus, steps, summary int
	}{
		"a CSV, then an odd quote": {"index, name, memory.used [MiB]\n0, NVIDIA L40S, 11125 MiB\nHe said \"yes\n", 1,
			0, 0},
		"a CSV of times, then an odd quote": {"timestamp, index, memory.used [MiB]\n2026/07/14 09:00:44.579, 0, 11125 " +
			"MiB\nsample, 3, \"5\n", 1, 0, 0},
		"a CSV of one cut row": {"index, name, memory.used [MiB]\n0, NVIDIA L40S, 11125 MiB\n1, \"NVIDIA\n", 1, 0,
			0},
		"retired pages":                       {"gpu_uuid, retired_pages.address\n" + steps("step %d, loss 2.5\n"), 0, 30, 0},
		"a table, then steps in bars":         {table + steps("| step %d | loss 2.99 | mem 10.01 GiB |\n"), 1, 30, 0},
		"a table, then a summary":             {table + summary + reserved, 1, 0, 1},
		"nvitop's table, then steps in lines": {nvitop + steps("│ step %d │ loss 2.99 │ mem 10.01 GiB │\n"), 1, 30, 0},
		"-q":                                  {query + "    Processes                             : None\n", 1, 0, 0},
		"-q cut, then indented steps":         {query + steps("    step: %d loss: 2.5\n"), 1, 30, 0},
		"XML cut, then a bar": {xml + steps("train: 9%%|█         | %d/100 [00:01<00:45,  1.99it/s, loss=2.5]\n"),
			1, 30, 0},
		"XML cut behind a rank": {"[rank0]: " + strings.ReplaceAll(xml, "\n", "\n[rank0]: ") + "\n" +
			steps("[rank0]: train: 9%%|█         | %d/100 [00:01<00:45,  1.99it/s, loss=2.5]\n"), 1, 30, 0},
		"a summary cut, then steps":    {summary + steps("step %d | loss: 2.5 | dt: 640.00ms\n"), 0, 30, 1},
		"a summary cut, steps in bars": {summary + steps("| step %d | loss: 2.5 |\n"), 0, 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, ev, err := Evidence(strings.NewReader(x.text+failure), "train.log", 0)
			if err != nil {
				t.Fatal(err)
			}
			found := int64(0)
			for _, s := range ev.Steps {
				found += int64(s.Count)
			}
			if len(ev.GPUs) != x.gpus || found != int64(x.steps) || len(ev.MemorySummaries) != x.summary {
				t.Errorf("%d GPUs, %d steps, %d summaries", len(ev.GPUs), found, len(ev.MemorySummaries))
			}
			for _, g := range ev.GPUs {
				if g.PeakUsedBytes == nil || *g.PeakUsedBytes != 11125<<20 {
					t.Errorf("GPU %+v", g)
				}
			}
			if len(ev.OOMMessages) != 1 || ev.OOMMessages[0].UserLine == nil || *ev.OOMMessages[0].UserLine != 12 {
				t.Errorf("messages %+v", ev.OOMMessages)
			}
		})
	}
}
