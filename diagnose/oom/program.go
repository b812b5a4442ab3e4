package oom

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// programs are what messages of runlog's otherMarks come from, which take GPU memory beside PyTorch's allocator or without
// it, and why their requests fail, where more can be said than that the driver refused.
var programs = map[string]string{
	"NCCL":       "NCCL asked the driver for its buffers, beside PyTorch's allocator, and the GPU had nothing left",
	"RCCL":       "RCCL asked the driver for its buffers, beside PyTorch's allocator, and the GPU had nothing left",
	"XLA":        "XLA found no room for it; PyTorch's allocator is not what failed",
	"TensorFlow": "TensorFlow's allocator found no room for it",
	"llama.cpp":  "the driver refused cudaMalloc",
	"CuPy":       "CuPy's pool got no more from the driver",
	"vLLM's sampler": "warming up its sampler with as many requests as max_num_seqs, vLLM found no room beside the " +
		"weights and what it profiled",
	"TGI":             "the warm-up with --max-batch-prefill-tokens tokens found no room beside the weights",
	"split attention": "attention's scores don't fit, though it works on them in parts",
	"accelerate": "find_executable_batch_size halved the batch down to nothing: not even one sample fitted, or what " +
		"failed was no lack of memory, as it takes some errors of cuDNN and of the host for one",
	"THC": "PyTorch's allocator of that time (before 1.0) got no more from the driver",
	"NVML": "PyTorch found no room, and its message could not be made because NVML refused, as it does on a part of a " +
		"GPU (MIG, vGPU): an out-of-memory error in disguise",
	"cumem": "vLLM's sleep-mode allocator (cumem) got no memory back from the driver when it woke up: the run's own " +
		"trainer, or its cache, still held the GPU",
	"expandable segments": "the driver itself refused, in a call by which PyTorch makes expandable segments",
	"DirectML":            "DirectML found no room for it in the GPU's memory",
	"MLX":                 "MLX was refused: the memory is the machine's own, of which macOS leaves a part to the GPU",
	"Metal":               "Metal refused: the memory is the machine's own, of which macOS leaves a part to the GPU",
	"Vulkan":              "the Vulkan driver refused an allocation on the device",
	"ONNX Runtime":        "ONNX Runtime's arena got no more from the device",
	"MXNet":               "MXNet's pool got no more from the driver",
	"LMDeploy": "TurboMind, LMDeploy's engine, got no more from the driver beside its weights and its key-value " +
		"cache",
	"level zero":    "Intel's driver (level zero) had no memory on the device",
	"NvMap":         "NvMap had none left: on a Jetson the GPU's memory is the host's, unified and shared with all programs",
	"sglang's pool": "sglang's pool for keys and values is full, not the GPU",
	"sglang": "what sglang may take of the GPU (--mem-fraction-static) leaves nothing for its key-value cache beside " +
		"the weights",
}

// ofProgram judges a message that isn't of PyTorch's own allocator.
func (f *Failure) ofProgram(why string) {
	why += f.tokens()
	remedy := "program." + f.By
	switch r, free := f.Requested, f.Free; {
	case f.By == "vLLM":
		f.ofVLLM()
		return
	case f.By == "workspace":
		f.ofWorkspace()
		return
	case f.Unsure && why == "":
		f.ofUnsure()
		return
	case strings.HasSuffix(f.By, "_FAILED"):
		library, _, _ := strings.Cut(f.By, "_")
		why = fmt.Sprintf("%s could not allocate (%s): such libraries ask the driver, beside PyTorch's allocator",
			libraryName(library), f.By)
		remedy = "beside"
	case f.By == "Paddle", f.By == "split attention":
		why = cmp.Or(why, "Paddle's allocator got no more from the driver")
		if r >= 0 && free >= 0 && free < r {
			f.Cause, f.Confidence = report.TrueShortage, 0.8
			why = lacks(r, r-free)
		}
	case why == "":
		f.Why = "the driver itself refused, so PyTorch's allocator had not been asked"
		if f.By == "cudaMallocAsync" {
			f.Why = "the message has no figures"
		}
		return
	}
	if f.Cause == report.UnclearVerdict && f.By != "expandable segments" {
		f.Cause, f.Confidence = report.TrueShortage, BesideConfidence
	}
	f.Why, f.Remedy = why, *advice.Text(remedy)
}

// tokens are those that were asked of a pool, and there.
func (f *Failure) tokens() string {
	if f.Tokens == 0 {
		return ""
	}
	return fmt.Sprintf(": %s tokens asked for, room for %s", units.Count(int(f.Tokens)), units.Count(int(f.TokensFree)))
}

// BesideConfidence is how sure a failure beside PyTorch's allocator is a shortage.
const BesideConfidence = 0.7

// ofUnsure words a failure of a library that may be one of memory or not.
func (f *Failure) ofUnsure() {
	const full = "often the GPU's memory was full when it asked for its workspace"
	library, _, hasStatus := strings.Cut(f.By, "_")
	if hasStatus {
		f.Why = fmt.Sprintf("%s failed (%s): %s; also after an earlier kernel failed, or where the library doesn't match "+
			"PyTorch and the driver", libraryName(library), f.By, full)
	} else {
		f.Why = "cuDNN found no way to run a convolution: " + full +
			"; also for shapes and types that it doesn't support, or where the library doesn't match the driver"
	}
	f.Remedy = *advice.Text("beside.unsure")
}

// ofWorkspace judges a request for a part of a buffer that a library took at its start.
func (f *Failure) ofWorkspace() {
	f.Cause, f.Confidence = report.WorkspaceFull, 0.95
	f.Why = "a library's workspace is full, not the GPU"
	if f.Requested >= 0 && f.Allowed >= 0 {
		f.Why = fmt.Sprintf("a library's workspace of %s is full, not the GPU", units.Bytes(f.Allowed))
	}
	f.Remedy = *advice.Text("workspace_full")
}

// libraryName is a library as it writes itself.
func libraryName(status string) string {
	for _, name := range [...]string{"cuBLAS", "cuDNN", "cuSOLVER", "cuSPARSE", "cuFFT", "hipBLAS", "rocBLAS", "MIOpen"} {
		if strings.EqualFold(name, status) {
			return name
		}
	}
	return status
}

// ofVLLM judges what vLLM says that it can't start with.
func (f *Failure) ofVLLM() {
	r, free, capacity := f.Requested, f.Free, f.Capacity
	f.Remedy = *advice.Text("vllm")
	switch {
	case free >= 0 && capacity > 0 && r > free:
		f.Cause, f.Confidence = report.OtherProcess, 0.8
		f.Why = fmt.Sprintf("vLLM wants %s of the GPU's %s, but only %s were free when it started", units.Bytes(r),
			units.Bytes(capacity), units.Bytes(free))
		f.Remedy = *advice.Text("vllm.held", "bytes", units.Bytes(capacity-free), "share",
			fmt.Sprintf("%.2f", float64(free)/float64(capacity)))
	case r > 0 && f.Allowed >= 0:
		f.Cause, f.Confidence = report.TrueShortage, 0.9
		f.Why = fmt.Sprintf("one request of the greatest length needs a key-value cache of %s, and %s are left for it of "+
			"vLLM's share of the GPU", units.Bytes(r), units.Bytes(f.Allowed))
		longest := "A lower max_model_len"
		if f.TokensFree > 0 {
			longest = fmt.Sprintf("max_model_len=%d, which fits", f.TokensFree)
		}
		f.Remedy = *advice.Text("vllm.cache", "longest", longest)
	default:
		f.Cause, f.Confidence = report.TrueShortage, BesideConfidence
		f.Why = "vLLM's share of the GPU (gpu_memory_utilization) leaves too little for its key-value cache beside weights " +
			"and activations"
	}
}
