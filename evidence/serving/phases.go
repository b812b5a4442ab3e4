package serving

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// PhaseExamples are the forms of readings before and after a phase:
// verl's, EasyR1's, slime's and vLLM's own.
var PhaseExamples = []string{
	"(WorkerDict pid=6) Before vllm offload in sharding manager, memory allocated (GB): 12.50, memory reserved (GB): 14.00, " +
		"device memory used/total (GB): 20.00/79.10",
	"(WorkerDict pid=6) After vllm offload in sharding manager: 24.50 GB / 79.11 GB.",
	"[Rank 7] Memory-Usage after update_weights: {'gpu': '7', 'total_GB': 178.0, 'free_GB': 95.5, 'used_GB': 82.5}",
	"INFO 05-01 10:00:00 [gpu_worker.py:81] Sleep mode freed 69.46 GiB memory, 1.23 GiB memory is still in use.",
}

const giB = 1 << 30

// Phase reads such a line. GB are 1024³ bytes: all of them divide by that.
func Phase(line []byte) (evidence.PhaseReading, bool) {
	r := evidence.PhaseReading{Used: figures.Unknown, Total: figures.Unknown, Allocated: figures.Unknown,
		Reserved: figures.Unknown}
	if len(line) > maxLine {
		return r, false
	}
	if at := bytes.Index(line, []byte("leep mode freed ")); at >= 0 {
		r.When = "after sleep"
		r.Used = figures.Before(figures.Compact(line, maxLine), "memoryisstillinuse")
		return r, r.Used >= 0
	}
	when, rest := moment(line)
	if when == "" {
		return r, false
	}
	r.When = when
	text := figures.Compact(rest, maxLine)
	r.Allocated = gigabytes(text, "allocated(GB):", "'allocated_GB':")
	r.Reserved = gigabytes(text, "reserved(GB):", "'reserved_GB':")
	r.Used, r.Total = gigabytes(text, "used/total(GB):", "'used_GB':"), gigabytes(text, "'total_GB':")
	if _, after, ok := bytes.Cut(text, []byte("used/total(GB):")); ok {
		_, after, _ = bytes.Cut(after, []byte("/"))
		r.Total = gigabytes(after, "")
	}
	if used, after, ok := figures.Decimal(text); ok && bytes.HasPrefix(after, []byte("GB/")) {
		r.Used, r.Total = int64(used*giB), gigabytes(after, "GB/")
	}
	return r, r.Used > 0 || r.Allocated > 0 && r.Reserved > 0
}

// moment cuts "Before vllm offload" off what a line says of then.
func moment(line []byte) (when string, rest []byte) {
	for _, word := range [...]string{"Before ", "After ", "before ", "after ", "During "} {
		at := bytes.Index(line, []byte(word))
		if at < 0 {
			continue
		}
		text := line[at:]
		end := bytes.IndexAny(text, ",:")
		if end < 0 || end > 80 {
			continue
		}
		return string(bytes.ToLower(text[:1])) + string(text[1:end]), text[end+1:]
	}
	return "", nil
}

// gigabytes reads the number behind the first of some words that is there.
func gigabytes(text []byte, words ...string) int64 {
	for _, w := range words {
		if _, rest, ok := bytes.Cut(text, []byte(w)); ok {
			if v, _, ok := figures.Decimal(rest); ok && v < 1<<20 {
				return int64(v * giB)
			}
		}
	}
	return figures.Unknown
}
