package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/units"
)

// readPressure reads what these say:
//
//	1 pytorch allocator cache flushes since last step. this happens when (deepspeed/runtime/zero/stage3.py)
//	3 CUDA memory allocation retries. (torchtitan/components/metrics.py, of all steps so far)
//	CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory (the same)
//	GPU = NVIDIA GeForce RTX 4060. Max memory = 7.996 GB. (Unsloth's notebooks, in 1024³)
func readPressure(p *evidence.Pressure, number int, line []byte) {
	s := (*pressure)(p)
	n := countBefore(line, " pytorch allocator cache flushes since last step")
	if n > 0 {
		n += s.Flushes
	} else {
		n = countBefore(line, " CUDA memory allocation retries.")
	}
	if n > s.Flushes {
		if s.Flushes == 0 {
			s.Line = number
		}
		s.Flushes = min(n, 1<<40)
	}
	if _, rest, ok := bytes.Cut(line, []byte("UDA capacity: ")); ok {
		if _, rest, ok = bytes.Cut(rest, []byte(" with ")); ok {
			capacity, _ := figures.Size(rest)
			s.keepCapacity(capacity)
		}
	}
	for _, words := range [...]string{"Max memory = ", ". Max memory: "} {
		if _, rest, ok := bytes.Cut(line, []byte(words)); ok {
			capacity, _ := figures.Size(figures.Compact(rest, 24))
			s.keepCapacity(capacity)
		}
	}
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

// countBefore is the number that words follow, 0 without one.
func countBefore(line []byte, words string) int64 {
	i := bytes.Index(line, []byte(words))
	if i < 0 {
		return 0
	}
	start := i
	for start > 0 && units.IsDigit(line[start-1]) {
		start--
	}
	n, _, _ := figures.Integer(line[start:i])
	return n
}
