package figures

import (
	"bytes"
	"slices"
)

// What is what a figure of memory is a figure of.
type What uint8

// The figures of memory. All but None and OfHost are of a GPU.
const (
	None      What = iota // no memory, or a part of it that says nothing of what is held
	OfHost                // of the machine's own memory
	Used                  // in use, by whatever counts it
	Allocated             // of PyTorch's allocator
	Reserved              // that PyTorch had of the GPU
	Active                // allocated, or waiting to be free
	Free
	OfDevice // that the GPU has, or what may be taken of it
)

// Held reports whether it is memory of a GPU that something holds.
func (w What) Held() bool { return w >= Used && w <= Active }

// Named is what the words before a figure, a column's or a metric's name, say of it.
type Named struct {
	What   What
	Sure   bool    // by itself, in a list of names: "gpu_mem", not "memory"
	Sized  bool    // only if a unit follows: "peak 3.5 GB"
	Plain  bool    // it may stand alone, outside of a step's line
	Factor float64 // bytes in one, 0: the name doesn't say
	Binary bool    // the MB and GB of such a name are MiB and GiB
}

// Word is a word by which a figure isn't what a GPU holds, with a line that needs it.
type Word struct {
	Word string
	What What
	Line string
}

// Words are all of those; the first that a name has counts.
var Words = []Word{
	{"cpu", OfHost, "  init_mem_cpu_alloc_delta   =     1101MB"},
	{"host", OfHost, "Host memory allocated: 12.5 GB"},
	{"virtual", OfHost, "[INFO] [utils.py:793:see_memory_usage] CPU Virtual Memory:  used = 70.28 GB, percent = 3.5%"},
	{"rss", OfHost, "rss memory: 21.5 GB"},
	{"swap", OfHost, "swap memory: 6 GB"},
	{"pinned", OfHost, "pinned memory: 12.5 GB"},
	{"system mem", OfHost, "system memory used: 12.5 GB"},
	{"system.mem", OfHost, "system.memory used: 12.5 GB"},
	{"proc.mem", OfHost, "proc.memory used: 12.5 GB"},
	{"maximum memory used", OfHost, "Maximum memory used            : 3.88G"},   // Slurm's jobinfo
	{"total memory reserved   ", OfHost, "Total memory reserved          : 4G"}, // the same
	{"disk", None, "Disk cache allocated: 12.5 GB"},
	{"kv cache", None, "Unsloth: vLLM's KV Cache can use up to 36.84 GB. Also swap space = 6 GB."},
	{"free", Free, "GPU memory free: 12.5 GB"},
	{"avail", Free, "[2025-10-16 09:06:22 TP5] Memory pool end. avail mem=11.87 GB"},
	{"active", Active, "active memory: 12.5 GB"},
	{"util", None, "GPU memory utilization: 12.5 GB"},
	{"percent", None, "memory percent: 12.5"},
	{"frac", None, "memory fraction: 0.5 GB"},
	{"limit", OfDevice, "memory limit: 12.5 GB"},
	{"capacity", OfDevice, "CUDA memory capacity: 79.10 GiB"},
	{"usage/", None, "memory_usage/total: 12.5 GB"},
	{"fragment", None, "memory fragmentation: 12.5 GB"},
	{"ratio", None, "memory ratio: 12.5 GB"},
	{"model size", None, "memory of model size: 12.5 GB"},
	{"process", None, "memory of process: 12.5 GB"},
	{"activation", None, "PyTorch activation peak memory 1.23GiB"},
	{"max memory", OfDevice, `GPU = NVIDIA GeForce RTX 4060. Max memory = 7.996 GB.`}, // Unsloth
	{"max_memory_of", OfDevice, "system/max_memory_of_device_gb: 79.2"},
	{"storage", None, "storage memory: 12.5 GB"},
	{"theoretical", None, "Theoretical memory footprints: 4660.05 MB"},                 // Megatron's theory
	{"weight and optimizer", None, "weight and optimizer memory=95.35 MB"},             // the same
	{"max-begin", None, "GPU Peak Memory consumed during the train (max-begin): 7488"}, // of PEFT's examples
	{"end-begin", None, "GPU Memory consumed at the end of the train (end-begin): 66"},
	{"to alloc", None, "Tried to allocate 1.50 GiB"},
	{"calloc", None, "NCCL WARN Failed to CUDA calloc async 24 MB"},
}

// holds are by which the total of a name is of what is held, not the GPU's size.
var holds = []string{"alloc", "reserved", "used", "usage", "peak", "consum", "in total"}

func has(name []byte, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(name, []byte(w)) })
}

// hasWord finds a word that no letters stand around: ram, not vram or param.
func hasWord(name []byte, word string) bool {
	for from := 0; ; {
		i := bytes.Index(name[from:], []byte(word))
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(word)
		if (at == 0 || name[at-1] < 'a' || name[at-1] > 'z') && (end == len(name) || name[end] < 'a' || name[end] > 'z') {
			return true
		}
		from = end
	}
}

// NameOf reads a name, or the words before a figure, in lower case: perf/max_memory_allocated_gb,
// memory/max_reserved(GiB), "max mem: ".
func NameOf(name []byte) Named {
	word := LastWord(name)
	n := Named{Factor: factorOf(name, word)}
	// The Trainer's metrics are bytes >> 20 (transformers/trainer_utils.py), the
	// peak that Unsloth's notebooks print is in 1024³.
	n.Binary = has(name, "_mb", "_gb", "memalloc", "_mem_gpu", "peak reserved memory")
	memory := has(name, "mem", "alloc", "reserved", "cached", "vram")
	switch string(word) {
	case "ma", "max_ma", "ca", "max_ca": // DeepSpeed's
		n.What, n.Sized, n.Binary, n.Plain = Allocated, true, true, true
		if word[len(word)-2] == 'c' {
			n.What = Reserved
		}
		return n
	case "gpu", "peak", "max", "cuda":
		memory, n.Sized = true, true
	}
	if !memory {
		return n
	}
	n.Sure = isSure(name, n.Factor)
	if n.What = whatOf(name); !n.What.Held() || n.What == Active {
		return n
	}
	n.Plain = has(name, "alloc", "reserved", "peak", "usage", "used") ||
		has(name, "gpu memory") && has(name, " while ", " after ", " before ", " during ", "baseline")
	return n
}

// isSure reports whether a name is by itself of a GPU's memory.
func isSure(name []byte, factor float64) bool {
	mem := has(name, "mem")
	if has(name, "vram") || (mem || has(name, "reserved", "cached")) && has(name, "alloc", "peak", "max", "gpu", "cuda", "used",
		"active") {
		return true
	}
	return factor > 0 && (mem && has(name, "reserved") || has(name, "alloc") && has(name, "gpu", "cuda"))
}

// whatOf is what a name says that is of some memory.
func whatOf(name []byte) What {
	if hasWord(name, "ram") {
		return OfHost
	}
	for _, w := range Words {
		if bytes.Contains(name, []byte(w.Word)) {
			return w.What
		}
	}
	switch {
	case has(name, "total") && !has(name, holds...):
		return OfDevice
	case has(name, "reserved", "cached"):
		return Reserved
	case has(name, "alloc"):
		return Allocated
	}
	return Used
}

// factorOf is the unit that a name ends in. Those who put it there divide by 1024³.
func factorOf(name, word []byte) float64 {
	ends := func(unit string) bool {
		return bytes.HasSuffix(word, []byte(unit)) || has(name, "("+unit+")", "_"+unit)
	}
	switch {
	case has(name, "total peak memory consumed"): // b2mb() of PEFT's examples
		return 1 << 20
	case ends("mib"), ends("mb"):
		return 1 << 20
	case ends("gib"), ends("gb"), has(name, "perf/max_memory_"): // verl's
		return 1 << 30
	case ends("megabytes"):
		return 1e6
	case ends("gigabytes"):
		return 1e9
	case ends("bytes"):
		return 1
	}
	return 0
}

// LastWord is the last word of some text in lower case, without what follows it.
func LastWord(text []byte) []byte {
	part := func(c byte) bool { return c >= 'a' && c <= 'z' || c == '_' || IsDigit(c) }
	end := len(text)
	for end > 0 && !part(text[end-1]) {
		end--
	}
	start := end
	for start > 0 && part(text[start-1]) {
		start--
	}
	return text[start:end]
}
