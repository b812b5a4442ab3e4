package logs_test

import (
	"slices"
	"strings"
	"testing"
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
