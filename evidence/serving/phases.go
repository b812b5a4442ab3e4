package serving

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
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

var (
	asleep = pattern.Of(`leep mode freed .*, ([\d.]+ GiB) memory is still in use`)
	// moment is "Before vllm offload", and what a line says of then.
	moment = pattern.Of(`\b([BbAaD])(efore|fter|uring) ([^,:]{1,73})[,:](.*)`)
	// readings are in GB of 1024³ bytes, as all of them divide.
	readings = pattern.Of(`(allocated|reserved|used|total)(?:_GB'| ?\(GB\)): ?([\d.]+)|used/total \(GB\): ([\d.]+)/([\d.]+)|` +
		`^ ?([\d.]+) ?GB ?/ ?([\d.]+) ?GB`)
)

// Phase reads such a line.
func Phase(line []byte) (evidence.PhaseReading, bool) {
	r := evidence.PhaseReading{Used: figures.Unknown, Total: figures.Unknown, Allocated: figures.Unknown,
		Reserved: figures.Unknown}
	if len(line) > maxLine {
		return r, false
	}
	if m := asleep().FindSubmatch(line); m != nil {
		r.When = "after sleep"
		r.Used, _ = figures.Size(figures.Compact(m[1], 32))
		return r, r.Used >= 0
	}
	then := moment().FindSubmatch(line)
	if then == nil {
		return r, false
	}
	r.When = strings.ToLower(string(then[1])) + string(then[2]) + " " + string(then[3])
	for _, m := range readings().FindAllSubmatch(then[4], 8) {
		switch string(m[1]) {
		case "allocated":
			r.Allocated = gigabytes(m[2])
		case "reserved":
			r.Reserved = gigabytes(m[2])
		case "used":
			r.Used = gigabytes(m[2])
		case "total":
			r.Total = gigabytes(m[2])
		default:
			r.Used, r.Total = gigabytes(slices.Concat(m[3], m[5])), gigabytes(slices.Concat(m[4], m[6]))
		}
	}
	return r, r.Used > 0 || r.Allocated > 0 && r.Reserved > 0
}

func gigabytes(text []byte) int64 {
	v, _, ok := figures.Decimal(text)
	if !ok || v >= 1<<20 {
		return figures.Unknown
	}
	return int64(v * (1 << 30))
}
