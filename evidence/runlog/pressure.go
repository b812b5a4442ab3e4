package runlog

import (
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// pressureOf are what these say:
//
//	1 pytorch allocator cache flushes since last step. this happens when (deepspeed/runtime/zero/stage3.py)
//	3 CUDA memory allocation retries. (torchtitan/components/metrics.py, of all steps so far)
//	CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory (the same)
//	GPU = NVIDIA GeForce RTX 4060. Max memory = 7.996 GB. (Unsloth's notebooks, in 1024³)
var pressureOf = pattern.Of(`(\d+) pytorch allocator cache flushes since last step|(\d+) CUDA memory allocation retries\.|` +
	`(?:UDA capacity: .* with |Max memory = |\. Max memory: )([\d.]+ ?[KMGT]i?B)`)

func readPressure(p *evidence.Pressure, number int, line []byte) {
	s, m := (*pressure)(p), pressureOf().FindSubmatch(line)
	if m == nil {
		return
	}
	since, _, _ := figures.Integer(m[1])
	all, _, _ := figures.Integer(m[2])
	if since > 0 {
		all = s.Flushes + since
	}
	if all > s.Flushes {
		if s.Flushes == 0 {
			s.Line = number
		}
		s.Flushes = min(all, 1<<40)
	}
	capacity, _ := figures.Size(figures.Compact(m[3], 24))
	s.keepCapacity(capacity)
}

// keepCapacity keeps what all GPUs have.
func (s *pressure) keepCapacity(capacity int64) {
	switch {
	case capacity <= 0:
	case s.CapacityBytes == 0 || s.CapacityBytes == capacity:
		s.CapacityBytes = capacity
	default:
		s.CapacityBytes = unknown
	}
}

type pressure evidence.Pressure
