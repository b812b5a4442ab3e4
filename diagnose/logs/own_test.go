package logs_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/logtext"
)

// TestOwnServer stops no process that the run may have started itself.
func TestOwnServer(t *testing.T) {
	const oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.43 GiB. GPU 0 has a total capacity " +
		"of 79.25 GiB of which 1.09 GiB is free. Process 4001 has 64.85 GiB memory in use. " +
		"Including non-PyTorch memory, this process has 13.30 GiB memory in use. Of the allocated memory 11.10 GiB is " +
		"allocated by PyTorch, and 134.90 MiB is reserved by PyTorch but unallocated.\n"
	const sglang = "03:04:05 INFO: Launch command: python3 -m sglang.launch_server --port 18424 --mem-fraction-static 0.8\n"
	tests := []struct{ name, log, fix string }{
		{"sglang", sglang + oom, "Give the sglang server less of the GPU (--mem-fraction-static)"},
		{"vLLM's command", "+ vllm serve some/model --port 8000\n" + oom,
			"Give the vLLM server less of the GPU (gpu_memory_utilization)"},
		{"vLLM in a program", "INFO 03-04 05:06:07 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: " +
			"model='some/model'\n" + oom, "Give the vLLM server"},
		{"nvidia-smi names it", strings.ReplaceAll(logtext.SMI(80000, "4001 66000", "4002 13000"), "python", "VLLM::EngineCore") +
			oom, "Give the vLLM server"},
		{"a worker of Ray", strings.ReplaceAll(logtext.SMI(80000, "4001 66000", "4002 13000"), "python", "ray::Worker") + oom,
			"it is a worker of Ray"},
		{"a server started later", oom + sglang, "Stop process 4001"},
		{"a GPU that was empty", logtext.SMI(0) + oom, "Find out whether process 4001 (64.85 GiB) is of this run"},
		{"a GPU that was full before", logtext.SMI(66406, "4001 66406") + oom, "Stop process 4001"},
		{"nothing known", "pip install vllm sglang\n" + oom, "Stop process 4001"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := found(judged(t, input{name: "train.log", text: test.log}), "oom_other_process")
			if f == nil || !strings.Contains(*f.Fix, test.fix) || strings.HasPrefix(*f.Fix, "Stop") != (f.SavesBytes != nil) {
				t.Fatalf("found %+v", f)
			}
		})
	}
}
