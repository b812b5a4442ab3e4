package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

// otherMark is how something that asks a GPU for memory beside PyTorch's
// allocator, or without it, says that there was none.
type otherMark struct {
	words  string
	by     string
	asked  []string // what stands before the size asked for, without blanks
	with   string   // what a line with the words has, too
	not    string   // what tells that a line with the words is about something else
	unsure bool     // other causes than memory are usual, too
	plain  bool     // the size is in bytes without a word of that
	own    bool     // nobody but the program says so: no exception's name need stand before it
}

// otherMarks are in order: the first that a line has, and that reads as a failure, counts.
var otherMarks = []otherMark{
	{words: "_STATUS_ALLOC_FAILED"},                            // of cuBLAS, cuDNN, cuSOLVER, hipBLAS: by says the status itself
	{words: "_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"}, // cuDNN 9
	{words: "_STATUS_NOT_INITIALIZED", unsure: true},
	{words: "not enough GPU video memory", by: "DirectML", asked: []string{"tensorwith"}},
	{words: "[malloc_or_wait] Unable to allocate", by: "MLX", asked: []string{"Unabletoallocate"}},
	{words: "[metal::malloc]", with: "ttempting to allocate", by: "MLX", asked: []string{"ttemptingtoallocate"}},
	{words: "kIOGPUCommandBufferCallbackErrorOutOfMemory", by: "Metal"},
	{words: "evice memory allocation of size ", by: "Vulkan", asked: []string{"allocationofsize"}, plain: true, own: true},
	{words: "ErrorOutOfDeviceMemory", with: "vk", by: "Vulkan", own: true},
	{words: "memory for requested buffer of size ", by: "ONNX Runtime", asked: []string{"bufferofsize"}, plain: true, own: true},
	{words: "MXNetError", with: "out of memory", by: "MXNet"},
	{words: "[TM][ERROR]", with: "out of memory", by: "LMDeploy"},
	{words: "_ERROR_OUT_OF_DEVICE_MEMORY", by: "level zero"},
	{words: "NvMapMemAlloc", with: "error 12", by: "NvMap", asked: []string{"Tagged:", "MemAlloc:"}, plain: true, unsure: true},
	{words: " out of memory. Try to lower your batch size", by: "sglang's pool", own: true},
	{words: "from device: CUDA_ERROR_OUT_OF_MEMORY", by: "TensorFlow", asked: []string{"G(", "M(", "K("}, unsure: true},
	{words: "could not be allocated. There may not be enough free memory", by: "TensorRT", asked: []string{"GPUmemory("}},
	{words: "_STATUS_INTERNAL_ERROR", not: "_STATUS_INTERNAL_ERROR_", unsure: true},
	{words: "Unable to find a valid cuDNN algorithm to run convolution", by: cuDNN, unsure: true},
	{words: "was unable to find an engine to execute this computation", by: cuDNN, unsure: true},
	{words: "Cuda failure", by: "NCCL"}, {words: "HIP failure", by: "RCCL"},
	{words: "Failed to CUDA calloc", by: "NCCL", asked: []string{"calloc", "callocasync"}},
	{words: "Failed to CUDA host alloc", by: "NCCL"},
	{words: "RESOURCE_EXHAUSTED: ", by: "XLA", asked: []string{"tryingtoallocate", "memoryallocating"}},
	{words: "OOM when allocating tensor", by: "TensorFlow"},
	{words: "cudaMalloc failed: out of memory", by: "llama.cpp", asked: []string{"allocating"}},
	{words: "Out of memory allocating ", by: "CuPy", asked: []string{"memoryallocating"}},
	{words: "Out of memory error on GPU", by: "Paddle", asked: []string{"Cannotallocate"}},
	{words: "No available memory for the cache blocks", by: "vLLM"},
	{words: "KV cache is needed", by: "vLLM"},
	{words: "that can be stored in KV cache", by: "vLLM"},
	{words: "is less than desired GPU memory utilization", by: "vLLM"},
	{words: "Not enough memory. Please try to increase --mem-fraction-static", by: "sglang"},
	{words: "out of memory occurred when warming up sampler", by: "vLLM's sampler"},
	{words: "Not enough memory to handle ", by: "TGI"},
	// of web UIs for Stable Diffusion
	{words: "Not enough memory, use lower resolution", by: "split attention", asked: []string{"Need:"}},
	{words: "No executable batch size found, reached zero", by: "accelerate"},
	{words: "Allocation on device", by: cudaMallocAsync},
	// PyTorch asked NVML for what to put into the message, and NVML refused, as on a part of a GPU
	{words: "NVML_SUCCESS == ", with: "CUDACachingAllocator", by: "NVML"},
	{words: "INTERNAL ASSERT FAILED", with: "CachingAllocator", by: "NVML", unsure: true},
	// a part of a buffer that a library took at its start
	{words: "Buffer overflow when allocating memory for", by: "workspace"},
	{words: "orkspace", with: "too small", by: "workspace"}, {words: "orkspace", with: "nsufficient", by: "workspace"},
	{words: "orkspace", with: "not enough", by: "workspace"}, {words: "orkspace", with: "overflow", by: "workspace"},
	{words: "Error out of memory at line", by: "bitsandbytes"},
	{words: "THCudaCheck FAIL", by: "THC"},
	{words: "Runtime (out of memory)", by: "TensorRT"},
	{words: "CUDA runtime error in ", with: ": out of memory", by: "TensorRT"},
	{words: "CUDA_ERROR_OUT_OF_MEMORY", by: "CUDA", not: "failed to alloc"}, // TensorFlow asks for less then
	{words: "cudaErrorMemoryAllocation", by: "CUDA", not: "Search for"},     // a hint of PyTorch's
}

// cudaMallocAsync is PyTorch's other allocator (c10/cuda/CUDAMallocAsyncAllocator.cpp),
// whose message goes on over the lines that follow.
const cudaMallocAsync = "cudaMallocAsync"

// cuDNN names itself where its message has no status: PyTorch tried every way to
// run a convolution, and took a lack of memory for any of them for a refusal
// (aten/src/ATen/native/cudnn/Conv_v7.cpp, Conv_v8.cpp).
const cuDNN = "cuDNN"

// maxOther is the longest line that is taken for such a failure.
const maxOther = 2048

// otherFailure reads a line of another than PyTorch's own allocator.
func (p *Parser) otherFailure(number int, line []byte, _ features) bool {
	if len(line) > maxOther {
		return false
	}
	p.kernelFailed = p.kernelFailed || failsKernel(line)
	for i := range otherMarks {
		mark := &otherMarks[i]
		at := mark.in(line)
		if at < 0 || mark.unsure && p.kernelFailed {
			continue
		}
		m := evidence.OOMMessage{Line: number, By: mark.by, AfterStep: p.steps.latest(), UpToStep: -1, Unsure: mark.unsure}
		text := withoutCommas(figures.Compact(line, maxOther))
		if !readOther(&m, mark, line, at, text) {
			continue
		}
		if m.By == "" { // it is the host's
			p.report.Known++
			p.hostFailed(evidence.HostFailure{Line: number, RequestedBytes: m.RequestedBytes, By: mark.by}, line[:at])
			return true
		}
		p.oom.finish(p)
		m.Rank = p.rank(number, line[:at])
		p.tell(&m, line[:at])
		p.keepOOM(&m)
		if m.By == cudaMallocAsync || m.By == "sglang's pool" {
			p.async = number
			p.asyncFigures(number, line, 0)
		}
		return true
	}
	return false
}

// in is where a line has the words of a failure, -1: it doesn't, or speaks of it otherwise.
func (m *otherMark) in(line []byte) int {
	at := bytes.Index(line, []byte(m.words))
	if at < 0 || m.not != "" && bytes.Contains(line, []byte(m.not)) || !bytes.Contains(line, []byte(m.with)) ||
		!m.own && !raised(line, at) {
		return -1
	}
	return at
}

// askedFor is the size that was asked for, nil: it isn't said.
func (m *otherMark) askedFor(text []byte) *int64 {
	for _, words := range m.asked {
		if v := figures.After(text, words); v != unknown {
			return &v
		}
		if _, rest, ok := bytes.Cut(text, []byte(words)); ok && m.plain {
			if n, _, ok := figures.Integer(rest); ok && n <= figures.MaxMemory {
				return &n
			}
		}
	}
	return nil
}

// failsKernel tells of a kernel that failed: nothing else that a GPU is asked for
// works afterwards, whatever its memory.
func failsKernel(line []byte) bool {
	_, assertion, ok := bytes.Cut(line, []byte("Assertion `"))
	return ok && bytes.Contains(assertion, []byte("` failed")) ||
		bytes.Contains(line, []byte("device-side assert triggered")) ||
		bytes.Contains(line, []byte("illegal memory access was encountered"))
}

// raised tells a message from prose and program text about it: it stands alone,
// or an exception's name or a logger's level stands before it.
func raised(line []byte, at int) bool {
	before := bytes.TrimRight(line[:at], " \t")
	if len(before) == 0 {
		return true
	}
	switch before[len(before)-1] {
	case '`', '"', '\'':
		return false
	}
	for _, word := range [...]string{"rror:", "ERROR", "WARN", "xception", "rror Code", "allocating", "returned", "results in",
		"aused by", "nternal", "INTERNAL", "OutOfMemory", "andle:", "RESOURCE_EXHAUSTED:"} {
		if bytes.Contains(before, []byte(word)) {
			return true
		}
	}
	last := before[bytes.LastIndexByte(before, ' ')+1:] // "torch.", "jaxlib.xla_extension.", a launcher's mark
	end := last[len(last)-1]
	return end == '.' && len(last) > 1 && isWordByte(last[0]) || end == ':' && len(last) == len(before) || end == ']' ||
		end == ')'
}

// readOther takes the figures that there are; false for a line that tells of no failure.
func readOther(m *evidence.OOMMessage, mark *otherMark, line []byte, at int, text []byte) bool {
	m.RequestedBytes = mark.askedFor(text)
	switch mark.by {
	case "":
		start := at
		for start > 0 && line[start-1] >= 'A' && line[start-1] <= 'Z' {
			start--
		}
		m.By = string(line[start : at+len(mark.words)])
	case "NCCL", "RCCL":
		m.GPU = evidence.Known(ncclDevice(line))
		return mark.words[0] == 'F' || bytes.Contains(line[at:], outOfMemory)
	case "llama.cpp", "CuPy":
		if m.RequestedBytes == nil {
			return false
		}
	case cudaMallocAsync:
		after := bytes.TrimSpace(line[at+len(mark.words):])
		if len(after) > 0 && !units.IsDigit(after[0]) && !bytes.HasPrefix(after, []byte("would")) {
			return false
		}
	case "workspace":
		if _, rest, ok := bytes.Cut(text, []byte("withsize")); ok {
			if n, _, ok := figures.Integer(rest); ok {
				m.RequestedBytes = known(n)
			}
		}
		m.AllowedBytes = known(figures.After(text, "butonly"))
	case "XLA", "THC":
		if !bytes.Contains(line, outOfMemory) {
			return false // another quota than memory's
		}
	case "TensorFlow":
		if m.RequestedBytes == nil {
			m.RequestedBytes = known(tensorBytes(text))
		}
		if bytes.Contains(text, []byte("device:CPU:")) {
			m.By = ""
		}
	case "Paddle":
		m.AllocatedBytes = known(figures.Before(text, "memoryhasbeenallocated"))
		m.DeviceFreeBytes = known(figures.After(text, "availablememoryisonly"))
	case "vLLM":
		readEngine(m, text)
	case "split attention":
		m.DeviceFreeBytes = known(figures.After(text, "Have:"))
	}
	for _, word := range [...]string{"device:GPU:", "onGPU", "ondevice"} {
		if i := bytes.Index(text, []byte(word)); i >= 0 && m.GPU == nil {
			if n, _, ok := figures.Integer(text[i+len(word):]); ok && n < 1024 {
				m.GPU = new(int(n))
			}
		}
	}
	return true
}

// readEngine reads what vLLM says that it can't start with (vllm/v1/core/kv_cache_utils.py,
// vllm/v1/worker/utils.py):
//
//	(16.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.50 GiB).
//	Free memory on device (10.20/23.65 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB).
func readEngine(m *evidence.OOMMessage, text []byte) {
	m.RequestedBytes = known(figures.Before(text, "KVcacheisneeded"))
	m.AllowedBytes = known(figures.After(text, "availableKVcachememory("))
	if _, fits, ok := bytes.Cut(text, []byte("estimatedmaximummodellengthis")); ok {
		m.TokensFree, _, _ = figures.Integer(withoutCommas(fits))
	}
	_, rest, ok := bytes.Cut(text, []byte("Freememoryondevice"))
	if !ok {
		return
	}
	_, rest, _ = bytes.Cut(rest, []byte("("))
	free, after, ok := figures.Decimal(rest)
	if !ok || len(after) == 0 || after[0] != '/' {
		return
	}
	capacity, unit, _ := figures.Decimal(after[1:])
	if bytes.HasPrefix(unit, []byte("GiB")) && capacity > 0 && capacity < 1<<20 && free <= capacity {
		m.DeviceFreeBytes, m.CapacityBytes = known(int64(free*(1<<30))), known(int64(capacity*(1<<30)))
	}
	// Commas between digits are gone: "(0.9,21.28GiB)" has one behind a fraction.
	if _, rest, ok = bytes.Cut(rest, []byte("memoryutilization(")); ok {
		if _, rest, ok = bytes.Cut(rest, []byte(",")); ok {
			v, _ := figures.Size(rest)
			m.RequestedBytes = known(v)
		}
	}
}

var ncclLine = pattern.Of(`\[(\d{1,3})\][^\[]*NCCL WARN`)

// ncclDevice is the GPU of NCCL's own lines: "node:200:300 [3] include/alloc.h:103 NCCL WARN".
func ncclDevice(line []byte) int {
	if m := ncclLine().FindSubmatch(line); m != nil {
		n, _, _ := figures.Integer(m[1])
		return int(n)
	}
	return -1
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

// asyncFigures reads what the message of cudaMallocAsync says, over several
// lines or on its first:
//
//	Currently allocated     : 22.40 GiB
//	Requested               : 1.50 GiB
//	Device limit            : 23.99 GiB
//	Free (according to CUDA): 0 bytes
//	PyTorch limit (set by user-supplied memory fraction)
//	                        : 17179869184.00 GiB
func (p *Parser) asyncFigures(number int, line []byte, _ features) bool {
	if number-p.async > asyncLines || len(line) > maxOther || len(p.report.OOMs) == 0 {
		p.async = 0
		return false
	}
	m := &p.report.OOMs[len(p.report.OOMs)-1]
	text := figures.Compact(line, maxOther)
	if m.By == "sglang's pool" {
		return poolFigures(m, text)
	}
	found := bytes.Contains(text, []byte("PyTorchlimit("))
	if limit, ok := bytes.CutPrefix(text, []byte(":")); ok {
		v, _ := figures.Size(limit)
		m.AllowedBytes = known(v)
		return true
	}
	for _, f := range [...]struct {
		words string
		bytes **int64
	}{{"Currentlyallocated:", &m.AllocatedBytes}, {"Requested:", &m.RequestedBytes}, {"Devicelimit:", &m.CapacityBytes},
		{"Free(accordingtoCUDA):", &m.DeviceFreeBytes}, {"memoryfraction):", &m.AllowedBytes}} {
		if v := figures.After(text, f.words); v != unknown {
			*f.bytes, found = &v, true
		}
	}
	return found
}

// poolFigures reads what sglang says of its pool below the failure:
//
//	Try to allocate 4096 tokens.
//	Available full tokens: 3136 (full_available_size=3136 + full_evictable_size_=0)
func poolFigures(m *evidence.OOMMessage, text []byte) bool {
	if _, rest, ok := bytes.Cut(text, []byte("Trytoallocate")); ok {
		m.Tokens, _, _ = figures.Integer(rest)
		return true
	}
	before, rest, ok := bytes.Cut(text, []byte("tokens:"))
	if ok = ok && bytes.HasPrefix(before, []byte("Available")); ok {
		m.TokensFree, _, _ = figures.Integer(rest)
	}
	return ok
}
