package evidence

import "slices"

// Sample is one reading, or the highest of several neighbours.
type Sample struct {
	At                 Stamp
	UsedBytes          int64   // negative when not shown
	UtilizationPercent float32 // negative when not shown
}

// seriesPoints bounds a series. Twice this many is the most ever held.
const seriesPoints = 1024

// Thinned is a list of bounded length: when it is full every second of what it holds goes, and of what comes
// afterwards only every second, fourth or further one is kept.
type Thinned[T any] struct {
	List []T

	every, skipped int
}

// Add takes the next one, where at most twice so many are kept, and reports whether it was kept.
func (t *Thinned[T]) Add(v T, most int) bool {
	if t.skipped++; t.skipped < t.every {
		return false
	}
	t.skipped = 0
	if t.List = append(t.List, v); len(t.List) == 2*most {
		for i := range most {
			t.List[i] = t.List[2*i]
		}
		t.List, t.every = t.List[:most], 2*max(1, t.every)
	}
	return true
}

// Series is a curve of bounded length: when it is full, neighbours merge in
// pairs, keeping the one with more memory in use, so peaks survive.
type Series struct {
	Samples []Sample
	Every   int // readings behind one sample

	pending int
}

// Add takes the next reading.
func (s *Series) Add(v Sample) {
	if s.Every == 0 {
		s.Every = 1
	}
	if s.pending > 0 {
		last := &s.Samples[len(s.Samples)-1]
		if v.UsedBytes > last.UsedBytes {
			*last = v
		}
	} else {
		s.Samples = append(s.Samples, v)
	}
	if s.pending++; s.pending == s.Every {
		s.pending = 0
		if len(s.Samples) == 2*seriesPoints {
			s.halve()
		}
	}
}

func (s *Series) halve() {
	half := s.Samples[:0]
	for pair := range slices.Chunk(s.Samples, 2) {
		a := pair[0]
		if b := pair[len(pair)-1]; b.UsedBytes > a.UsedBytes { // the last may be alone
			a = b
		}
		half = append(half, a)
	}
	s.Samples = half
	s.Every *= 2
}

// Append joins the curve of another form of the same GPU, in stream order.
func (s *Series) Append(t *Series) {
	if len(s.Samples) == 0 {
		*s = *t
		return
	}
	s.Samples = append(s.Samples, t.Samples...)
	s.Every = max(s.Every, t.Every)
	for len(s.Samples) > 2*seriesPoints {
		s.halve()
	}
}
