// Package serving reads what inference engines print of a GPU's memory: their own
// account of it, and the readings that trainers with an engine beside them print
// before and after each phase.
//
//	var engine evidence.Engine
//	if serving.Account(&engine, line) {
//		fmt.Println(engine.Name, engine.Weights)
//	}
package serving

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// Mark is one line of an engine's account.
type Mark struct {
	Words  string // that tell the line
	Engine string
	Line   string // an example
	parts  []part
}

// part is a figure of such a line, in the line without white space: what stands
// before it, or behind it.
type part struct {
	after, before string
	keep          func(*evidence.Engine, value)
}

// value is a figure in all that it may be.
type value struct {
	bytes int64 // negative where it is less than nothing; 0: it is no size
	count int64
	share float64
}

func most(of *int64, bytes int64) { *of = max(*of, bytes) }

var (
	weights     = func(e *evidence.Engine, v value) { most(&e.Weights, v.bytes) }
	activations = func(e *evidence.Engine, v value) { most(&e.Activations, v.bytes) }
	outside     = func(e *evidence.Engine, v value) { most(&e.Outside, v.bytes) }
	graphs      = func(e *evidence.Engine, v value) { most(&e.Graphs, v.bytes) }
	total       = func(e *evidence.Engine, v value) { most(&e.Total, v.bytes) }
	allowed     = func(e *evidence.Engine, v value) { most(&e.Allowed, v.bytes) }
	left        = func(e *evidence.Engine, v value) { e.Left = v.bytes }
	tokens      = func(e *evidence.Engine, v value) { most(&e.Tokens, v.count) }
	preempted   = func(e *evidence.Engine, v value) { most(&e.Preemptions, v.count) }
	oncePrempt  = func(e *evidence.Engine, _ value) { e.Preemptions++ }
	blocks      = func(e *evidence.Engine, v value) {
		if v.count == 0 {
			e.CacheKnown = true // no block at all
		}
	}
	share = func(e *evidence.Engine, v value) {
		if v.share > 0 && v.share <= 1 {
			e.Share = v.share
		}
	}
	cache = func(e *evidence.Engine, v value) {
		if !e.CacheKnown || v.bytes > e.Cache {
			e.Cache, e.CacheKnown = v.bytes, true
		}
	}
	moreCache   = func(e *evidence.Engine, v value) { e.Cache, e.CacheKnown = max(e.Cache, v.bytes), true }
	moreWeights = func(e *evidence.Engine, v value) { e.Weights += max(0, v.bytes) }
	plusCache   = func(e *evidence.Engine, v value) { e.Cache, e.CacheKnown = e.Cache+max(0, v.bytes), true }
	plusRest    = func(e *evidence.Engine, v value) { e.Activations += max(0, v.bytes) }
)

// Marks are all of them. GB of vLLM, sglang and TensorRT-LLM were divided by 1024³.
var Marks = []Mark{
	{"the current vLLM instance can use", "vLLM", "INFO 02-26 09:54:05 worker.py:267] the current vLLM instance can use " +
		"total_gpu_memory (24.00GiB) x gpu_memory_utilization (0.90) = 21.60GiB",
		[]part{{"total_gpu_memory(", "", total}, {"utilization(", "", share}, {")=", "", allowed}}},
	{"model weights take ", "vLLM", "INFO 02-26 09:54:05 worker.py:267] model weights take 15.20GiB; non_torch_memory takes " +
		"0.06GiB; PyTorch activation peak memory takes 1.20GiB; the rest of the memory reserved for KV Cache is 5.14GiB.",
		[]part{{"modelweightstake", "", weights}, {"non_torch_memorytakes", "", outside},
			{"activationpeakmemorytakes", "", activations}, {"reservedforKVCacheis", "", cache}}},
	{"Actual usage is ", "vLLM", "INFO 10-23 15:14:56 [gpu_worker.py:391] Free memory on device (23.10/23.60 GiB) on startup. " +
		"Desired GPU memory utilization is (0.9, 21.24 GiB). Actual usage is 15.10 GiB for weight, 1.40 GiB for peak " +
		"activation, 0.20 GiB for non-torch memory, and 0.50 GiB for CUDAGraph memory. Current kv cache memory in use is " +
		"4337916968 bytes.",
		[]part{{"Freememoryondevice(*/", "", total},
			{"utilizationis(", "", share}, {"utilizationis(*,", "", allowed}, {"", "forweight", weights},
			{"", "forpeakactivation", activations}, {"", "fornon-torchmemory", outside}, {"", "forCUDAGraphmemory", graphs},
			{"cachememoryinuseis", "", cache}}},
	{"Model loading took ", "vLLM", "INFO 02-28 12:13:26 [gpu_model_runner.py:1892] Model loading took 39.8101 GiB and " +
		"13.998194 seconds", []part{{"loadingtook", "", weights}}},
	{"Loading model weights took ", "vLLM", "INFO 02-26 09:54:02 model_runner.py:1115] Loading model weights took 5.2032 GB",
		[]part{{"weightstook", "", weights}}},
	{"Available KV cache memory", "vLLM", "INFO [gpu_worker.py:298] Available KV cache memory: 5.11 GiB",
		[]part{{"cachememory:", "", cache}}},
	{"GPU KV cache size: ", "vLLM", "INFO 02-28 12:14:22 [kv_cache_utils.py:833] GPU KV cache size: 127,664 tokens",
		[]part{{"cachesize:", "", tokens}}},
	{"Maximum concurrency for ", "vLLM", "INFO 02-28 12:14:22 [kv_cache_utils.py:837] Maximum concurrency for 4,096 tokens per " +
		"request: 31.17x", nil},
	{"# GPU blocks: ", "vLLM", "INFO 02-26 09:54:05 executor_base.py:110] # GPU blocks: 27000, # CPU blocks: 2048",
		[]part{{"GPUblocks:", "", blocks}}},
	{"# cuda blocks: ", "vLLM", "INFO 02-26 09:54:05 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681",
		[]part{{"cudablocks:", "", blocks}}},
	{"# CUDA blocks: ", "vLLM", "INFO 02-26 09:54:05 executor_base.py:111] # CUDA blocks: 27000, # CPU blocks: 2048",
		[]part{{"CUDAblocks:", "", blocks}}},
	{"Graph capturing finished", "vLLM", "INFO 02-28 12:14:59 [gpu_model_runner.py:2485] Graph capturing finished in 36 secs, " +
		"took 2.89 GiB", []part{{"took", "", graphs}}},
	{"total_num_cumulative_preemption=", "vLLM", "WARNING 03-11 10:24:05 scheduler.py:1754] Sequence group cmpl-1-0 is " +
		"preempted because there is not enough KV cache space. total_num_cumulative_preemption=51",
		[]part{{"cumulative_preemption=", "", preempted}}},
	{"Load weight end. ", "sglang", "[2025-10-16 09:05:01 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, " +
		"avail mem=63.40 GB, mem usage=15.15 GB.", []part{{"memusage=", "", weights}}},
	{"KV Cache is allocated. ", "sglang", "[2025-10-16 09:06:22 TP0] KV Cache is allocated. #tokens: 443000, K size: 27.04 GB, " +
		"V size: 27.04 GB", []part{{"#tokens:", "", tokens}, {"Ksize:", "", moreCache}, {"Ksize:*Vsize:", "", cache}}},
	{"Memory pool end. ", "sglang", "[2025-10-16 09:06:22 TP0] Memory pool end. avail mem=11.87 GB",
		[]part{{"availmem=", "", left}}},
	{"Capture cuda graph end. ", "sglang", "[2025-10-16 09:07:10 TP0] Capture cuda graph end. Time elapsed: 18.1 s. mem " +
		"usage=1.20 GB. avail mem=7.12 GB.", []part{{"memusage=", "", graphs}, {"availmem=", "", left}}},
	{"KV cache pool is full. Retract requests", "sglang", "[2025-10-16 09:20:00 TP0] KV cache pool is full. Retract requests. " +
		"#retracted_reqs: 1", []part{{"", "", oncePrempt}}},
	{"Setting max batch total tokens to ", "TGI", "2025-03-12T10:00:00Z INFO text_generation_router_v3: Setting max batch " +
		"total tokens to 59632", []part{{"totaltokensto", "", tokens}}},
	{"KV-cache blocks: ", "TGI", "2025-03-12T10:00:00Z INFO text_generation_launcher: KV-cache blocks: 59632, size: 1",
		[]part{{"KV-cacheblocks:", "", tokens}}},
	{"(inside torch) in memory usage profiling", "TensorRT-LLM", "[TRT-LLM] [I] Memory used after loading model weights " +
		"(inside torch) in memory usage profiling: 15.00 GiB",
		[]part{{"loadingmodelweights(insidetorch)inmemoryusageprofiling:", "", weights},
			{"duringinference(insidetorch)inmemoryusageprofiling:", "", activations}}},
	{"(outside torch) in memory usage profiling", "TensorRT-LLM", "[TRT-LLM] [I] Memory used outside torch (outside torch) " +
		"in memory usage profiling: 1.25 GiB", []part{{"inmemoryusageprofiling:", "", outside}}},
	{"available KV cache memory when calculating max tokens", "TensorRT-LLM", "[TRT-LLM] [I] Peak memory during memory usage " +
		"profiling (torch + non-torch): 18.36 GiB, available KV cache memory when calculating max tokens: 54.80 GiB, fraction " +
		"is set 0.9, kv size is 131072. device total memory 79.10 GiB",
		[]part{{"calculatingmaxtokens:", "", cache}, {"fractionisset", "", share}, {"devicetotalmemory", "", total}}},
	{"tokens in paged KV cache", "TensorRT-LLM", "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 11.99 GiB for max tokens in " +
		"paged KV cache (98240).", []part{{"Allocated", "", cache}, {"pagedKVcache(", "", tokens}}},
	{"CUDA graph pool memory: ", "vLLM", "INFO 11-01 10:00:40 [gpu_worker.py:511] CUDA graph pool memory: 0.61 GiB (actual), " +
		"0.85 GiB (estimated), difference: 0.24 GiB (39.3%).", []part{{"poolmemory:", "", graphs}}},
	{"Estimated CUDA graph memory: ", "vLLM", "INFO [gpu_model_runner.py:5500] Estimated CUDA graph memory: 0.85 GiB total",
		[]part{{"graphmemory:", "", graphs}}},
	{"torch peak memory increase: ", "vLLM", "DEBUG [gpu_worker.py:230] Memory profiling takes 5.02 seconds. Total non KV " +
		"cache memory: 17.50GiB; torch peak memory increase: 1.05GiB; non-torch forward increase memory: 0.12GiB; weights " +
		"memory: 15.20GiB.",
		[]part{{"peakmemoryincrease:", "", activations}, {"forwardincreasememory:", "", outside}, {"weightsmemory:", "",
			weights}}},
	{"Initial free memory: ", "vLLM", "DEBUG [gpu_worker.py:220] Initial free memory: 78.50 GiB; Requested memory: 0.90 " +
		"(util), 71.20 GiB",
		[]part{{"Requestedmemory:", "", share}, {"(util),", "", allowed}}},
	{"Loaded engine size: ", "TensorRT-LLM", "[TensorRT-LLM][INFO] Loaded engine size: 15388 MiB", []part{{"enginesize:", "",
		weights}}},
	{"for execution context memory", "TensorRT-LLM", "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 37812.51 MiB for " +
		"execution context memory.", []part{{"Allocated", "", activations}}},
	{"for runtime buffers", "TensorRT-LLM", "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 7.40 MB GPU memory for runtime " +
		"buffers.",
		nil},
	{"allocation in IExecutionContext creation", "TensorRT-LLM", "[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed " +
		"allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, GPU 15380 (MiB)", nil},
	{"GPU memory (", webUI, "[GPU Setting] You will use 76.80% GPU memory (3145.00 MB) to load weights, and use 23.20% GPU " +
		"memory (950.00 MB) to do matrix computation.", []part{{"GPUmemory(", "", weights}, {"toloadweights,*GPUmemory(", "",
		activations}}},
	{"[Memory Management] Target: ", webUI, "[Memory Management] Target: KModel, Free GPU: 6120.00 MB, Model Require: 4903.00 " +
		"MB, " +
		"Previously Loaded: 0.00 MB, Inference Require: 1024.00 MB, Remaining: 193.00 MB", []part{{"ModelRequire:", "", weights},
		{"InferenceRequire:", "", activations}, {"Remaining:", "", left}}},
	{"Current free memory is ", webUI, "[Unload] Trying to free 1024.00 MB for cuda:0 with 1 models keep loaded ... Current " +
		"free memory is 3516.46 MB ... Done.", []part{{"freememoryis", "", left}}},
	{" model buffer size", "llama.cpp", "load_tensors:        CUDA0 model buffer size =  4095.05 MiB",
		[]part{{"modelbuffersize=", "", moreWeights}}},
	{" KV buffer size", "llama.cpp", "llama_kv_cache_unified:      CUDA0 KV buffer size =   512.00 MiB",
		[]part{{"KVbuffersize=", "", plusCache}}},
	{" compute buffer size", "llama.cpp", "llama_context:      CUDA0 compute buffer size =   560.00 MiB",
		[]part{{"computebuffersize=", "", plusRest}}},
}

// webUI is Forge, whose account is of a picture's model and of drawing with it.
const webUI = "Stable Diffusion web UI"

// maxLine is the longest line that is one of an account.
const maxLine = 1500

// Account reads a line of an engine's account; false where it is none.
func Account(e *evidence.Engine, line []byte) bool {
	if len(line) > maxLine {
		return false
	}
	for i := range Marks {
		m := &Marks[i]
		if !bytes.Contains(line, []byte(m.Words)) {
			continue
		}
		if m.Engine == "llama.cpp" && (bytes.Contains(line, []byte("CPU")) || bytes.Contains(line, []byte("Host"))) {
			return true // of the host's memory
		}
		text := figures.Compact(line, maxLine)
		for _, p := range m.parts {
			p.read(e, text)
		}
		e.Name = m.Engine
		return true
	}
	return false
}

// read takes a part of a line. A star among the words before it stands for
// anything: "Ksize:*Vsize:" adds what both say.
func (p *part) read(e *evidence.Engine, text []byte) {
	if p.before != "" {
		if v := figures.Before(text, p.before); v != figures.Unknown {
			p.keep(e, value{bytes: v})
		}
		return
	}
	first, second, two := bytes.Cut([]byte(p.after), []byte("*"))
	_, rest, ok := bytes.Cut(text, first)
	if !ok {
		return
	}
	v := valueOf(rest)
	if two {
		one := v
		if _, rest, ok = bytes.Cut(rest, second); !ok {
			return
		}
		if v = valueOf(rest); one.bytes > 0 {
			v.bytes += one.bytes
		}
	}
	p.keep(e, v)
}

// valueOf reads a figure at the beginning of a text without white space.
func valueOf(text []byte) value {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	var v value
	if bytes, _ := figures.Size(digits); bytes != figures.Unknown {
		v.bytes = bytes
	}
	v.share, _, _ = figures.Decimal(digits)
	v.count = count(digits)
	if negative {
		v.bytes, v.count, v.share = -v.bytes, -v.count, -v.share
	}
	return v
}

// count reads 127,664.
func count(text []byte) (n int64) {
	for _, c := range text {
		switch {
		case figures.IsDigit(c) && n < 1<<50:
			n = n*10 + int64(c-'0')
		case c != ',':
			return n
		}
	}
	return n
}
