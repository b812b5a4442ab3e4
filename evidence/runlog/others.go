package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// refusals are how those who ask a GPU for memory beside PyTorch's allocator, or without it, say that there was none. The first
// that a line has, and that reads as a failure, counts; without a name of who asked, the words have it.
var refusals = []ending.Mark{
	{Words: "_STATUS_ALLOC_FAILED|_STATUS_INTERNAL_ERROR_DEVICE", // of cuBLAS, cuDNN, cuSOLVER, hipBLAS
		Form: pattern.Of(`[A-Z]*_STATUS_(?:INTERNAL_ERROR_DEVICE_ALLOCATION|ALLOC)_FAILED`)},
	{Words: "_STATUS_NOT_INITIALIZED", Is: ending.Unsure, Form: pattern.Of(`[A-Z]*_STATUS_NOT_INITIALIZED`)},
	{Words: "not enough GPU video memory", By: "DirectML"},
	{Words: "[malloc_or_wait] Unable to allocate", By: "MLX"},
	{Words: "[metal::malloc]", By: "MLX", Form: pattern.Of(`ttempting to allocate`)},
	{Words: "kIOGPUCommandBufferCallbackErrorOutOfMemory", By: "Metal"},
	{Words: "evice memory allocation of size ", By: "Vulkan", Is: ending.Own},
	{Words: "ErrorOutOfDeviceMemory", By: "Vulkan", Is: ending.Own, Form: pattern.Of(`vk`)},
	{Words: "memory for requested buffer of size ", By: "ONNX Runtime", Is: ending.Own},
	{Words: "MXNetError", By: "MXNet", Form: pattern.Of(`out of memory`)},
	{Words: "[TM][ERROR]", By: "LMDeploy", Form: pattern.Of(`out of memory`)},
	{Words: "_ERROR_OUT_OF_DEVICE_MEMORY", By: "level zero"},
	{Words: "NvMapMemAlloc", By: "NvMap", Is: ending.Unsure, Form: pattern.Of(`error 12`)},
	{Words: " out of memory. Try to lower your batch size", By: sglangPool, Is: ending.Own},
	{Words: "from device: CUDA_ERROR_OUT_OF_MEMORY", By: "TensorFlow", Is: ending.Unsure},
	{Words: "could not be allocated. There may not be enough free memory", By: "TensorRT"},
	{Words: "_STATUS_INTERNAL_ERROR", Not: "_STATUS_INTERNAL_ERROR_", Is: ending.Unsure,
		Form: pattern.Of(`[A-Z]*_STATUS_INTERNAL_ERROR`)},
	// PyTorch tried every way to run a convolution, and took a lack of memory for any of them for a refusal
	// (aten/src/ATen/native/cudnn/Conv_v7.cpp, Conv_v8.cpp)
	{Words: "Unable to find a valid cuDNN algorithm to run convolution|was unable to find an engine to execute this computation",
		By: "cuDNN", Is: ending.Unsure},
	{Words: "Cuda failure", By: "NCCL", Form: pattern.Of(`Cuda failure.*ut of memory`)},
	{Words: "HIP failure", By: "RCCL", Form: pattern.Of(`HIP failure.*ut of memory`)},
	{Words: "Failed to CUDA calloc|Failed to CUDA host alloc", By: "NCCL"},
	{Words: "RESOURCE_EXHAUSTED: ", By: "XLA", Form: pattern.Of(`ut of memory`)}, // not of another quota
	{Words: "OOM when allocating tensor", By: "TensorFlow"},
	{Words: "cudaMalloc failed: out of memory", By: "llama.cpp", Is: ending.Sized},
	{Words: "Out of memory allocating ", By: "CuPy", Is: ending.Sized},
	{Words: "Out of memory error on GPU", By: "Paddle"},
	{Words: "No available memory for the cache blocks|KV cache is needed|that can be stored in KV cache|is less than desired " +
		"GPU memory utilization", By: "vLLM"},
	{Words: "Not enough memory. Please try to increase --mem-fraction-static", By: "sglang"},
	{Words: "out of memory occurred when warming up sampler", By: "vLLM's sampler"},
	{Words: "Not enough memory to handle ", By: "TGI"},
	{Words: "Not enough memory, use lower resolution", By: "split attention"}, // of web UIs for Stable Diffusion
	{Words: "No executable batch size found, reached zero", By: "accelerate"},
	{Words: "Allocation on device", By: cudaMallocAsync, Form: pattern.Of(`Allocation on device\s*(?:\d|would|$)`)},
	// PyTorch asked NVML for what to put into the message, and NVML refused, as on a part of a GPU
	{Words: "NVML_SUCCESS == ", By: "NVML", Form: pattern.Of(`CUDACachingAllocator`)},
	{Words: "INTERNAL ASSERT FAILED", By: "NVML", Is: ending.Unsure, Form: pattern.Of(`CachingAllocator`)},
	// a part of a buffer that a library took at its start
	{Words: "Buffer overflow when allocating memory for", By: "workspace"},
	{Words: "orkspace", By: "workspace", Form: pattern.Of(`too small|nsufficient|not enough|overflow`)},
	{Words: "Error out of memory at line", By: "bitsandbytes"},
	{Words: "THCudaCheck FAIL", By: "THC", Form: pattern.Of(`ut of memory`)},
	{Words: "Runtime (out of memory)", By: "TensorRT"},
	{Words: "CUDA runtime error in ", By: "TensorRT", Form: pattern.Of(`: out of memory`)},
	{Words: "CUDA_ERROR_OUT_OF_MEMORY", By: "CUDA", Not: "failed to alloc"}, // TensorFlow asks for less then
	{Words: "cudaErrorMemoryAllocation", By: "CUDA", Not: "Search for"},     // a hint of PyTorch's
}

const sglangPool = "sglang's pool"

// cudaMallocAsync is PyTorch's other allocator (c10/cuda/CUDAMallocAsyncAllocator.cpp),
// whose message goes on over the lines that follow.
const cudaMallocAsync = "cudaMallocAsync"

// maxOther is the longest line that is taken for such a failure.
const maxOther = 2048

// otherFailure reads a line of another than PyTorch's own allocator.
func (p *Parser) otherFailure(number int, line []byte, _ features) bool {
	if len(line) > maxOther {
		return false
	}
	p.kernelFailed = p.kernelFailed || failsKernel().Match(line)
	for i := range refusals {
		if m, at := p.refusal(&refusals[i], number, line); at >= 0 {
			p.refused(&m, line, at)
			return true
		}
	}
	return false
}

// refusal is what a mark makes of a line, and where its words stand; -1 where the line isn't like it.
func (p *Parser) refusal(mark *ending.Mark, number int, line []byte) (m evidence.OOMMessage, at int) {
	at, groups := mark.In(line)
	unsure := mark.Is&ending.Unsure != 0
	if at < 0 || mark.Is&ending.Own == 0 && !raised(line, at) || unsure && p.kernelFailed {
		return m, -1
	}
	m = evidence.OOMMessage{Line: number, By: mark.By, AfterStep: p.steps.latest(), UpToStep: -1, Unsure: unsure}
	if m.By == "" {
		m.By = string(groups[0])
	}
	text := withoutCommas(figures.Compact(line, maxOther))
	readMessage(&m, text)
	if m.RequestedBytes == nil && m.By == "TensorFlow" {
		m.RequestedBytes = known(tensorBytes(text))
	}
	if m.RequestedBytes == nil && mark.Is&ending.Sized != 0 {
		return m, -1
	}
	return m, at
}

// refused files such a message, which goes on where cudaMallocAsync or sglang's pool refused.
func (p *Parser) refused(m *evidence.OOMMessage, line []byte, at int) {
	if m.By == "TensorFlow" && bytes.Contains(line, []byte("device:CPU:")) { // it is the host's
		p.report.Known++
		p.hostFailed(evidence.HostFailure{Line: m.Line, RequestedBytes: m.RequestedBytes, By: m.By}, line[:at])
		return
	}
	p.oom.finish(p)
	m.Rank = p.rank(m.Line, line[:at])
	p.tell(m, line[:at])
	p.keepOOM(m)
	if m.By == cudaMallocAsync || m.By == sglangPool {
		p.async = m.Line
	}
}

// failsKernel tells of a kernel that failed: nothing else that a GPU is asked for works afterwards, whatever its memory.
var failsKernel = pattern.Of("Assertion `.*` failed|device-side assert triggered|illegal memory access was encountered")

// saysSo is what stands before words that aren't prose or program text: nothing, an exception's name or a logger's level,
// "torch.", "jaxlib.xla_extension.", a launcher's mark.
var saysSo = pattern.Of(`^$|rror:|ERROR|WARN|xception|rror Code|allocating|returned|results in|aused by|nternal|INTERNAL|` +
	`OutOfMemory|andle:|RESOURCE_EXHAUSTED:|(?:^|\s)[\w\x80-\x{10FFFF}]\S*\.$|^\S*:$|[\])]$`)

// raised tells a message from prose and program text about it.
func raised(line []byte, at int) bool {
	before := bytes.TrimRight(line[:at], " \t")
	return (len(before) == 0 || bytes.IndexByte([]byte("`\"'"), before[len(before)-1]) < 0) && saysSo().Match(before)
}

// typeBytes are the sizes of TensorFlow's element types.
var typeBytes = map[string]int64{"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "int8": 1, "uint8": 1,
	"bool": 1, "complex64": 8}

var tensorShape = pattern.Of(`shape\[([\d,]*)\]andtype(\w+?)on`)

// tensorBytes is the size of "shape[256,512,3]andtypefloaton".
func tensorBytes(text []byte) int64 {
	m := tensorShape().FindSubmatch(text)
	if m == nil || typeBytes[string(m[2])] == 0 {
		return unknown
	}
	total := typeBytes[string(m[2])]
	for d := range bytes.FieldsFuncSeq(m[1], func(r rune) bool { return r == ',' }) {
		n, _, _ := figures.Integer(d)
		if n > 0 && total > figures.MaxMemory/n {
			return unknown
		}
		total *= n
	}
	return total
}

var thousands = pattern.Of(`(\d),(\d{3})`)

// withoutCommas joins 8,589,934,592; the commas of shapes and of lists stay, as
// no three digits and their end follow all of them.
func withoutCommas(text []byte) []byte {
	if !bytes.Contains(text, []byte("bytes")) {
		return text
	}
	text = thousands().ReplaceAll(text, []byte("${1}${2}"))
	return thousands().ReplaceAll(text, []byte("${1}${2}")) // a digit between two commas is of both
}

// asyncLines is over how many lines the message of cudaMallocAsync goes on.
const asyncLines = 8

// asyncFigures reads what the message of cudaMallocAsync, or of sglang's pool, says over several lines:
//
//	Currently allocated     : 22.40 GiB
//	PyTorch limit (set by user-supplied memory fraction)
//	                        : 17179869184.00 GiB
//	Try to allocate 4096 tokens.
//	Available full tokens: 3136 (full_available_size=3136 + full_evictable_size_=0)
func (p *Parser) asyncFigures(number int, line []byte, _ features) bool {
	if number-p.async > asyncLines || len(line) > maxOther || len(p.report.OOMs) == 0 {
		p.async = 0
		return false
	}
	m, text := &p.report.OOMs[len(p.report.OOMs)-1], figures.Compact(line, maxOther)
	if bytes.HasPrefix(text, []byte(":")) {
		m.AllowedBytes = figures.Find(text, ":%")
		return true
	}
	return goesOn().Match(text) && (readMessage(m, text) || bytes.Contains(text, []byte("PyTorchlimit(")))
}

// goesOn tells the lines of such a message from others that are printed between them.
var goesOn = pattern.Of(`(?:Currentlyallocated|Requested|Devicelimit|Free\(accordingtoCUDA\)):|PyTorchlimit\(|` +
	`Trytoallocate\d+tokens|Available\w*tokens:`)
