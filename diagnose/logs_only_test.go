package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	writer "github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

func fileInput(t *testing.T, name string) input {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return input{name: name, text: string(text)}
}

// stepLog is a log with a line for each step.
func stepLog(steps int, line func(i int) string) string {
	var b strings.Builder
	for i := range steps {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// gibAt is a number of GiB with the noise that real figures have.
func gibAt(base, slope float64, i int) float64 { return base + slope*float64(i) + 0.01*float64(i%3) }

// TestStepLogs tells growth and slowness from what only looks like it.
func TestStepLogs(t *testing.T) {
	tests := []struct {
		name string
		log  string
		id   string // "" when nothing may be found
		says string
	}{
		{"a leak", stepLog(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, 0.25, i))
		}), "memory_grows", "from 10.00 GiB at step 0 to 24.77 GiB at step 59"},
		{"flat", stepLog(60, func(i int) string { return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, 0, i)) }), "",
			""},
		{"a running maximum that flattens out", stepLog(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, 20-8/float64(1+i/10))
		}), "", ""},
		{"a leak at each epoch", stepLog(60, func(i int) string {
			return fmt.Sprintf("epoch %d step %d loss 2.3 mem %.2f GiB", i/10, i%10*20, gibAt(10, 0, i)+2.5*float64(i/10))
		}), "memory_grows", "by 2.51 GiB an epoch in the log, from 10.00 GiB to 22.52 GiB"},
		{"a leak at each evaluation", stepLog(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.3 mem %.2f GiB", 5*i, gibAt(10, 0, i)+float64(i/50))
		}), "memory_grows", "by 1.01 GiB every 250 steps or so"},
		{"a running maximum of batches", stepLog(200, func(i int) string {
			return fmt.Sprintf("epoch %d step %d loss 2.3 mem %.2f GiB", i/50, i%50, []float64{10, 11, 14, 16,
				16.5}[min(4, i/3, i/10+1)])
		}), "", ""},
		{"sawtooth of validation", stepLog(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i,
				10+float64(i%20)/10)
		}), "", ""},
		{"the optimizer's first step", stepLog(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, 10+5*float64(min(1, i/16)))
		}), "first_step_state", "5.00 GiB at step 16"},
		{"reserved grows, allocated doesn't", stepLog(40, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 allocated 9.50 GiB reserved %.2f GiB", i, gibAt(12, 0.5, i))
		}), "fragmentation_creep", "from 12.00 GiB to 31.50 GiB"},
		{"slow from some step on", stepLog(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 time %.2fs", i, 0.5+0.8*float64(min(1, i/40)))
		}), "step_time_jump", "2.6 times slower at step 40"},
		{"a bar's time with that of evaluations in it", stepLog(60, func(i int) string {
			line := fmt.Sprintf("%3d%%|####  | %d/60 [00:%02d<00:30, %.2fs/it]", i*100/60, i, i, 0.5+0.8*float64(min(1, i/40)))
			if i > 39 && i%4 == 0 {
				line += "\n  0%|      | 1/200 [00:00<00:08, 24.00it/s]\n100%|######| 200/200 [00:08<00:00, 24.00it/s]"
			}
			return line
		}), "", ""},
		{"the same bar alone", stepLog(60, func(i int) string {
			return fmt.Sprintf("%3d%%|####  | %d/60 [00:%02d<00:30, %.2fs/it]", i*100/60, i, i, 0.5+0.8*float64(min(1, i/40)))
		}), "step_time_jump", "2.6 times slower"},
		{"a slow first step", stepLog(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 time %.2fs", i, 0.5+40*float64(max(0, 1-i)))
		}), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: test.log})
			if test.id == "" {
				if len(doc.Findings) > 0 {
					t.Fatalf("found %+v in a healthy log", doc.Findings)
				}
				if !strings.Contains(doc.Verdict.Text, "No failure") || !strings.Contains(doc.Verdict.Text, "steps") {
					t.Errorf("verdict %q", doc.Verdict.Text)
				}
				return
			}
			f := found(doc, test.id)
			if f == nil || !strings.Contains(f.Title, test.says) {
				t.Fatalf("found %+v, want %s that says %q", doc.Findings, test.id, test.says)
			}
			if test.name == "a leak" && !strings.Contains(f.Evidence[0], "14.77 GiB more in 59 steps") { // as in the title
				t.Errorf("evidence %q", f.Evidence)
			}
			if f.Severity != report.Info && doc.Verdict.Text != f.Title {
				t.Errorf("verdict %q", doc.Verdict.Text)
			}
		})
	}
}

// TestMostMemory names the kind of memory that a log's largest figure is of,
// and agrees with the curve below.
func TestMostMemory(t *testing.T) {
	tests := []struct {
		name string
		line func(i int) string
		says string
	}{
		{"both kinds", func(i int) string {
			return fmt.Sprintf("{'loss': 1.5, 'step': %d, 'total_peak_memory_allocated_MB': %d, "+
				"'total_peak_memory_reserved_MB': %d}", i, 10240, 20480+512*(i%2))
		}, "at most 20.50 GiB of GPU memory reserved, 10.00 GiB allocated"},
		{"both kinds with a unit at the end", func(i int) string {
			return fmt.Sprintf("%d: loss 2.1 allocated 1290 reserved %d MiB", i, 3292+100*(i%2))
		},
			"at most 3.31 GiB of GPU memory reserved, 1.26 GiB allocated"},
		{"reserved", func(i int) string { return fmt.Sprintf("step %d loss 2.1 reserved 12.00 GiB", i) },
			"at most 12.00 GiB of GPU memory reserved"},
		{"allocated", func(i int) string { return fmt.Sprintf("step %d loss 2.1 allocated 9.50 GiB", i) },
			"at most 9.50 GiB of GPU memory allocated"},
		{"either", func(i int) string { return fmt.Sprintf("step %d loss 2.1 memory: 9.50GiB(94.81%%)", i) },
			"at most 9.50 GiB of GPU memory"},
		{"outside of steps", func(i int) string { return "[after setup] GPU Allocated: 8.00 GiB | GPU Reserved: 9.00 GiB" },
			"mentions at most 9.00 GiB of GPU memory reserved, 8.00 GiB allocated"},
		{"reserved only before training", func(i int) string {
			if i == 0 {
				return "MA 15.98 GB         Max_MA 19.92 GB         CA 19.93 GB         Max_CA 20 GB"
			}
			return fmt.Sprintf("epoch=0/micro_step=2/global_step=%d, CurrSamplesPerSec=5.3, MemAllocated=19.95GB, "+
				"MaxMemAllocated=61.12GB", i)
		}, "at most 61.12 GiB of GPU memory allocated"},
		{"with the GPU's size", func(i int) string {
			return fmt.Sprintf("CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory\nstep: %d loss: 2.1 memory: "+
				"9.50GiB(12.01%%)", i)
		}, "at most 9.50 GiB of GPU memory, on GPUs of 79.10 GiB"},
		{"a table without words", func(i int) string { return fmt.Sprintf("%d 2.%04d %d", i, 500-i, 1<<30+i<<20) },
			"at most 1.01 GiB of GPU memory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: stepLog(12, test.line)})
			if !strings.HasSuffix(doc.Verdict.Text, test.says) {
				t.Errorf("verdict %q, want %q", doc.Verdict.Text, test.says)
			}
			var b bytes.Buffer
			if err := writer.Write(&b, view.Document(doc, view.Terminal), writer.Style{}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), "memory reserved, ") != strings.Contains(test.says, "reserved, ") {
				t.Errorf("%s", b.String())
			}
		})
	}
}

// TestPressure tells how often the GPU was full by the trainer's count.
func TestPressure(t *testing.T) {
	const flush = "[2025-02-03 14:12:55,120] [WARNING] [stage3.py:2118:step] %d pytorch allocator cache flushes since last " +
		"step. this happens when there is high memory pressure\n"
	const retries = "[rank0]:[titan] 2025-04-01 18:41:10,112 - root - WARNING - %d CUDA memory allocation retries.\n"
	const oom = "RuntimeError: CUDA error: out of memory\n"
	tests := []struct {
		log, says string
		severity  report.Severity
	}{
		{fmt.Sprintf(flush, 1) + fmt.Sprintf(flush, 2), "The GPU was full 3 times", report.Warning},
		{fmt.Sprintf(flush, 1), "The GPU was full once", report.Info},
		{fmt.Sprintf(retries, 2) + fmt.Sprintf(retries, 5), "The GPU was full 5 times", report.Warning},
		{fmt.Sprintf(retries, 5) + oom, "The GPU was full 5 times", report.Info},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "train.log", text: "step 1 loss 2.5\n" + test.log})
		if f := found(doc, "cache_flushed"); f == nil || f.Severity != test.severity || !strings.HasPrefix(f.Title, test.says) ||
			!strings.Contains(f.Evidence[0], "train.log:2") {
			t.Errorf("%q: %+v", test.log, doc.Findings)
		}
	}
}

// TestGPUsAlone judges what nvidia-smi saw without anything else.
func TestGPUsAlone(t *testing.T) {
	csv := func(rows int, row func(i int) string) string {
		return "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n" +
			stepLog(rows, func(i int) string {
				return fmt.Sprintf("2026/03/04 05:%02d:%02d.000, 0, %s, 81559 MiB", i/60, i%60, row(i))
			})
	}
	tests := []struct{ name, text, id, says string }{
		{"full", csv(40, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", min(81000, 10000+9000*i)) }), "gpu_full",
			"79.10 GiB of 79.65 GiB"},
		{"grows to the end", csv(400, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 20000+100*i) }), "memory_grows",
			"GPU 0"},
		{"grows for a minute only", csv(60, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 40000+200*i) }),
			"memory_grows", "GPU 0"},
		{"loads", csv(60, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 500+400*i) }), "memory_grows", "GPU 0"},
		{"held for nothing", csv(60, func(i int) string { return fmt.Sprintf("%d %%, 40000 MiB", 90*(i%4/3)) }), "gpu_idle",
			"75 %"},
		{"shared", smiTable(30000, "100 12000", "200 17000"), "outside_pytorch", "2 programs share GPU 0"},
		{"used by nobody that is listed", strings.Replace(smiTable(79000), "|=====",
			"|  No running processes found                                                             |\n|=====", 1),
			"outside_pytorch", "77.15 GiB were in use on GPU 0, and nvidia-smi listed no process"},
		{"little used by nobody", strings.Replace(smiTable(900), "|=====",
			"|  No running processes found                                                             |\n|=====", 1), "", ""},
		{"an instance of MIG that is full", migTable(39900, 39880, 5080), "gpu_full",
			"MIG instance 1 of GPU 0 was full: 38.96 GiB of 39.25 GiB"},
		{"programs on an instance each", migTable(20000, 19000, 5080), "", ""},
		{"programs on one instance", migTable(20000, 12000, 5080, 6000), "outside_pytorch",
			"2 programs share MIG instance 1 of GPU 0"},
		{"ranks that came to the wrong GPU", strayTable(), "outside_pytorch",
			"2 processes that work on other GPUs hold a CUDA context on GPU 0 as well: 1.20 GiB"},
		{"a healthy run", csv(100, func(i int) string { return fmt.Sprintf("97 %%, %d MiB", min(60000, 20000*i)) }), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "gpu.csv", text: test.text})
			if test.id == "" {
				if len(doc.Findings) > 0 {
					t.Fatalf("found %+v", doc.Findings)
				}
				return
			}
			if f := found(doc, test.id); f == nil || !strings.Contains(f.Title, test.says) {
				t.Fatalf("found %+v, want %s that says %q", doc.Findings, test.id, test.says)
			} else if test.id == "memory_grows" && (f.Severity == report.Info) != (test.name == "loads") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestUnlisted warns of memory that nobody listed holds, but not where it may be the run's own.
func TestUnlisted(t *testing.T) {
	table := strings.Replace(smiTable(79000), "|=====",
		"|  No running processes found                                                             |\n|=====", 1)
	for text, want := range map[string]report.Severity{strings.Replace(table, "     98%", "      0%", 1): report.Warning,
		table: report.Info} {
		if f := found(judged(t, input{name: "smi.txt", text: text}), "outside_pytorch"); f == nil || f.Severity != want ||
			!strings.Contains(*f.Fix, "fuser -v /dev/nvidia*") {
			t.Errorf("%+v", f)
		}
	}
}

// TestJobsInTurn: jobs that used a GPU one after the other don't share it, and a
// larger one after a smaller is no growth.
func TestJobsInTurn(t *testing.T) {
	for _, test := range []struct {
		name, text string
		share      bool
	}{
		{"in turn", smiTable(20500, "4711 20000") + smiTable(20500, "4711 20000") + smiTable(30500, "5822 30000"), false},
		{"at once", smiTable(20500, "4711 20000") + smiTable(50500, "4711 20000", "5822 30000"), true},
	} {
		f := found(judged(t, input{name: "smi.txt", text: test.text}), "outside_pytorch")
		if (f != nil) != test.share {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
	var dmon strings.Builder
	dmon.WriteString("# gpu     sm     fb\n# Idx      %      MB\n")
	for job := range 8 {
		for range 5 {
			fmt.Fprintf(&dmon, "    0     90  %d\n", 20000+3000*job)
		}
		dmon.WriteString("    0      0      3\n")
	}
	if f := found(judged(t, input{name: "dmon.txt", text: dmon.String()}), "memory_grows"); f != nil {
		t.Errorf("jobs that grow from one to the next: %+v", f)
	}
}

// TestRunsInOneLog: what one run's log shows isn't mixed with the next one's.
func TestRunsInOneLog(t *testing.T) {
	run := func(from, to int, bytes func(step int) int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "step %d | loss 2.5 | max_memory_allocated %d MiB\n", i, bytes(i))
		}
		return b.String()
	}
	level := func(mib int) func(int) int { return func(int) int { return mib } }
	rising := func(i int) int { return 10000 + 100*i }
	for _, test := range []struct {
		name, log string
		again     []int
		finding   string // the only one of those about memory, "" for none
	}{
		{"larger from run to run", run(1, 20, level(10000)) + run(1, 30, level(12000)) + run(1, 40, level(14000)), []int{21, 51}, ""},
		{"one run that grows, then one that doesn't", run(1, 40, rising) + run(1, 10, level(9000)), []int{41}, "memory_grows"},
		{"one run", run(1, 40, rising), nil, "memory_grows"},
		{"resumed", run(1, 30, level(10000)) + run(21, 60, level(10000)), []int{31}, ""},
		{"two ranks, mixed", run(20, 20, level(9)) + run(1, 1, level(9)) + run(21, 21, level(9)) + run(2, 2, level(9)) + run(22, 22, level(9)) +
			run(3, 3, level(9)) + run(23, 23, level(9)) + run(4, 4, level(9)) + run(24, 24, level(9)), nil, ""},
	} {
		doc := judged(t, input{name: "train.log", text: test.log})
		if got := doc.Evidence.Steps[0].Again; !slices.Equal(got, test.again) {
			t.Errorf("%s: begins again at %d", test.name, got)
		}
		for _, id := range []string{"memory_grows", "first_step_state"} {
			if f := found(doc, id); (f != nil) != (id == test.finding) {
				t.Errorf("%s: %+v", test.name, f)
			}
		}
	}
}

// TestEngine tells what vLLM says to take, rather than nothing.
func TestEngine(t *testing.T) {
	tests := []struct{ name, log, says string }{
		{"now", "INFO 03-04 05:06:07 [gpu_model_runner.py:1892] Model loading took 40.5000 GiB and 13.9 seconds\n" +
			"INFO 03-04 05:07:07 [gpu_worker.py:255] Available KV cache memory: 38.25 GiB\n" +
			"INFO 03-04 05:08:07 [gpu_model_runner.py:2485] Graph capturing finished in 36 secs, took 2.75 GiB\n",
			"vLLM took 40.50 GiB weights, 2.75 GiB CUDA graphs, 38.25 GiB key-value cache"},
		{"sglang", "[2025-05-12 10:11:20 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.40 " +
			"GB, mem usage=15.25 GB.\n" +
			"[2025-05-12 10:11:21 TP0] KV Cache is allocated. #tokens: 443000, K size: 27.00 GB, V size: 27.00 GB\n" +
			"[2025-05-12 10:11:40 TP0] Capture cuda graph end. Time elapsed: 18.1 s. mem usage=1.25 GB. avail mem=7.12 GB.\n",
			"sglang took 15.25 GiB weights, 1.25 GiB CUDA graphs, 54.00 GiB key-value cache"},
		{"before, on two workers", "(Worker pid=7) INFO 03-04 model_runner.py:1115] Loading model weights took 2.2500 " +
			"GB\n(Worker pid=8) INFO 03-04 model_runner.py:1115] Loading model weights took 2.5000 GB\n",
			"vLLM took 2.50 GiB weights"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if text := judged(t, input{name: "serve.log", text: test.log}).Verdict.Text; text != "No failure found: "+
				test.says {
				t.Errorf("verdict %q", text)
			}
		})
	}
}

// TestReadings says of GPUs without a finding no more than was read.
func TestReadings(t *testing.T) {
	csv := func(columns string, rows ...string) string {
		return "index, " + columns + "\n" + strings.Join(rows, "\n") + "\n"
	}
	const used = "memory.used [MiB], memory.total [MiB]"
	tests := []struct{ name, text, says string }{
		{"one reading", smiTable(0), "GPU 0 used 0 B of 79.65 GiB in nvidia-smi's only reading"},
		{"several", csv(used, "0, 1024 MiB, 8192 MiB", "0, 2048 MiB, 8192 MiB"), "GPU 0 used at most 2.00 GiB of 8.00 GiB"},
		{"three GPUs", csv(used, "0, 1024 MiB, 8192 MiB", "1, 1024 MiB, 8192 MiB", "2, 1024 MiB, 8192 MiB"),
			"GPU 0 used 1.00 GiB of 8.00 GiB in nvidia-smi's only reading; GPU 1 used 1.00 GiB of 8.00 GiB in nvidia-smi's " +
				"only reading; 1 more GPU in nvidia-smi"},
		{"no memory", csv("power.draw [W]", "0, 90.0 W", "1, 80.0 W", "2, 80.0 W"),
			"3 GPUs without a figure for their memory (--query-gpu=memory.used shows it)"},
		{"rocm-smi's table", "Device  Node  IDs  Temp  Power  SCLK  Fan  PwrCap  VRAM%  GPU%\n=======\n0  2  0x74a1,  28851  " +
			"41.0°C  142.0W  132Mhz  0%  750.0W  91%  99%\n======\n",
			"GPU 0 without a figure for its memory (rocm-smi --showmeminfo vram shows it)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if text := judged(t, input{name: "gpu.csv", text: test.text}).Verdict.Text; text != "No failure found: "+
				test.says {
				t.Errorf("verdict %q", text)
			}
		})
	}
}

// migTable is a GPU in two instances: what is used of the first, and the processes
// on the first, on the second, and on the first again.
func migTable(used int, processes ...int) string {
	text := strings.Replace(smiTable(int64(used+5100)), "| Processes:",
		fmt.Sprintf(`| MIG devices:                                                                            |
|  0    1   0   0  |           %dMiB / 40192MiB    | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
|  0    5   0   1  |            5100MiB / 19968MiB    | 28      0 |  2   0    1    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+-----------------------------------------------------------------------------------------+
| Processes:`, used), 1)
	for i, mib := range processes {
		text += fmt.Sprintf("|    0    %d    0      %10d      C   python                            %7dMiB |\n",
			[...]int{1, 5, 1}[i], 100+i, mib)
	}
	return text
}

// strayTable are the processes of three ranks, all of which were on GPU 0.
func strayTable() string {
	text := smiTable(30000, "100 20000", "101 614", "102 614")
	for gpu := 1; gpu < 3; gpu++ {
		row := fmt.Sprintf("|    %d   N/A  N/A      %10d      C   python                            %7dMiB |\n+----", gpu,
			100+gpu, 20000)
		at := strings.LastIndex(text, "+----")
		at = strings.LastIndex(text[:at], "\n") + 1
		text = text[:at] + row + text[at+len("+----"):]
	}
	return text
}

// TestTraceAlone finds what grows from step to step in a profiler's trace.
func TestTraceAlone(t *testing.T) {
	trace := func(kept int) string {
		var b strings.Builder
		b.WriteString(`{"traceEvents": [`)
		for step := range 10 {
			start := 1e6 * float64(step)
			fmt.Fprintf(&b, `{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","ts":%f,"dur":900000},`, step, start)
			level := 2<<30 + step*kept
			for k := range 100 { // up and down again
				bytes := 64 << 20
				if k >= 50 {
					bytes = -bytes
				}
				level += bytes
				if k == 99 {
					level += kept
				}
				fmt.Fprintf(&b, `{"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":%f,"args":{"Device Type":1,"Device Id":0,"Addr":1,"Bytes":%d,"Total Allocated":%d,"Total Reserved":%d}},`,
					start+1000+8000*float64(k), bytes, level, 8<<30)
			}
		}
		return strings.TrimSuffix(b.String(), ",") + `]}`
	}
	if f := found(judged(t, input{name: "trace.json", text: trace(100 << 20)}), "memory_grows"); f == nil ||
		!strings.Contains(f.Title, "100.00 MiB a step") {
		t.Errorf("found %+v", f)
	}
	doc := judged(t, input{name: "trace.json", text: trace(0)})
	if len(doc.Findings) > 0 || !strings.Contains(doc.Verdict.Text, "ProfilerStep#") {
		t.Errorf("found %+v, verdict %q", doc.Findings, doc.Verdict.Text)
	}
}

// TestTraceWithoutTotals: traces of old name no totals, which is said in words.
func TestTraceWithoutTotals(t *testing.T) {
	event := `{"ph":"i","cat":"Memory","name":"[memory]","ts":%d,"args":{"Device Type":1,"Device Id":0,"Bytes":%d}}`
	doc := judged(t, input{name: "trace.json", text: `{"traceEvents": [` + fmt.Sprintf(event, 1, 4096) + "," + fmt.Sprintf(event,
		2, -4096) + `]}`})
	var text bytes.Buffer
	if err := writer.Write(&text, view.Document(doc, view.Terminal), writer.Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "2 memory events, without totals of a GPU"); n != 2 || strings.Contains(text.String(),
		"?") {
		t.Errorf("%d times in\n%s", n, text.String())
	}
}

// TestHostMemory names the host where its memory failed, and advises nothing for the GPU.
func TestHostMemory(t *testing.T) {
	const failed = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in <module>\nRuntimeError: " +
		"[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
		"17179869184 bytes. Error code 12 (Cannot allocate memory)\n"
	doc := judged(t, input{name: "train.log", text: failed + failed})
	if len(doc.Findings) != 1 || doc.Findings[0].ID != "host_out_of_memory" || doc.Findings[0].Severity != report.Critical ||
		!strings.HasPrefix(doc.Verdict.Text, "Out of memory on the host, not on the GPU: 16.00 GiB of CPU memory asked for at "+
			"u/train.py:12") ||
		!strings.Contains(strings.Join(doc.Findings[0].Evidence, "; "), "told twice") {
		t.Errorf("%+v, %+v", doc.Verdict, doc.Findings)
	}
}

// TestKilled tells what is sure of a killed process from what may be.
func TestKilled(t *testing.T) {
	const steps = "step 1 loss 2.5\nstep 2 loss 2.4\n"
	tests := []struct {
		log, says string
		severity  report.Severity
	}{
		{steps + "slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch.\n",
			"Out of memory on the host, not on the GPU: Slurm saw", report.Critical},
		{steps + "Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:67108864kB, file-rss:0kB\nKilled\n",
			"held 64.00 GiB of CPU memory", report.Critical},
		{steps + "MemoryError\n", "the operating system refused a request for CPU memory", report.Critical},
		{steps + "OSError: [WinError 1455] The paging file is too small\n", "Windows' paging file is too small", report.Critical},
		{steps + "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n",
			"LSF saw a process of the job killed for it", report.Critical},
		{steps + "RuntimeError: DataLoader worker (pid(s) 4122) exited unexpectedly\n",
			"A DataLoader worker ended without a word", report.Warning},
		{steps + "Killed\n", "A process was killed by signal 9", report.Warning},
		{steps + "RuntimeError: CUDA error: out of memory\nKilled\n", "Out of memory, after step 2; the driver itself refused",
			report.Critical},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "train.log", text: test.log})
		if len(doc.Findings) != 1 || doc.Findings[0].Severity != test.severity || !strings.Contains(doc.Verdict.Text, test.says) {
			t.Errorf("%q: %+v, %+v", test.log, doc.Verdict, doc.Findings)
		}
	}
}

// TestTraceOfFailure tells of a request that failed in a trace, as far as its figures go.
func TestTraceOfFailure(t *testing.T) {
	trace := func(asked, allocated, reserved int64) string {
		return fmt.Sprintf(`{"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42949672960}], "traceEvents": [
{"ph":"i","name":"[memory]","ts":1,"args":{"Device Type":1,"Device Id":0,"Bytes":1024,"Total Allocated":1024,"Total Reserved":2097152}},
{"ph":"i","name":"[OutOfMemory]","ts":2,"args":{"Device Type":1,"Device Id":0,"Bytes":%d,"Total Allocated":%d,"Total Reserved":%d}}]}`, asked, allocated, reserved)
	}
	tests := []struct {
		asked, allocated, reserved int64
		id, says                   string
	}{
		{4 << 30, 38 << 30, 39 << 30, "oom_true_shortage",
			"4.00 GiB asked for; with the 38.00 GiB in use it exceeds the GPU's 40.00 GiB by 2.00 GiB"},
		{4 << 30, 30 << 30, 38 << 30, "oom_fragmentation", "8.00 GiB were free in PyTorch's cache"},
		{4 << 30, 10 << 30, 11 << 30, "oom_unclear", "the trace doesn't say what was free"},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "trace.json", text: trace(test.asked, test.allocated, test.reserved)})
		if f := found(doc, test.id); f == nil || !strings.Contains(f.Title, test.says) || doc.Verdict.Text != f.Title {
			t.Errorf("%+v, want %q", doc.Findings, test.says)
		}
	}
}

// TestLogsOfRanks: a failure that ranks tell each in a log of its own is one
// failure, and so is one that a tracker keeps a copy of.
func TestLogsOfRanks(t *testing.T) {
	oom := func(gpu int) string {
		return fmt.Sprintf("step 7 loss 2.1\nTraceback (most recent call last):\n  File \"/a/train.py\", line 50, in f\n    "+
			"x()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. "+
			"GPU %d has a total capacity of 79.15 GiB of which 1.18 GiB is free. Including non-PyTorch memory, this process "+
			"has 77.96 GiB memory in use. "+
			"Of the allocated memory 76.20 GiB is allocated by PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated.\n",
			gpu)
	}
	const fine = "step 7 loss 2.1\nstep 8 loss 2.0\n"
	log := func(name, text string) input { return input{name: name, text: text} }
	tests := []struct {
		name     string
		files    []input
		says     string
		evidence []string // of the ranks, in the end
		rank     int      // of the first message
	}{
		{"names", []input{log("logs/rank_0.log", oom(0)), log("logs/rank_1.log", fine), log("logs/rank_3.log", oom(0))},
			" on 2 ranks, after step 7: ",
			[]string{"told twice in 2 logs", "ranks 0, 3", "no failure in the logs of rank 1", "no log of rank 2 was given"},
			0},
		{"torchrun", []input{log("l/none_x7/attempt_0/0/stderr.log", oom(0)), log("l/none_x7/attempt_0/1/stderr.log", oom(1)),
			log("l/none_x7/attempt_0/2/stdout.log", fine)}, " on 2 ranks, after",
			[]string{"told twice in 2 logs", "ranks 0, 1", "no failure in the logs of rank 2"}, 0},
		{"torchrun's second attempt", []input{log("l/none_x7/attempt_0/0/stderr.log", oom(0)),
			log("l/none_x7/attempt_0/1/stderr.log", fine), log("l/none_x7/attempt_1/1/stderr.log", oom(1))}, " on 2 ranks, after",
			[]string{"told twice in 2 logs", "ranks 0, 1"}, 0},
		{"one of torchrun's", []input{log("l/none_x7/attempt_0/3/stderr.log", oom(3))}, " on GPU 3, after", nil, -1},
		{"two machines", []input{log("none_x7/attempt_0/0/stderr.log", oom(0)), log("none_x7/attempt_0/1/stderr.log", oom(1)),
			log("none_y8/attempt_0/0/stderr.log", oom(0)), log("none_y8/attempt_0/1/stderr.log", oom(1))},
			" on 2 GPUs, after", []string{"told 4 times in 4 logs", "GPUs 0, 1"}, -1},
		{"machines that count for themselves", []input{log("node0/rank0.log", oom(0)), log("node1/rank0.log", oom(0))},
			" on GPU 0, after", []string{"told twice in 2 logs"}, -1},
		{"marked lines", []input{log("rank0.log", "[rank2]: "+strings.Split(oom(2), "\n")[4]+"\n")}, " on rank 2, GPU 2: ", nil,
			2},
		{"a copy", []input{log("train.log", oom(0)), log("wandb/run-20250312_100211-ab/files/output.log", "$ python train.py\n"+
			oom(0))}, " on GPU 0, after", []string{"told twice in 2 logs"}, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, test.files...)
			if len(doc.Findings) != 1 || !strings.Contains(doc.Findings[0].Title, test.says) {
				t.Fatalf("found %+v, want one that says %q", doc.Findings, test.says)
			}
			if e := doc.Findings[0].Evidence; !strings.HasSuffix(test.files[0].name, strings.Split(e[0], ":")[0]) ||
				!slices.Equal(e[len(e)-len(test.evidence):], test.evidence) {
				t.Errorf("evidence %q, want %q in the end", e, test.evidence)
			}
			rank := -1
			if r := doc.Evidence.OOMMessages[0].Rank; r != nil {
				rank = *r
			}
			if rank != test.rank {
				t.Errorf("the first message is rank %d's, want %d", rank, test.rank)
			}
		})
	}
}

// TestEngineAccount: the arithmetic of an engine's GPU, and the share from which on
// its cache has room.
func TestEngineAccount(t *testing.T) {
	const account = "INFO worker.py:267] the current vLLM instance can use total_gpu_memory (16.00GiB) x gpu_memory_utilization " +
		"(0.50) = 8.00GiB\nINFO worker.py:267] model weights take 7.00GiB; non_torch_memory takes 0.50GiB; PyTorch activation " +
		"peak memory takes 1.50GiB; the rest of the memory reserved for KV Cache is "
	for _, test := range []struct {
		left, title, fix, row string
	}{
		{"-1.00GiB.\n", "vLLM has nothing left for its key-value cache: 7.00 GiB weights", "gpu_memory_utilization above 0.56",
			"=  -1.00 GiB  for the key-value cache: none"},
		{"2.00GiB.\n", "vLLM's account of the GPU: 7.00 GiB weights", "", "=   2.00 GiB  for the key-value cache"},
		{"2.00GiB.\nWARNING scheduler.py:1754] total_num_cumulative_preemption=7\n", "vLLM preempted requests 7 times",
			"A higher gpu_memory_utilization", "-   7.00 GiB  weights"},
	} {
		f := found(judged(t, input{name: "serve.log", text: account + test.left}), "engine_accounting")
		if f == nil || !strings.HasPrefix(f.Title, test.title) || !slices.Contains(f.Evidence, test.row) ||
			test.fix != "" && !strings.HasPrefix(*f.Fix, test.fix) || test.fix == "" && f.Fix != nil {
			t.Errorf("%q: %+v", test.left, f)
		}
	}
}
