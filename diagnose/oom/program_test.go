package oom_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

func by(name string) func(*evidence.OOMMessage) { return func(m *evidence.OOMMessage) { m.By = name } }

func unsure(m *evidence.OOMMessage) { m.Unsure = true }

// TestPrograms: what asks a GPU for memory beside PyTorch's allocator, or without it, is told
// from it, by the fewest figures.
func TestPrograms(t *testing.T) {
	const none = -1
	nothing := sizes{none, none, none, none, none, none}
	tests := []struct {
		name       string
		sizes      sizes
		set        []func(*evidence.OOMMessage)
		cause      string
		confidence float64
		remedy     string // part of it
	}{
		{"NCCL", nothing, nil, report.TrueShortage, 0.7, "NCCL_BUFFSIZE"},
		{"RCCL", nothing, nil, report.TrueShortage, 0.7, "rocm-smi"},
		{"XLA", sizes{gib, none, none, none, none, none}, nil, report.TrueShortage, 0.7, "XLA_PYTHON_CLIENT_MEM_FRACTION"},
		{"TensorFlow", nothing, nil, report.TrueShortage, 0.7, "set_memory_growth"},
		{"llama.cpp", sizes{gib, none, none, none, none, none}, nil, report.TrueShortage, 0.7, "-ngl"},
		{"CuPy", sizes{gib, none, none, none, none, none}, nil, report.TrueShortage, 0.7, "cupy"},
		{"vLLM's sampler", nothing, nil, report.TrueShortage, 0.7, "max_num_seqs"},
		{"TGI", nothing, nil, report.TrueShortage, 0.7, "--max-batch-prefill-tokens"},
		{"accelerate", nothing, nil, report.TrueShortage, 0.7, "find_executable_batch_size"},
		{"THC", nothing, nil, report.TrueShortage, 0.7, ""},
		{"NVML", nothing, nil, report.TrueShortage, 0.7, "MIG"},
		{"cumem", nothing, nil, report.TrueShortage, 0.7, "wake_up"},
		{"sglang", nothing, nil, report.TrueShortage, 0.7, "--mem-fraction-static"},
		{"CUBLAS_STATUS_ALLOC_FAILED", nothing, nil, report.TrueShortage, 0.7, "CUDA_LAUNCH_BLOCKING"},
		{"Paddle", nothing, nil, report.TrueShortage, 0.7, ""},
		{"Paddle", sizes{gib, none, gib - 1, none, none, none}, nil, report.TrueShortage, 0.8, ""},
		{"Paddle", sizes{gib, none, gib, none, none, none}, nil, report.TrueShortage, 0.7, ""},
		{"split attention", sizes{gib, none, 0, none, none, none}, nil, report.TrueShortage, 0.8, "--medvram"},
		{"split attention", sizes{gib, none, none, none, none, none}, nil, report.TrueShortage, 0.7, "--medvram"},
		{"bitsandbytes", nothing, nil, report.UnclearVerdict, 0.3, ""},
		{"workspace", nothing, nil, report.WorkspaceFull, 0.95, "FLASHINFER_WORKSPACE_BUFFER_SIZE"},
		{"workspace", sizes{gib, none, none, none, none, none}, []func(*evidence.OOMMessage){allowed(gib / 4)},
			report.WorkspaceFull, 0.95, "FLASHINFER_WORKSPACE_BUFFER_SIZE"},
		{"CUBLAS_STATUS_NOT_INITIALIZED", nothing, []func(*evidence.OOMMessage){unsure}, report.UnclearVerdict, 0.3,
			"CUDA_LAUNCH_BLOCKING"},
		{"cuDNN", nothing, []func(*evidence.OOMMessage){unsure}, report.UnclearVerdict, 0.3, "CUDA_LAUNCH_BLOCKING"},
		{"cudaMallocAsync", nothing, nil, report.UnclearVerdict, 0.3, ""},
		{"cudaMallocAsync", sizes{2 * gib, 100 * gib, gib, none, 99 * gib, none}, nil, report.TrueShortage, 0.9, ""},
		{"vLLM", nothing, nil, report.TrueShortage, 0.7, "gpu_memory_utilization"},
		{"vLLM", sizes{16 * gib, none, none, none, none, none}, []func(*evidence.OOMMessage){allowed(3 * gib)},
			report.TrueShortage, 0.9, "max_model_len"},
		{"vLLM", sizes{80 * gib, 100 * gib, 40 * gib, none, none, none}, nil, report.OtherProcess, 0.8, "below 0.40"},
		{"vLLM", sizes{40 * gib, 100 * gib, 40 * gib, none, none, none}, nil, report.TrueShortage, 0.7, "gpu_memory_utilization"},
		{"vLLM", sizes{40*gib + 1, 100 * gib, 40 * gib, none, none, none}, nil, report.OtherProcess, 0.8, "below 0.40"},
	}
	for _, test := range tests {
		f := oom.Judge(message(test.sizes, append(test.set, by(test.name))...))
		if f.Cause != test.cause || f.Confidence != test.confidence || !strings.Contains(f.Remedy, test.remedy) ||
			f.Remedy == "" && test.remedy != "" || f.Why == "" || f.Change() == "" {
			t.Errorf("%s with %+v: %s at %v: %q. %q", test.name, test.sizes, f.Cause, f.Confidence, f.Why, f.Remedy)
		}
		if test.remedy != "" && (f.Change() != f.Remedy || f.ChangeID() != "") {
			t.Errorf("%s: the change %q has the word %q", test.name, f.Change(), f.ChangeID())
		}
	}
}

// TestLibraryNames: as libraries write themselves, not as their statuses do.
func TestLibraryNames(t *testing.T) {
	for status, want := range map[string]string{"CUBLAS": "cuBLAS", "CUDNN": "cuDNN", "CUSOLVER": "cuSOLVER",
		"HIPBLAS": "hipBLAS",
		"MIOPEN":  "MIOpen", "CURAND": "CURAND"} {
		for _, end := range []string{"_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED"} {
			f := oom.Judge(message(sizes{-1, -1, -1, -1, -1, -1}, by(status+end), func(m *evidence.OOMMessage) {
				m.Unsure = !strings.HasSuffix(end, "_FAILED")
			}))
			if !strings.HasPrefix(f.Why, want+" ") {
				t.Errorf("%s: %s", status+end, f.Why)
			}
		}
	}
}
