package logs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

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

// TestEngineAccount: the arithmetic of an engine's GPU, and the share from which on
// its cache has room.
func TestEngineAccount(t *testing.T) {
	const account = "INFO worker.py:267] the current vLLM instance can use total_gpu_memory (16.00GiB) x " +
		"gpu_memory_utilization (0.50) = 8.00GiB\n" +
		"INFO worker.py:267] model weights take 7.00GiB; non_torch_memory takes 0.50GiB; PyTorch activation " +
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

// TestRoomForACache: from which share of the GPU on there is room, and where no share gives any.
func TestRoomForACache(t *testing.T) {
	for _, test := range []struct {
		name   string
		engine evidence.Engine
		title  string // begins the finding's, "": nothing is told
		fix    string // a part, "" for none
		not    string
	}{
		{"one figure", evidence.Engine{Name: "vLLM", Weights: 40 * gib}, "", "", ""},
		{"room", evidence.Engine{Name: "vLLM", Total: 80 * gib, Weights: 40 * gib, Cache: 1, CacheKnown: true},
			"vLLM's account", "", ""},
		{"none", evidence.Engine{Name: "vLLM", Total: 80 * gib, Weights: 40 * gib, CacheKnown: true}, "vLLM has nothing left",
			"gpu_memory_utilization above 0.50: ", ""},
		{"less than none", evidence.Engine{Name: "vLLM", Total: 80 * gib, Weights: 40 * gib, Cache: -gib, CacheKnown: true},
			"vLLM has nothing left", "gpu_memory_utilization above 0.50: ", ""},
		{"with all that it needs", evidence.Engine{Name: "sglang", Total: 80 * gib, Weights: 40 * gib, Activations: 8 * gib,
			Outside: 8 * gib, CacheKnown: true}, "sglang has nothing left", "--mem-fraction-static above 0.70: ", ""},
		{"just below all", evidence.Engine{Name: "vLLM", Total: 100 * gib, Weights: 97*gib - 1, CacheKnown: true},
			"vLLM has nothing left", "above 0.97", ""},
		{"nearly all", evidence.Engine{Name: "vLLM", Total: 100 * gib, Weights: 97 * gib, CacheKnown: true},
			"vLLM has nothing left", "97 % of the GPU", "above"},
		{"all", evidence.Engine{Name: "vLLM", Total: 100 * gib, Weights: 100 * gib, CacheKnown: true}, "vLLM has nothing left",
			"Quantised weights", "%"},
		{"of a GPU of unknown size", evidence.Engine{Name: "TGI", Weights: 40 * gib, CacheKnown: true}, "TGI has nothing left",
			"--num-shard", "above"},
		{"preempted", evidence.Engine{Name: "TensorRT-LLM", Weights: 40 * gib, Cache: 20 * gib, CacheKnown: true, Preemptions: 1},
			"TensorRT-LLM preempted requests once", "tp_size", ""},
	} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{{Steps: &evidence.Steps{}, Engine: test.engine}}
		f := found(added(ev), "engine_accounting")
		switch {
		case test.title == "":
			if f != nil {
				t.Errorf("%s: %+v", test.name, f)
			}
		case f == nil || !strings.HasPrefix(f.Title, test.title) || (f.Fix != nil) != (test.fix != ""):
			t.Errorf("%s: %+v", test.name, f)
		case f.Fix != nil && (!strings.Contains(*f.Fix, test.fix) || test.not != "" && strings.Contains(*f.Fix, test.not)):
			t.Errorf("%s: %s", test.name, *f.Fix)
		case (f.Severity == report.Warning) != (f.Fix != nil):
			t.Errorf("%s: %s", test.name, f.Severity)
		}
	}
}

// TestFailureOfAnEngine: that it has no room for its cache is answered with the share from which on
// it has; of a worker of the same engine it is told what it took.
func TestFailureOfAnEngine(t *testing.T) {
	engine := evidence.Engine{Name: "vLLM", Total: 80 * gib, Weights: 40 * gib, CacheKnown: true}
	ev := ofLog(failed(1, 0, withoutFigures, by("vLLM")))
	ev.Logs[0].Engine = engine
	if f := found(added(ev), "oom_true_shortage"); f == nil || !strings.HasPrefix(*f.Fix, "gpu_memory_utilization above 0.50: ") {
		t.Errorf("its cache: %+v", f)
	}
	engine.Cache = gib
	ev.Logs[0].Engine = engine
	if f := found(added(ev), "oom_true_shortage"); f == nil || strings.Contains(*f.Fix, "above 0.50") {
		t.Errorf("with a cache: %+v", f)
	}
	for server, want := range map[string]bool{"vLLM": true, "sglang": false, "": false} {
		ev := ofLog(failed(1, 2*gib, func(m *evidence.OOMMessage) { m.Scene.Server = server }))
		ev.Logs[0].Engine = engine
		f := found(added(ev), "oom_true_shortage")
		if got := strings.Contains(strings.Join(f.Evidence, "\n"), "vLLM took 40.00 GiB weights, 1.00 GiB"); got != want {
			t.Errorf("a worker of %q: %q", server, f.Evidence)
		}
	}
}

// TestPhaseReadings: of a trainer's readings the most is told, and the least where it is less.
func TestPhaseReadings(t *testing.T) {
	reading := func(when string, used, allocated, total int64) evidence.PhaseReading {
		return evidence.PhaseReading{When: when, Used: used, Allocated: allocated, Reserved: -1, Total: total}
	}
	type readings = []evidence.PhaseReading
	for _, test := range []struct {
		name     string
		readings readings
		want     string // of the verdict, behind its first words
	}{
		{"one", readings{reading("before it", 8*gib, -1, -1)}, "8.00 GiB in use before it"},
		{"of a GPU", readings{reading("before it", 8*gib, -1, 80*gib)}, "8.00 GiB of 80.00 GiB in use before it"},
		{"two", readings{reading("before", 8*gib, -1, -1), reading("within", 60*gib, -1, 80*gib), reading("after", 2*gib, -1,
			-1)},
			"60.00 GiB of 80.00 GiB in use within, 2.00 GiB after"},
		{"two alike", readings{reading("before", 8*gib, -1, -1), reading("after", 8*gib, -1, -1)}, "8.00 GiB in use before"},
		{"by what is allocated", readings{reading("before", -1, 3*gib, -1), reading("after", gib, 4*gib, -1)},
			"4.00 GiB in use after, 3.00 GiB before"},
	} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{{Steps: &evidence.Steps{}}, {Source: 1, Steps: &evidence.Steps{}, Phases: test.readings}}
		if got := added(ev).Verdict.Text; got != "No failure found: "+test.want {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

// TestSettingsTold: what a tracker says of how a run was set, as far as it does.
func TestSettingsTold(t *testing.T) {
	ev := evidence.New()
	ev.Parameters = []evidence.Parameters{{Tracker: "wandb"}}
	if v := added(ev).Verdict; v.Text != "" {
		t.Errorf("nothing is said: %q", v.Text)
	}
	ev.Parameters = []evidence.Parameters{{Tracker: "wandb", Model: new("m"), BatchSize: new(int64(4)),
		SequenceLength: new(int64(2048)), Precision: new("bf16"), Optimizer: new("AdamW"), GPUs: new(int64(1)),
		FinalLoss: new(2.25)}}
	const want = "No failure found: wandb says: m, batch 4, sequence 2,048, bf16, AdamW, 1 GPU, loss 2.25 at the end"
	if v := added(ev).Verdict; v.Text != want {
		t.Errorf("%q, want %q", v.Text, want)
	}
}
