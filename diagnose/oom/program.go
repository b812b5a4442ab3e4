package oom

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// program is something that takes GPU memory beside PyTorch's allocator, or
// without it: why its requests fail, and what to do about it.
type program struct{ why, change string }

// programs are what messages of runlog's otherMarks come from, where more can be
// said than that the driver refused.
var programs = map[string]program{
	"NCCL": {"NCCL asked the driver for its buffers, beside PyTorch's allocator, and the GPU had nothing left",
		"Leave room beside PyTorch: a smaller batch, torch.cuda.empty_cache() before the first collective, a lower " +
			"NCCL_BUFFSIZE; and look at nvidia-smi for other processes"},
	"RCCL": {"RCCL asked the driver for its buffers, beside PyTorch's allocator, and the GPU had nothing left",
		"Leave room beside PyTorch: a smaller batch, torch.cuda.empty_cache() before the first collective; and look at " +
			"rocm-smi --showpids for other processes"},
	"XLA": {"XLA found no room for it; PyTorch's allocator is not what failed",
		"A smaller batch or rematerialisation (jax.checkpoint); where PyTorch or another process shares the GPU, " +
			"XLA_PYTHON_CLIENT_MEM_FRACTION or XLA_PYTHON_CLIENT_PREALLOCATE=false"},
	"TensorFlow": {"TensorFlow's allocator found no room for it",
		"A smaller batch; where others share the GPU, tf.config.experimental.set_memory_growth, as TensorFlow takes nearly " +
			"all of it at its start"},
	"llama.cpp": {"the driver refused cudaMalloc",
		"Fewer layers on the GPU (-ngl), a shorter context (-c) or a quantized cache; look at nvidia-smi for other processes"},
	"CuPy": {"CuPy's pool got no more from the driver",
		"Free CuPy's pool (cupy.get_default_memory_pool().free_all_blocks()) and what PyTorch caches " +
			"(torch.cuda.empty_cache()) where both share the GPU, or work on smaller pieces"},
	"vLLM's sampler": {"warming up its sampler with as many requests as max_num_seqs, vLLM found no room beside the weights " +
		"and what it profiled",
		"Lower max_num_seqs or gpu_memory_utilization, as vLLM itself advises"},
	"TGI": {"the warm-up with --max-batch-prefill-tokens tokens found no room beside the weights",
		"Lower --max-batch-prefill-tokens (and --max-input-tokens with it), quantize the weights, or spread them over more " +
			"GPUs (--num-shard)"},
	"split attention": {"attention's scores don't fit, though it works on them in parts",
		"A lower resolution, or attention that never writes the scores out (sdpa, xformers, flash); --medvram or --lowvram " +
			"keep less of the model on the GPU"},
	"accelerate": {"find_executable_batch_size halved the batch down to nothing: not even one sample fitted, or what failed " +
		"was no lack of memory, as it takes some errors of cuDNN and of the host for one",
		"Run it with a batch size of 1 and without find_executable_batch_size: the message that comes then has figures"},
	"THC": {"PyTorch's allocator of that time (before 1.0) got no more from the driver", ""},
	"NVML": {"PyTorch found no room, and its message could not be made because NVML refused, as it does on a part of a GPU " +
		"(MIG, vGPU): an out-of-memory error in disguise",
		"Need less, or take a larger slice: a smaller batch; nvidia-smi's MIG table shows how much the slice has. A newer " +
			"PyTorch prints the message itself"},
	"cumem": {"vLLM's sleep-mode allocator (cumem) got no memory back from the driver when it woke up: the run's own trainer, " +
		"or its cache, still held the GPU",
		"Lower the rollout's share (gpu_memory_utilization), or free the trainer's memory before wake_up(): offload its " +
			"parameters and optimizer, torch.cuda.empty_cache()"},
	"expandable segments": {"the driver itself refused, in a call by which PyTorch makes expandable segments",
		"Leave expandable_segments:True out where it is set (PYTORCH_CUDA_ALLOC_CONF): Jetson and WSL2 don't have what it " +
			"needs. " +
			"Else the GPU was full: hold less"},
	"DirectML": {"DirectML found no room for it in the GPU's memory",
		"Smaller images or batches, 16 bits or a smaller model; end other programs that draw (Task Manager lists the GPU " +
			"memory of " +
			"each). DirectML keeps what was freed until its process ends"},
	"MLX": {"MLX was refused: the memory is the machine's own, of which macOS leaves a part to the GPU",
		"A quantised or smaller model, a smaller batch or a shorter context; mx.clear_cache() and mx.set_cache_limit keep " +
			"less; " +
			"sudo sysctl iogpu.wired_limit_mb=… lets the GPU have a larger part"},
	"Metal": {"Metal refused: the memory is the machine's own, of which macOS leaves a part to the GPU",
		"A quantised or smaller model, a smaller batch or a shorter context; sudo sysctl iogpu.wired_limit_mb=… lets the GPU " +
			"have a larger part"},
	"Vulkan": {"the Vulkan driver refused an allocation on the device",
		"Fewer layers on the GPU (-ngl), a shorter context (-c) or a quantized cache; where the driver's limit on a single " +
			"allocation refused, GGML_VK_FORCE_MAX_ALLOCATION_SIZE makes the buffers smaller"},
	"ONNX Runtime": {"ONNX Runtime's arena got no more from the device",
		"A smaller batch or smaller shapes, fp16; arena_extend_strategy=kSameAsRequested in the provider's options, as the " +
			"arena " +
			"doubles otherwise, and a gpu_mem_limit that leaves room for others"},
	"MXNet": {"MXNet's pool got no more from the driver",
		"A smaller batch; MXNET_GPU_MEM_POOL_TYPE=Round and a higher MXNET_GPU_MEM_POOL_RESERVE keep less in the pool"},
	"LMDeploy": {"TurboMind, LMDeploy's engine, got no more from the driver beside its weights and its key-value cache",
		"Lower cache_max_entry_count (--cache-max-entry-count), session_len or max_batch_size; quantise the weights, or spread " +
			"them over more GPUs (--tp)"},
	"level zero": {"Intel's driver (level zero) had no memory on the device",
		"A smaller batch, torch.xpu.empty_cache() before the phase that failed; a single tensor of 4 GiB and more needs " +
			"UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"},
	"NvMap": {"NvMap had none left: on a Jetson the GPU's memory is the host's, unified and shared with all programs",
		"Free memory on the host: fewer programs, no desktop, swap on disk for what isn't the GPU's; then a smaller model or " +
			"batch " +
			"(tegrastats shows both)"},
	"sglang's pool": {"sglang's pool for keys and values is full, not the GPU",
		"A higher --mem-fraction-static if the GPU has room, fewer requests at once (--max-running-requests), a smaller " +
			"--chunked-prefill-size or shorter requests; a higher --schedule-conservativeness takes fewer in"},
	"sglang": {"what sglang may take of the GPU (--mem-fraction-static) leaves nothing for its key-value cache beside the " +
		"weights",
		"Raise --mem-fraction-static if the GPU has room, else quantize the weights or spread them over more GPUs (--tp)"},
}

// ofProgram judges a message that isn't of PyTorch's own allocator.
func (f *Failure) ofProgram(o program) {
	o.why += f.tokens()
	switch r, free := f.Requested, f.Free; {
	case f.By == "vLLM":
		f.ofVLLM()
		return
	case f.By == "workspace":
		f.ofWorkspace()
		return
	case f.Unsure && o.why == "":
		f.ofUnsure()
		return
	case strings.HasSuffix(f.By, "_FAILED"):
		library, _, _ := strings.Cut(f.By, "_")
		o.why = fmt.Sprintf("%s could not allocate (%s): such libraries ask the driver, beside PyTorch's allocator",
			libraryName(library), f.By)
		o.change = "Leave room beside PyTorch (a smaller batch, a lower set_per_process_memory_fraction) and look at " +
			"nvidia-smi for other processes; where there was room, an earlier failed kernel may be the cause: " +
			"CUDA_LAUNCH_BLOCKING=1 names it"
	case f.By == "Paddle", f.By == "split attention":
		o.why = cmp.Or(o.why, "Paddle's allocator got no more from the driver")
		if r >= 0 && free >= 0 && free < r {
			f.Cause, f.Confidence = report.TrueShortage, 0.8
			o.why = lacks(r, r-free)
		}
	case o.why == "":
		f.Why = "the driver itself refused, so PyTorch's allocator had not been asked"
		if f.By == "cudaMallocAsync" {
			f.Why = "the message has no figures"
		}
		return
	}
	if f.Cause == report.UnclearVerdict && o.why != "" && f.By != "expandable segments" {
		f.Cause, f.Confidence = report.TrueShortage, BesideConfidence
	}
	f.Why, f.Remedy = o.why, o.change
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
	f.Remedy = "Try a much smaller batch, with nvidia-smi beside it: if it works then, it was memory. Else look for a kernel " +
		"that failed before (CUDA_LAUNCH_BLOCKING=1; one step on the CPU shows a wrong index), then at the library's version"
}

// ofWorkspace judges a request for a part of a buffer that a library took at its start.
func (f *Failure) ofWorkspace() {
	f.Cause, f.Confidence = report.WorkspaceFull, 0.95
	f.Why = "a library's workspace is full, not the GPU"
	if f.Requested >= 0 && f.Allowed >= 0 {
		f.Why = fmt.Sprintf("a library's workspace of %s is full, not the GPU", units.Bytes(f.Allowed))
	}
	f.Remedy = "Make the workspace larger (FlashInfer's workspace buffer: FLASHINFER_WORKSPACE_BUFFER_SIZE or " +
		"VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE in vLLM, SGLANG_FLASHINFER_WORKSPACE_SIZE in sglang), or let a pass work on " +
		"fewer tokens (max_num_batched_tokens, --chunked-prefill-size)"
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
	f.Remedy = "Raise gpu_memory_utilization if the GPU has room, else a lower max_model_len or max_num_batched_tokens, " +
		"quantized weights, or more GPUs (tensor_parallel_size)"
	switch {
	case free >= 0 && capacity > 0 && r > free:
		f.Cause, f.Confidence = report.OtherProcess, 0.8
		f.Why = fmt.Sprintf("vLLM wants %s of the GPU's %s, but only %s were free when it started", units.Bytes(r),
			units.Bytes(capacity), units.Bytes(free))
		f.Remedy = fmt.Sprintf("Find what holds %s of the GPU (nvidia-smi) and stop it, or give vLLM at most what is free: "+
			"gpu_memory_utilization below %.2f", units.Bytes(capacity-free), float64(free)/float64(capacity))
	case r > 0 && f.Allowed >= 0:
		f.Cause, f.Confidence = report.TrueShortage, 0.9
		f.Why = fmt.Sprintf("one request of the greatest length needs a key-value cache of %s, and %s are left for it of "+
			"vLLM's share of the GPU", units.Bytes(r), units.Bytes(f.Allowed))
		longest := "A lower max_model_len"
		if f.TokensFree > 0 {
			longest = fmt.Sprintf("max_model_len=%d, which fits", f.TokensFree)
		}
		f.Remedy = longest + ", a quantized cache (kv_cache_dtype=fp8), a higher gpu_memory_utilization if the GPU " +
			"has room, or more GPUs (tensor_parallel_size)"
	default:
		f.Cause, f.Confidence = report.TrueShortage, BesideConfidence
		f.Why = "vLLM's share of the GPU (gpu_memory_utilization) leaves too little for its key-value cache beside weights " +
			"and activations"
	}
}
