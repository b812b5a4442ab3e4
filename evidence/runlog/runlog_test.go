package runlog

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

func parse(text string) *Report {
	var p Parser
	for i, line := range bytes.Split([]byte(text), []byte("\n")) {
		p.Line(i+1, line)
	}
	return p.Finish()
}

const message = "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 79.10 GiB of which 512.00 MiB is free. " +
	"Process 77 has 2.00 GiB memory in use. Including non-PyTorch memory, this process has 76.25 GiB memory in use. 78.00 GiB allowed; " +
	"Of the allocated memory 70.00 GiB is allocated by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), " +
	"and 5.25 GiB is reserved by PyTorch but unallocated."

// TestWrapping breaks a message at every width: wherever the terminal broke
// it, the figures are the same.
func TestWrapping(t *testing.T) {
	want := parse("torch.OutOfMemoryError: " + message).OOMs[0]
	if *want.RequestedBytes != 3<<29 || want.OtherProcesses[0] != (evidence.ProcessUse{PID: 77, Bytes: 2 << 30}) || *want.AllowedBytes != 78<<30 ||
		*want.PrivatePoolBytes != 5<<28 || *want.GPU != 3 {
		t.Fatalf("%+v", want)
	}
	for width := 40; width < len(message); width++ {
		text := "torch.OutOfMemoryError: " + message
		var lines []string
		for len(text) > width {
			lines = append(lines, text[:width])
			text = text[width:]
		}
		r := parse(strings.Join(append(lines, text, "next line"), "\n"))
		if len(r.OOMs) != 1 {
			t.Fatalf("width %d: %d messages", width, len(r.OOMs))
		}
		if found := r.OOMs[0]; !reflect.DeepEqual(found, want) {
			t.Errorf("width %d: %+v\nwant %+v", width, found, want)
		}
	}
}

// TestEndedProcess leaves out processes that the driver still lists, with nothing.
func TestEndedProcess(t *testing.T) {
	m := parse("torch.OutOfMemoryError: " + strings.Replace(message, "Process 77", "Process 2034 has 0 bytes memory in use. Process 77", 1)).OOMs[0]
	if len(m.OtherProcesses) != 1 || m.OtherProcesses[0].PID != 77 {
		t.Errorf("%+v", m.OtherProcesses)
	}
}

func TestUserFrame(t *testing.T) {
	oom := "\ntorch.OutOfMemoryError: " + message
	tests := []struct {
		name, trace, file string
		line              int
	}{
		{"python", "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\n  File \"/a/lib/python3.11/site-packages/torch/x.py\", line 9, in g\n    y()", "/a/train.py", 5},
		{"its own library", "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\n  File \"/usr/local/lib/python3.8/runpy.py\", line 9, in g\n    y()", "/a/train.py", 5},
		{"a finished trace", "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\nValueError: no\na\nb\nc\nd\ne\nf\ng", "", 0},
		{"another exception's", "Traceback (most recent call last):\n  File \"/a/fetch.py\", line 5, in f\n    x()\nurllib.error.HTTPError: HTTP Error 503\nretrying", "", 0},
		{"a head without its message", "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\nRuntimeError:", "/a/train.py", 5},
		{"a logger's first line", "ERROR:root:Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()", "/a/train.py", 5},
		{"our own hook", "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\n  File \"/o/vramscope-1/.hook/path/vramscope_hook/simulated_values.py\", line 308, in made\n    y()", "/a/train.py", 5},
		{"a new trace", "  File \"/a/old.py\", line 5, in f\nTraceback (most recent call last):\n  File \"/b/site-packages/x.py\", line 9, in g", "", 0},
		{"pytest", "/a/test_x.py:12: in test_x\n    model(x)\n/a/model.py:44: in forward\n    return y\n", "/a/model.py", 44},
		{"a cell", "Cell In[5], line 3\n----> 3 loss = model(x)\n", "Cell In[5]", 3},
		{"a cell of a CSV", "x,\"Traceback (most recent call last):\n  File \"\"/a/train.py\"\", line 5, in f\n    x()", "/a/train.py", 5},
		{"rich, a relative path", "│ src/train.py:12 in main  │\n│ ❱ 12   loss.backward()   │", "src/train.py", 12},
		{"rich", "│ /a/train.py:12 in step  │\n│ ❱ 12   loss.backward()   │", "/a/train.py", 12},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := parse(test.trace + oom).OOMs[0]
			if evidence.Or(m.UserFile, "") != test.file || evidence.Or(m.UserLine, 0) != test.line {
				t.Errorf("found %s:%d, want %s:%d", evidence.Or(m.UserFile, ""), evidence.Or(m.UserLine, 0), test.file, test.line)
			}
		})
	}
}

// TestOwnFrame looks past a PyTorch that runs from its source.
func TestOwnFrame(t *testing.T) {
	frames := func(files ...string) string {
		text := "Traceback (most recent call last):\n"
		for i, f := range files {
			text += fmt.Sprintf("  File \"%s\", line %d, in f\n    x()\n", f, i+1)
		}
		return text + "torch.OutOfMemoryError: " + message
	}
	for _, test := range []struct {
		log, user, own string
	}{
		{frames("/a/train.py", "/home/me/pytorch/torch/nn/functional.py", "/x/site-packages/y.py"), "/home/me/pytorch/torch/nn/functional.py", "/a/train.py"},
		{frames("/a/train.py", "/x/site-packages/torch/nn/functional.py"), "/a/train.py", "/a/train.py"},
		{frames(`C:\pytorch\torch\nn\functional.py`), `C:\pytorch\torch\nn\functional.py`, ""},
	} {
		if m := parse(test.log).OOMs[0]; evidence.Or(m.UserFile, "") != test.user || m.OwnFile != test.own {
			t.Errorf("found %s and %s, want %s and %s", evidence.Or(m.UserFile, ""), m.OwnFile, test.user, test.own)
		}
	}
}

// TestPhaseOfFunctions: a function's name tells a phase as a whole, or not at all.
func TestPhaseOfFunctions(t *testing.T) {
	for function, want := range map[string]string{
		"_apply": "setup", "_load_pretrained_model": "setup", "_apply_rotary_emb_qkv": "forward", "_apply_to_tensors": "forward", "generate": "generate", "generate_square_subsequent_mask": "forward",
	} {
		log := "Traceback (most recent call last):\n  File \"/a/model.py\", line 3, in forward\n    x()\n  File \"/a/rotary.py\", line 4, in " + function + "\n    y()\ntorch.OutOfMemoryError: " + message
		if m := parse(log).OOMs[0]; evidence.Or(m.Phase, "") != want {
			t.Errorf("%s: phase %q, want %q", function, evidence.Or(m.Phase, ""), want)
		}
	}
}

// TestRankOfMessage reads the marks that launchers put in front.
func TestRankOfMessage(t *testing.T) {
	for prefix, want := range map[string]int{
		"": -1, "[rank3]: ": 3, "[rank12]:[titan] ": 12, "[Rank 5] ": 5, "12: ": -1, "[default3]:": -1, "(Worker pid=77) ": -1, "ranked: ": -1,
		"[rank99999999999999999999]: ": -1,
	} {
		r := parse(prefix + "torch.OutOfMemoryError: " + message)
		if len(r.OOMs) != 1 || evidence.Or(r.OOMs[0].Rank, -1) != want {
			t.Errorf("%q: %+v, want rank %d", prefix, r.OOMs, want)
		}
	}
}

// TestRecords takes ranks from torchrun's list of failures, whose traceback.Traces
// have no rank of their own.
func TestRecords(t *testing.T) {
	oom := "torch.OutOfMemoryError: " + message
	record := func(rank int, text string) string {
		return fmt.Sprintf("[%d]:\n  time      : 2026-03-04_05:06:07\n  host      : node7\n  rank      : %d (local_rank: %d)\n  exitcode  : 1 (pid: 88)\n  error_file: /tmp/x/error.json\n  traceback : %s\n",
			rank, rank, rank%8, text)
	}
	trace := "Traceback (most recent call last):\n    File \"/a/train.py\", line 5, in f\n      x()\n  " + oom + "\n  "
	rule, border := strings.Repeat("-", 60)+"\n", strings.Repeat("=", 60)+"\n"
	list := border + "train FAILED\n" + rule + "Failures:\n" + record(0, trace) + record(9, trace) + rule + "Root Cause (first observed failure):\n" + record(12, trace) + border
	tests := []struct {
		name, log string
		ranks     []int
		first     int
	}{
		{"a list", list, []int{0, 9, 12}, 12},
		{"after the lines of one rank", "[rank0]: " + oom + "\nE0304 api.py:988] failed (exitcode: 1) local_rank: 4 (pid: 88) of binary: python\n" + list, []int{0, 0, 9, 12}, 12},
		{"no tracebacks", "[rank3]: " + oom + "\n" + rule + "Root Cause (first observed failure):\n" + record(3, "To enable traceback see: https://pytorch.org") + border, []int{3}, 3},
		{"below the list", list + oom, []int{0, 9, 12, -1}, 12},
		{"cut off", rule + "Failures:\n" + record(5, trace) + strings.Repeat("other output\n", 600) + oom, []int{5, -1}, -1},
		{"marks win", rule + "Failures:\n" + record(5, "[rank2]: "+oom), []int{2}, -1},
		{"other ranks", "rank: 3 (local_rank: none)\nmy rank is (local_rank: 2)\nrank 7 (local_rank: 7)\n" + oom, []int{3}, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := parse(test.log)
			var ranks []int
			for _, m := range r.OOMs {
				ranks = append(ranks, evidence.Or(m.Rank, -1))
			}
			first := -1
			for _, f := range r.Failures {
				if f.First {
					first = f.Rank
				}
			}
			if !slices.Equal(ranks, test.ranks) || first != test.first {
				t.Errorf("ranks %v, first %d", ranks, first)
			}
		})
	}
}

// TestRanksInterleaved keeps the traces of two ranks apart.
func TestRanksInterleaved(t *testing.T) {
	for _, marks := range [][2]string{
		{"[rank0]: ", "[rank1]: "},
		{"0: ", "1: "},                       // srun -l
		{"[default0]:", "[default1]:"},       // torchrun --tee
		{"[1,0]<stderr>:", "[1,1]<stderr>:"}, // mpirun --tag-output
		{"node-a: ", "node-b: "},             // pdsh
		{"trainer-0  | ", "trainer-1  | "},   // compose
		{"[pod/job-0/pytorch] ", "[pod/job-1/pytorch] "},
		{"(W pid=300, ip=10.0.0.1) ", "(W pid=300, ip=10.0.0.2) "},
		{"2026-05-01T12:00:00.1Z [default0]:", "2026-05-01T12:00:00.1Z [default1]:"},
	} {
		t.Run(marks[0], func(t *testing.T) {
			var log strings.Builder
			for i, line := range []string{"Traceback (most recent call last):", `  File "/a/%s.py", line 1, in f`, "    x()",
				"    y()", "    z()", "    ^^^", "torch.OutOfMemoryError: " + message} {
				for rank, mark := range marks {
					if i > 2 { // the clock goes on
						mark = strings.Replace(mark, "00.1Z", "01.5Z", 1)
					}
					fmt.Fprintln(&log, mark+strings.Replace(line, "%s", [...]string{"zero", "one"}[rank], 1))
				}
			}
			r := parse(log.String())
			if len(r.OOMs) != 2 || evidence.Or(r.OOMs[0].UserFile, "") != "/a/zero.py" || evidence.Or(r.OOMs[1].UserFile, "") != "/a/one.py" {
				t.Errorf("%+v", r.OOMs)
			}
		})
	}
}

// TestStrings reads messages and traces out of lines of JSON.
func TestStrings(t *testing.T) {
	trace := `Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\n`
	for name, log := range map[string]string{
		"a logger's":           `{"ts": "2026-05-01T12:00:00Z", "msg": "` + trace + `torch.OutOfMemoryError: ` + message + `"}`,
		"a container's":        `{"log": "Traceback (most recent call last):\n", "stream": "stderr"}` + "\n" + `{"log": "  File \"/a/train.py\", line 5, in f\n", "stream": "stderr"}` + "\n" + `{"log": "torch.OutOfMemoryError: ` + message + `\n", "stream": "stderr"}`,
		"a launcher's":         `{"message": {"message": "OutOfMemoryError: ` + message + `", "extraInfo": {"py_callstack": "` + trace + `", "timestamp": "1"}}}`,
		"a worker's, in a log": `worker died: 'Traceback (most recent call last):\n  File "/a/train.py", line 5, in f\n    x()\ntorch.OutOfMemoryError: ` + message + `\n'`,
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(log)
			if len(r.OOMs) != 1 || evidence.Or(r.OOMs[0].UserFile, "") != "/a/train.py" || evidence.Or(r.OOMs[0].UserLine, 0) != 5 || evidence.Or(r.OOMs[0].RequestedBytes, unknown) <= 0 {
				t.Errorf("%+v", r.OOMs)
			}
		})
	}
}

func TestStepForms(t *testing.T) {
	tests := []struct {
		name, line string
		step       int64
		loss       float64
		seconds    float64
		allocated  int64
		reserved   int64
	}{
		{"nanoGPT", "iter 10: loss 9.7188, time 2950.15ms, mfu 22.82%", 10, 9.7188, 2.95015, -1, -1},
		{"nanochat", "step 00123/16704 (0.99%) | loss: 2.427105 | lrm: 0.00 | dt: 644.50ms | tok/sec: 813,175 | epoch: 3 | total time: 179.42m", 123, 2.427105, 0.6445, -1, -1},
		{"modded-nanogpt", "step:7/20344 train_loss:2.8457 train_time:34635190ms step_avg:1703.57ms", 7, 2.8457, -1, -1, -1},
		{"verl", "step:1 - actor/pg_loss:0.01 - actor/grad_norm:0.5 - perf/max_memory_allocated_gb:45.5 - perf/max_memory_reserved_gb:55.25 - timing_s/step:12.1 - training/global_step:1", 1, 0.01, 12.1, 91 << 29, 221 << 28},
		{"torchtitan", "[rank0]:[titan] 2026-05-20 04:24:49,599 - root - INFO - \x1b[31mstep:  2  \x1b[32mloss: 10.46569  \x1b[38;2;54;234;195mmemory: 169.50GiB(94.81%)", 2, 10.46569, -1, 339 << 29, -1},
		{"Megatron", " iteration       12/    1000 | elapsed time per iteration (ms): 2000.5/1.0 | lm loss: 1.25E+01 | loss scale: 1024.0 | number of nan iterations:   0 |", 12, 12.5, 2.0005, -1, -1},
		{"active beside allocated", "{'loss': 1.5, 'step': 3, 'memory/max_active (GiB)': 3.0, 'memory/max_allocated (GiB)': 2.0}", 3, 1.5, -1, 2 << 30, -1},
		{"reserved", "step 3 loss 1.5 reserved 2.00 GiB", 3, 1.5, -1, -1, 2 << 30},
		{"bytes", "step 3 loss 1.5 mem 536870912", 3, 1.5, -1, 512 << 20, -1},
		{"no unit", "step 3 loss 1.5 mem 671", 3, 1.5, -1, -1, -1},
		{"decimal GB", "step 3 loss 1.5 mem 8.80GB", 3, 1.5, -1, 8_800_000_000, -1},
		{"not a number", "step 3 loss nan mem 1.00GiB", 3, math.NaN(), -1, 1 << 30, -1},
		{"OpenMMLab", "Epoch [1][50/7330]\tlr: 1.000e-02, time: 0.524, data_time: 0.05, memory: 3900, loss: 0.9", 50, 0.9, 0.524, 3900 << 20, -1},
		{"detectron2", "iter: 19  total_loss: 1.25  time: 0.3300  data_time: 0.01  lr: 1e-3  max_mem: 2391M", 19, 1.25, 0.33, 2391 << 20, -1},
		{"mmengine", "2024/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/7330]  lr: 1.9820e-03  eta: 1 day, 2:03:01  time: 1.0673  data_time: 0.0312  memory: 12345  loss: 5.9302  loss_cls: 4.1", 50, 5.9302, 1.0673, 12345 << 20, -1},
		{"Swin", "[2024-05-01 10:00:10 swin](main.py 245): INFO Train: [0/300][20/1251]\teta 1:00:00 lr 0.000001\t wd 0.0500\ttime 0.2912 (0.4000)\tloss 6.9 (6.9)\tloss_scale 65536.0 (65536.0)\tmem 11236MB", 20, 6.9, 0.2912, 11236 << 20, -1},
		{"timm", "Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.456s,  2245.61/s  (0.512s, 2000.00/s)  LR: 1.000e-06  Data: 0.012 (0.034)", 50, 6.94, 0.456, -1, -1},
		{"DINO", "Epoch: [0/100]  [  10/1251]  eta: 0:30:00  loss: 10.8 (10.9)  lr: 0.0000 (0.0000)  time: 0.5 data: 0.1  max mem: 15871", 10, 10.8, 0.5, 15871 << 20, -1},
		{"a total behind a slash", "step 3 loss 1.5 GPU memory allocated: 3.00 GB / 24.00 GB", 3, 1.5, -1, 3_000_000_000, -1},
		{"torchtune", "Step 2 | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:1210.5 peak_memory_active:20.1 peak_memory_alloc:20.25 peak_memory_reserved:22.5", 2, 1.5, -1, 81 << 28, 45 << 29},
		{"torchtune's names elsewhere", "Step 2 | loss:1.5 peak_memory_alloc:512.25", 2, 1.5, -1, -1, -1},
		{"litgpt", "Epoch 1 | iter 10 step 2 | loss train: 1.500, val: n/a | iter time: 300.50 ms (step)", 10, 1.5, 0.3005, -1, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var steps []evidence.Step
			p := Parser{OnStep: func(s evidence.Step) { steps = append(steps, s) }}
			p.Line(1, []byte(test.line))
			p.Finish()
			if len(steps) != 1 {
				t.Fatalf("%d steps", len(steps))
			}
			s := steps[0]
			sameLoss := s.Loss == test.loss || math.IsNaN(s.Loss) && math.IsNaN(test.loss)
			if s.Number != test.step || !sameLoss && math.Abs(s.Loss-test.loss) > 1e-9 || math.Abs(s.Seconds-test.seconds) > 1e-9 ||
				s.AllocatedBytes != test.allocated || s.ReservedBytes != test.reserved {
				t.Errorf("found %+v", s)
			}
		})
	}
}

// TestProgress counts steps by the training's bar where their lines have no number,
// and tells it from the bars of anything else.
func TestProgress(t *testing.T) {
	bar := func(name string, from, to, total int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%s%3d%%|##   | %d/%d [00:10<01:00,  2.00s/it]\n", name, 100*i/total, i, total)
		}
		return b.String()
	}
	const result, evaluation = "{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.4}\n", "{'eval_loss': 1.2, 'eval_runtime': 5.1, 'epoch': 0.4}\n"
	const memory = "{'loss': 1.5, 'memory/max_allocated (GiB)': 2.5, 'epoch': 0.4}\n"
	oom := "torch.OutOfMemoryError: " + message
	tests := []struct {
		name, log string
		count     int
		last      int64 // -1: no numbers
	}{
		{"the Trainer", bar("", 0, 10, 50) + result + bar("", 11, 13, 50), 13, 13},
		{"on one line", strings.ReplaceAll(bar("", 9, 10, 50), "\n", "") + result + bar("", 11, 13, 50), 5, 13},
		{"with evaluations", bar("", 0, 10, 50) + result + bar("", 0, 10, 10) + evaluation + bar("", 11, 20, 50) + result + bar("", 0, 10, 10) + evaluation, 20, 20},
		{"a longer evaluation", bar("", 0, 10, 50) + result + bar("", 0, 90, 90) + evaluation + bar("", 11, 20, 50) + result, 20, 20},
		{"out of memory in an evaluation", bar("", 0, 10, 50) + result + "***** Running Evaluation *****\n" + bar("", 0, 30, 90), 10, 10},
		{"results behind a buffer", bar("", 0, 20, 50) + bar("", 0, 10, 90) + result + result + evaluation + bar("", 11, 90, 90) + bar("", 21, 30, 50), 30, 30},
		{"results before the bar", result + bar("", 12, 12, 600), 1, 12},
		{"a logger's results", "[INFO|2025-01-10 11:02:41] callbacks:157 >> " + result + bar("", 12, 13, 600) + "[INFO|2025-01-10 11:03:41] callbacks:157 >> " + result, 2, 13},
		{"shards", bar("Loading checkpoint shards: ", 0, 4, 4) + result + result, 1, -1},
		{"another bar before", bar("", 0, 36, 36) + result + strings.Replace(result, "0.4", "0.5", 1), 2, -1},
		{"as long as was said", bar("", 0, 60, 60) + "Num Epochs = 1 | Total steps = 60\n" + result, 60, 60},
		{"a sampler's bar", bar("Steps: ", 1, 5, 1000) + bar("", 0, 50, 50) + bar("Steps: ", 6, 9, 1000), 9, 9},
		{"bars of epochs", bar("Epoch 0: ", 1, 5, 5) + bar("Validation DataLoader 0: ", 1, 4, 4) + bar("Epoch 1: ", 1, 5, 5), 10, 5},
		{"an outer bar", bar("Epoch: ", 0, 0, 3) + bar("Iteration: ", 1, 8, 8) + bar("Epoch: ", 1, 1, 3) + bar("Iteration: ", 1, 6, 8), 8, 6},
		{"numbered lines", bar("", 0, 10, 50) + "step 3 loss 1.5\nstep 4 loss 1.5\n", 2, 4},
		{"with memory", bar("", 9, 10, 50) + memory + bar("", 19, 20, 50) + strings.Replace(memory, "2.5", "3.5", 1), 4, 20},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := parse(test.log + oom)
			if s := r.Steps; s.Count != test.count || r.OOMs[0].AfterStep != test.last || evidence.Or(s.Last, -1) < 0 != (test.last < 0) {
				t.Errorf("%d steps from %d to %d of %g s, after %d", s.Count, evidence.Or(s.First, -1), evidence.Or(s.Last, -1), evidence.Or(s.MedianStepSeconds, -1), r.OOMs[0].AfterStep)
			}
			if test.name == "with memory" && (len(r.Steps.Curve) != 2 || r.Steps.Curve[1].Number != 20) {
				t.Errorf("%+v", r.Steps.Curve)
			}
		})
	}
}

// TestSurvival tells runs that went on after a failure from those whose last lines
// came out of a buffer only when they ended.
func TestSurvival(t *testing.T) {
	steps := func(mark string, from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%sstep %d loss %d.5\n", mark, i, 1+i)
		}
		return b.String()
	}
	bars := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "  1%%|##   | %d/500 [00:10<01:00,  2.00s/it]\n", i)
		}
		return b.String()
	}
	oom := "torch.OutOfMemoryError: " + message + "\n"
	skip := "| WARNING: ran out of memory with exception: " + message + "\n Skipping batch\n"
	tests := []struct {
		name, log string
		want      string // of each message whether and up to which step
	}{
		{"tried again from the beginning", steps("", 0, 7) + oom + steps("", 0, 8), "true 8"},
		{"steps out of a buffer", steps("", 0, 7) + oom + steps("", 8, 14), "false -1"},
		{"a batch that is skipped", steps("", 0, 7) + skip + steps("", 8, 14) + skip + steps("", 15, 15), "true 14, false -1"},
		{"a bar", bars(1, 37) + oom + bars(38, 44), "true 44"},
		{"a bar, and steps out of a buffer", bars(1, 37) + oom + steps("", 8, 14), "false -1"},
		{"nothing but the end of a step", bars(1, 37) + oom + bars(38, 39), "false -1"},
		{"another rank", "[rank1]: " + skip + steps("[rank0]: ", 8, 14), "false -1"},
		{"the buffers of several ranks", steps("", 0, 7) + steps("", 0, 7) + oom + steps("", 3, 9), "false -1"},
		{"both ranks started again", steps("", 5, 9) + "[rank1]: " + oom + "[rank0]: " + oom + steps("", 4, 9) + oom, "true 9, true 9, false -1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var found []string
			for _, m := range parse(test.log).OOMs {
				found = append(found, fmt.Sprint(m.WentOn, m.UpToStep))
			}
			if strings.Join(found, ", ") != test.want {
				t.Errorf("found %v, want %s", found, test.want)
			}
		})
	}
}

func TestNotSteps(t *testing.T) {
	for _, line := range []string{
		"step 250: train loss 3.1, val loss 3.2",
		"step:0/20344 val_loss:22.6137 train_time:278ms step_avg:nanms",
		" validation loss at iteration 100 | lm loss value: 4.4E-01 | lm loss PPL: 1.5E+00 |",
		"eval step 0: ppl so far 10.98, 11.83 GiB",
		"total steps 10 (warmup 600), loss reduction mean",
		"gradient accumulation steps 1, memory 5.00 GiB",
		"<img src=\"./step-2.png\" width=\"50%\"> memory 7.2GB",
		"        print(f'step:{step}/{args.n} loss:{loss:.4f}')",
		"Loading checkpoint shards: 100%|#####| 8/8 [00:10<00:00,  1.27s/it]",
		"[0] NVIDIA A100-SXM4-80GB | 35'C,  99 % | 70000 / 81920 MB | me(69900M)",
		"RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes.",
		"[2026-07-01] max_total_num_tokens=81920, context_len=4096, avail mem=62.11 GB",
		"+ python train.py --steps 1000 --lr 1e-4",
		"+ ARGS='  --num-layers 64  --train-iters 1000  --lr 1.5e-4  '",
	} {
		if r := parse(line); r.Steps.Count != 0 || evidence.Or(r.Steps.MaxMemoryBytes, unknown) > 0 && !strings.Contains(line, "GiB") {
			t.Errorf("%q is %d steps with %d bytes", line, r.Steps.Count, evidence.Or(r.Steps.MaxMemoryBytes, unknown))
		}
	}
}

// TestUnits takes MB and GB for what those who print them mean by that.
func TestUnits(t *testing.T) {
	for _, test := range []struct {
		line                string
		allocated, reserved int64
	}{
		{"Peak reserved memory = 7.500 GB.", unknown, 15 << 29},
		{"  train_mem_gpu_peaked_delta =    12345MB", 12345 << 20, unknown},
		{"  init_mem_gpu_alloc_delta   =     2048MB", 2 << 30, unknown},
		{"Allocated: 2.5 GB", 5 << 29, unknown},
		{"Allocated: 2.50 GB", 2_500_000_000, unknown},
		{"GPU memory allocated: 2.5 GB", 2_500_000_000, unknown},
		{"[RANK:0] GPU memory usage after model load: 5.500GB (+0.125GB cache, +1.022GB misc)", 11 << 29, 11<<29 + 1<<27},
		{"GPU memory usage after model load: 5.500GB", 5_500_000_000, unknown},
	} {
		if s := parse(test.line).Steps; s.OnlyReserved != (test.allocated == unknown) || evidence.Or(s.MaxReservedBytes, unknown) != test.reserved ||
			*s.MaxMemoryBytes != max(test.allocated, unknown) && *s.MaxMemoryBytes != test.reserved {
			t.Errorf("%q: %v at most, %v reserved", test.line, s.MaxMemoryBytes, s.MaxReservedBytes)
		}
	}
}

// TestStats reads memory_stats() in whatever form it was kept.
func TestStats(t *testing.T) {
	want := evidence.MemorySummary{AllocatedBytes: known(1 << 30), PeakAllocatedBytes: known(2 << 30), ReservedBytes: known(3 << 30),
		PeakReservedBytes: known(4 << 30), OOMs: known(1)}
	lines := strings.Split(fmt.Sprintf("'allocated_bytes.all.allocated', 5|'allocated_bytes.all.current', %d|'allocated_bytes.all.peak', %d|'num_ooms', 1|'reserved_bytes.all.current', %d|'reserved_bytes.all.peak', %d",
		*want.AllocatedBytes, *want.PeakAllocatedBytes, *want.ReservedBytes, *want.PeakReservedBytes), "|")
	tests := []struct {
		name, text string
		count      int
	}{
		{"a line", "OrderedDict([(" + strings.Join(lines, "), (") + ")])", 1},
		{"lines", "OrderedDict([(" + strings.Join(lines, "),\n             (") + ")])", 1},
		{"JSON", "{" + strings.NewReplacer("', ", "\": ", "'", "\"").Replace(strings.Join(lines, ",\n")) + "}", 1},
		{"two", "gpu 0 " + strings.Join(lines, ", ") + "\ngpu 1 " + strings.Join(lines, ", "), 2},
		{"one figure", lines[2], 0},
		{"of a step", "{'step': 3, 'loss': 2.5, " + strings.Join(lines, ", ") + "}", 0},
	}
	for _, test := range tests {
		r := parse(test.text)
		if len(r.Summaries) != test.count {
			t.Errorf("%s: %+v", test.name, r.Summaries)
			continue
		}
		for _, s := range r.Summaries {
			if s.Line = 0; !reflect.DeepEqual(s, want) {
				t.Errorf("%s: %+v", test.name, s)
			}
		}
	}
}

// TestColumns reads the tables of Ultralytics, in both kinds of bars.
func TestColumns(t *testing.T) {
	const head = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
	const row = "        %d/3      %sG      1.231      3.111      1.201         25        640: "
	for _, test := range []struct {
		name, log string
		steps     int
		reserved  int64
	}{
		{"bars", head + fmt.Sprintf(row, 1, "2.41") + "100%|██████████| 50/50 [00:20<00:00,  2.50it/s]\n" + fmt.Sprintf(row, 2, "2.71") + "100%|██████████| 50/50 [00:18<00:00,  2.70it/s]\n" +
			"                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 4/4 [00:01<00:00,  3.0it/s]", 2, 2_710_000_000},
		{"lines", head + fmt.Sprintf(row, 1, "2.5") + "100% ━━━━━━━━━━━━ 50/50 2.5it/s 20.1s\n", 1, 5 << 29},
		{"on the host", head + fmt.Sprintf(row, 1, "0") + "100% ━━━━━━━━━━━━ 50/50 2.5it/s 20.1s\n", 1, unknown},
		{"without a head", fmt.Sprintf(row, 1, "2.5") + "100% ━━━━━━━━━━━━ 50/50 2.5it/s 20.1s\n", 0, unknown},
	} {
		if r := parse(test.log); r.Steps.Count != test.steps || evidence.Or(r.Steps.MaxReservedBytes, unknown) != test.reserved || !r.Steps.OnlyReserved && r.Steps.MaxMemoryBytes != nil {
			t.Errorf("%s: %+v", test.name, r.Steps)
		}
	}
}

// TestHostFailures tells failures of the host's memory from those of a GPU's.
func TestHostFailures(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in <module>\n    x = torch.empty(n)\n"
	tests := []struct {
		log       string
		requested int64 // 0: no failure
		file      string
	}{
		{"RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 (Cannot allocate memory)", 16 << 30, ""},
		{trace + "RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate 536870912 bytes.", 512 << 20, "/home/u/train.py"},
		{"DefaultCPUAllocator holds 3.00 GiB of memory", 0, ""},
		{trace + "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 37.5 GiB for an array with shape (100663296, 50) and data type float64", 75 << 29, "/home/u/train.py"},
		{"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 298. GiB for an array with shape (200000, 200000) and data type float64", 298 << 30, ""},
		{"RuntimeError: unable to mmap 1073741824 bytes from file </dev/shm/torch_12>: Cannot allocate memory (12)", 1 << 30, ""},
		{"E tensorflow.ResourceExhaustedError: OOM when allocating tensor with shape[1024,1024] and type half on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu", 2 << 20, ""},
		{"slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch. Some of the step tasks have been OOM Killed.", unknown, ""},
		{"[12.3] Memory cgroup out of memory: Killed process 4242 (python) total-vm:98765432kB, anon-rss:65432100kB, file-rss:0kB", unknown, ""},
		{"      Reason:       OOMKilled", unknown, ""},
		{trace + "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.", unknown, "/home/u/train.py"},
		{"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", unknown, ""},
		{"pods that are OOMKilled, the oom_kill event counter, and a Killed process", 0, ""},
		{"torch.OutOfMemoryError: " + message, 0, ""},
		{"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 298. GiB for an array with shape (200000, 200000) and data type float64", 298 << 30, ""},
		{"srun: error: gpu14: task 0: Out Of Memory", unknown, ""},
		{"srun: error: gpu14: task 0: Exited with exit code 1", 0, ""},
		{trace + "MemoryError", unknown, "/home/u/train.py"},
		{"    raise MemoryError", 0, ""},
		{"terminate called after throwing an instance of 'std::bad_alloc'", unknown, ""},
		{"MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/mr/device/cuda_memory_resource.hpp", 0, ""},
		{"catch (std::bad_alloc) {}", 0, ""},
		{"OSError: [WinError 1455] The paging file is too small for this operation to complete.", unknown, ""},
		{"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", unknown, ""},
		{"=>> PBS: job killed: mem 67108864kb exceeded limit 62914560kb", unknown, ""},
		{"=>> PBS: job killed: walltime 3601 exceeded limit 3600", 0, ""},
	}
	for _, test := range tests {
		r := parse(test.log)
		switch {
		case test.requested == 0:
			if len(r.HostFailures) > 0 {
				t.Errorf("%q: %+v", test.log, r.HostFailures)
			}
		case len(r.HostFailures) != 1 || evidence.Or(r.HostFailures[0].RequestedBytes, unknown) != test.requested || r.HostFailures[0].UserFile != test.file ||
			len(r.OOMs) > 0 || r.Steps.Count > 0 || evidence.Or(r.Steps.MaxMemoryBytes, unknown) > 0 || !r.IsTrainingLog():
			t.Errorf("%q: %+v", test.log, r)
		}
	}
}

// TestSignals keeps what a shell and launchers say of programs that signal 9 ended.
func TestSignals(t *testing.T) {
	const listedKill = "4f3a           vllm      2 hours ago   Exited (137) 4 minutes ago   vllm"
	for line, want := range map[string]int{
		"Killed": 1, "run.sh: line 3: 12345 Killed                  python train.py": 1,
		"E0312 10:05:42.512000 40911 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 40951) of binary: /opt/python": 1,
		"Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 46)":                                                   1,
		"Failures:\n[1]:\n  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 47)":                                                                              0,
		"[2025-02-03 14:13:06,121] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9":              1,
		"Process finished with exit code 137 (interrupted by signal 9:SIGKILL)":                                                                                     1, "exit code 1370": 0, "      Exit Code:    137": 1,
		"[1]    31241 killed     python train.py": 1, "[1]  + 31241 killed     python train.py": 1, "[3] was killed  by": 0, "zsh: killed     python train.py": 1,
		"traceback : Signal 9 (SIGKILL) received by PID 46": 1, "Killed it.": 0, "| Killed  |": 0,
		"[1]+  Killed                  python train.py": 1, "[1]+  Getötet                 python train.py": 1, "Getötet": 1, "Processus arrêté": 1,
		"Terminado (killed)": 1, "已杀死": 1, "Убито": 1, "Getötet wurde": 0, "[1] step Killed  x": 0,
		"CONTAINER ID   IMAGE     CREATED       STATUS                     NAMES\n" + listedKill: 1, listedKill + "\nTraining completed.": 0, listedKill + "\n" + listedKill: 0,
		"Training completed.\n" + listedKill: 0, "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nValueError: bad\n" + listedKill: 0,
	} {
		if r := parse("step 1 loss 2.5\nstep 2 loss 2.4\n" + line); len(r.HostFailures) != want || r.Steps.Count != 2 || want > 0 && r.HostFailures[0].By != evidence.BySignal {
			t.Errorf("%q: %+v", line, r.HostFailures)
		}
	}
	worker := parse("RuntimeError: DataLoader worker (pid(s) 4122) exited unexpectedly")
	if len(worker.HostFailures) != 1 || worker.HostFailures[0].By != evidence.ByWorker || worker.HostFailures[0].Sure() {
		t.Errorf("%+v", worker.HostFailures)
	}
	if r := parse(listedKill + "\nstep 1 loss 2.5\nstep 2 loss 2.4"); len(r.HostFailures) != 0 || r.Steps.Count != 2 {
		t.Errorf("steps follow: %+v", r.HostFailures)
	}
	if r := parse(listedKill); len(r.HostFailures) != 1 || !r.IsTrainingLog() {
		t.Errorf("a list alone: %+v", r.HostFailures)
	}
	if parse("Killed").IsTrainingLog() {
		t.Error("a word is a log")
	}
}

// TestOtherFailures reads what others than PyTorch's allocator say when a GPU has no more memory.
func TestOtherFailures(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in <module>\n    step()\n"
	u := unknown
	tests := []struct {
		log, by                            string
		gpu                                int
		requested, free, capacity, allowed int64
	}{
		{trace + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "CUBLAS_STATUS_ALLOC_FAILED", -1, u, u, u, u},
		{trace + "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", -1, u, u, u, u},
		{"node1:200:300 [3] include/alloc.h:103 NCCL WARN Cuda failure 2 'out of memory'", "NCCL", 3, u, u, u, u},
		{trace + "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled cuda error (run with NCCL_DEBUG=INFO for details)\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 608 bytes", "NCCL", -1, 608, u, u, u},
		{trace + "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", "XLA", -1, 16 << 30, u, u, u},
		{trace + "ResourceExhaustedError: OOM when allocating tensor with shape[256,512,1024,3] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc", "TensorFlow", 1, 3 << 29, u, u, u},
		{"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14336.00 MiB on device 0: cudaMalloc failed: out of memory", "llama.cpp", 0, 14 << 30, u, u, u},
		{trace + "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 12,884,901,888 bytes).", "CuPy", -1, 8 << 30, u, u, u},
		{"Out of memory error on GPU 2. Cannot allocate 1.250000GB memory on GPU 2, 14.500000GB memory has been allocated and available memory is only 512.000000MB.", "Paddle", 2, 5 << 28, 1 << 29, u, u},
		{"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "vLLM", -1, u, u, u, u},
		{"ValueError: Free memory on device cuda:0 (10.25/23.5 GiB) on startup is less than desired GPU memory utilization (0.9, 21.25 GiB).", "vLLM", -1, 85 << 28, 41 << 28, 47 << 29, u},
		{"ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.50 GiB).", "vLLM", -1, 16 << 30, u, u, 7 << 29},
		{"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "sglang", -1, u, u, u, u},
		{"torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 22.50 GiB\nRequested               : 1.50 GiB\nDevice limit            : 24.00 GiB\nFree (according to CUDA): 0 bytes\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB", "cudaMallocAsync", 0, 3 << 29, 0, 24 << 30, u},
		{"OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated : 12.20 GiB Requested : 1.50 GiB Device limit : 16.00 GiB Free (according to CUDA): 0 bytes PyTorch limit (set by user-supplied memory fraction) : 12.00 GiB", "cudaMallocAsync", 0, 3 << 29, 0, 16 << 30, 12 << 30},
		{"[TensorRT-LLM][ERROR] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)", "TensorRT", -1, u, u, u, u},
		{"THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory", "THC", -1, u, u, u, u},
		{"numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", "CUDA", -1, u, u, u, u},
		{"If you see `CUBLAS_STATUS_ALLOC_FAILED` or CUDNN_STATUS_ALLOC_FAILED, lower the batch size.", "", 0, 0, 0, 0, 0},
		{"if (err == cudaErrorMemoryAllocation) { return CUBLAS_STATUS_ALLOC_FAILED; }", "", 0, 0, 0, 0, 0},
		{"RESOURCE_EXHAUSTED means out of memory in JAX, \"No available memory for the cache blocks\" in vLLM.", "", 0, 0, 0, 0, 0},
		{"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.", "", 0, 0, 0, 0, 0},
		{"2024-05-01 12:00:00: W tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 12.50GiB with freed_by_count=0. The caller indicates that this is not a failure", "", 0, 0, 0, 0, 0},
		{trace + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", -1, u, u, u, u},
		{"2025-03-12 10:00:01.2: W tensorflow/core/framework/op_kernel.cc:1745] OP_REQUIRES failed at conv_ops.cc:574 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,512,112,112] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc", "TensorFlow", 0, 64 * 512 * 112 * 112 * 4, u, u, u},
		{"(EngineCore_0 pid=271) ERROR 08-20 10:11:12 [core.py:700] RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", "vLLM's sampler", -1, u, u, u, u},
		{trace + "RuntimeError: No executable batch size found, reached zero.", "accelerate", -1, u, u, u, u},
		{trace + "    raise RuntimeError(f'Not enough memory, use lower resolution (max approx. {max_res}x{max_res}). '\nRuntimeError: Not enough memory, use lower resolution (max approx. 1024x1024). Need: 8.5GB free, Have:6.5GB free", "split attention", -1, 17 << 29, 13 << 29, u, u},
		{"2025-03-12T10:00:00.000000Z ERROR warmup{max_input_length=4095}:warmup: text_generation_client: Server error: Not enough memory to handle 4145 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\nError: Warmup(Generation(\"Not enough memory to handle 4145 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\"))", "TGI", -1, u, u, u, u},
		{"grpc: RESOURCE_EXHAUSTED: Quota exceeded for requests per minute", "", 0, 0, 0, 0, 0},
	}
	for _, test := range tests {
		r := parse(test.log)
		if evidence.Or(r.Steps.MaxMemoryBytes, unknown) > 0 {
			t.Errorf("%q reports memory in use", test.log)
		}
		if test.by == "" {
			if len(r.OOMs)+len(r.HostFailures) > 0 || r.IsTrainingLog() {
				t.Errorf("%q: %+v", test.log, r)
			}
			continue
		}
		if len(r.OOMs) != 1 {
			t.Errorf("%q: %+v", test.log, r)
			continue
		}
		m := r.OOMs[0]
		if got, want := fmt.Sprint(m.By, evidence.Or(m.GPU, -1), evidence.Or(m.RequestedBytes, unknown), evidence.Or(m.DeviceFreeBytes, unknown), evidence.Or(m.CapacityBytes, unknown), evidence.Or(m.AllowedBytes, unknown)),
			fmt.Sprint(test.by, test.gpu, test.requested, test.free, test.capacity, test.allowed); got != want {
			t.Errorf("%q: %s, want %s", test.log, got, want)
		}
		if strings.HasPrefix(test.log, trace) != (evidence.Or(m.UserFile, "") == "/home/u/train.py") {
			t.Errorf("%q is placed at %q", test.log, evidence.Or(m.UserFile, ""))
		}
	}
}

// TestUnsure reads failures that are often of memory, and none of them where a
// kernel had failed before.
func TestUnsure(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in <module>\n    step()\n"
	const failed = "Loss.cu:242: nll_loss: block: [0,0,0], thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
	tests := []struct{ log, by string }{
		{trace + "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "CUBLAS_STATUS_NOT_INITIALIZED"},
		{trace + "RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`", "CUSOLVER_STATUS_INTERNAL_ERROR"},
		{trace + "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED"},
		{trace + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\nYou can try to repro this exception using the following code snippet.", "CUDNN_STATUS_INTERNAL_ERROR"},
		{trace + "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "cuDNN"},
		{trace + "RuntimeError: FIND was unable to find an engine to execute this computation", "cuDNN"},
		{trace + "RuntimeError: GET was unable to find an engine to execute this computation", "cuDNN"},
		{"2023-01-02 03:04:05.6: E tensorflow/stream_executor/cuda/cuda_dnn.cc:328] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_INTERNAL_ERROR"},
		{failed + trace + "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", ""},
		{"torch.AcceleratorError: CUDA error: device-side assert triggered\n" + trace + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", ""},
		{trace + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", ""},
		{"On CUDNN_STATUS_NOT_INITIALIZED lower the batch size.", ""},
	}
	for _, test := range tests {
		by := ""
		for _, m := range parse(test.log).OOMs {
			by += m.By
			if !m.Unsure || strings.HasPrefix(test.log, trace) != (evidence.Or(m.UserFile, "") == "/home/u/train.py") {
				t.Errorf("%q: %+v", test.log, m)
			}
		}
		if by != test.by {
			t.Errorf("%q is by %q, want %q", test.log, by, test.by)
		}
	}
}

// TestDistinctSteps counts every step once, whoever reports it again.
func TestDistinctSteps(t *testing.T) {
	var b strings.Builder
	for step := 0; step < 10_000; step += 10 {
		for rank := 0; rank < 4; rank++ {
			fmt.Fprintf(&b, "rank %d step %d loss 1.0\n", rank, step)
		}
		if step == 5000 { // resumed from a checkpoint
			for again := 4000; again <= 5000; again += 10 {
				fmt.Fprintf(&b, "rank 0 step %d loss 1.0\n", again)
			}
		}
	}
	s := parse(b.String()).Steps
	if s.Count != 1000 || evidence.Or(s.First, -1) != 0 || evidence.Or(s.Last, -1) != 9990 {
		t.Errorf("%d steps from %d to %d", s.Count, evidence.Or(s.First, -1), evidence.Or(s.Last, -1))
	}
}

func TestEpochsRestartSteps(t *testing.T) {
	r := parse("Epoch 1\nstep 0 loss 1.0\nstep 1 loss 1.0\nEpoch 2\nstep 0 loss 1.0\nstep 1 loss 1.0\n")
	if r.Steps.Count != 4 {
		t.Errorf("%d steps", r.Steps.Count)
	}
}

func TestMedianOfMany(t *testing.T) {
	var m median
	for i := 0; i < 3*medianKept; i++ {
		m.add(1 + float64(i%1000)/1000)
	}
	if v := m.value(); math.Abs(v-1.5) > 0.005 {
		t.Errorf("median %g, want 1.5", v)
	}
}

func TestNumberSetIsBounded(t *testing.T) {
	var s numberSet
	for i := int64(0); i < maxPages+10; i++ {
		if !s.add(0, i<<12) {
			t.Fatalf("step %d is new", i<<12)
		}
	}
	if len(s.pages) > maxPages || s.add(0, 0) {
		t.Errorf("%d pages", len(s.pages))
	}
}

// TestFeatures holds the one-pass search to what bytes.Contains finds.
func TestFeatures(t *testing.T) {
	for _, w := range words {
		for _, line := range []string{w.word, "x" + w.word, w.word + "y", "aa" + w.word + w.word} {
			if featuresOf([]byte(line))&w.is == 0 {
				t.Errorf("%q in %q is not found", w.word, line)
			}
		}
	}
	if f := featuresOf([]byte("2026-01-02 03:04:05 INFO worker 3 fetched shard 17 of the data set")); f != 0 {
		t.Errorf("an ordinary line has features %b", f)
	}
}

func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in f\n    x()\ntorch.OutOfMemoryError: " + message,
		"RuntimeError: CUDA out of mem\nory. Tried to allocate 20.00 MiB (GPU 0; 7.76 GiB total capacity; 1.60 GiB already allocated; 26.31 MiB free; 1.66 GiB reserved in total by PyTorch)",
		"|  PyTorch CUDA memory summary, device ID 0  |\n| CUDA OOMs: 0 | x |\n| Allocated memory | 15281 MiB | 15656 MiB |\n|====|",
		"\x1b[31mstep:  1  \x1b[32mloss: 12.5\nstep 1/2 loss 1,000.5e-3 mem 8GB\n",
		"{'loss': 0.48, 'epoch': 0.2}\n 10%|#   | 1/10 [00:01<00:09,  1.0s/it, loss=2]\n",
		"0 1.5 3\n1 1.4 3\n[2] 1.3\n[3] 1.2\n",
		"2026-01-02 03:04:05 step 1 loss 2.5\n2026-01-02 03:04:06 step 2 loss 1e-3 \nstep 3: loss nan\nstep 4: loss 1.25\n",
		"/a/b.py in f(x)\n---> 12 code\nCell In[3], line 4\nRuntimeError: HIP out of memory. Tried to allocate",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if with, without := read(data, true), read(data, false); with != without {
			t.Fatalf("with templates\n%s\nwithout\n%s", with, without)
		}
		r := parse(string(data))
		for _, m := range r.OOMs {
			if evidence.Or(m.RequestedBytes, unknown) < unknown || evidence.Or(m.ReservedUnallocatedBytes, unknown) < unknown || m.Line < 1 {
				t.Fatalf("%+v", m)
			}
		}
		s := r.Steps
		if s.Count < 0 || s.Count == 0 && (evidence.Or(s.First, -1) >= 0 || evidence.Or(s.Last, -1) >= 0) || math.IsNaN(evidence.Or(s.MedianStepSeconds, -1)) || len(s.Curve) > 2*curvePoints {
			t.Fatalf("%+v", s)
		}
	})
}

// TestHeadsOfOneLine: a line of nothing but beginnings of messages costs as much as
// its bytes; so many of them are no messages.
func TestHeadsOfOneLine(t *testing.T) {
	line := strings.Repeat("RuntimeError: CUDA out of memory. Tried to allocate ", 100_000)
	if n := len(parse(line).OOMs); n != oomsInLine {
		t.Errorf("%d messages, want %d", n, oomsInLine)
	}
}

// TestManyFailures: of a log that repeats one failure for ever, what isn't kept is counted and not read.
func TestManyFailures(t *testing.T) {
	var p Parser
	lines := []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.",
		"Including non-PyTorch memory, this process has 78.00 GiB memory in use."}
	for i := range maxEntries + 7 {
		for k, line := range lines {
			p.Line(2*i+k+1, []byte(line))
		}
	}
	p.Line(2*maxEntries+15, []byte("{'loss': 1.5, 'step': 3}"))
	r := p.Finish()
	if len(r.OOMs) != maxEntries || r.Dropped != 7 {
		t.Errorf("%d kept, %d dropped", len(r.OOMs), r.Dropped)
	}
	if last := r.OOMs[maxEntries-1]; last.ProcessBytes == nil || last.Line != 2*maxEntries-1 {
		t.Errorf("the last one kept is %+v", last)
	}
	if r.Steps == nil || r.Steps.Count != 1 {
		t.Errorf("steps behind them: %+v", r.Steps)
	}
}

// TestRefusedByNvMap: what the driver, or PyTorch for want of NVML, says behind NvMap's lines is of what those asked for.
func TestRefusedByNvMap(t *testing.T) {
	for _, said := range []string{"torch.AcceleratorError: CUDA error: out of memory",
		`RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/c10/cuda/CUDACachingAllocator.cpp":1131`} {
		list := parse("NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0\n" + said).OOMs
		if len(list) != 1 || list[0].By != "NvMap" || list[0].Line != 3 || *list[0].RequestedBytes != 1075072515 {
			t.Errorf("%+v", list)
		}
	}
}
