package runlog

import (
	"math"
	"slices"
	"time"

	"github.com/vramscope/vramscope/evidence"
)

// tally counts distinct steps and gathers their times in bounded memory.
type tally struct {
	count       int
	numbered    int  // of them with a number
	hasMemory   bool // one of them tells of memory
	seen        numberSet
	first, last int64
	reported    median
	cumulative  median
	stamped     median
	previous    evidence.Step // the last new step
	elapsed     float64       // its cumulative time
	curve       evidence.Thinned[evidence.Step]
	rows        []row
}

func (t *tally) init() {
	t.first, t.last, t.elapsed = -1, -1, -1
	t.previous.Number = -1
}

// add counts a step; false when it was counted before.
// Every way to time a step is fed where the step is counted.
func (t *tally) add(s evidence.Step, elapsed float64) bool {
	if s.Number >= 0 {
		if s.Number == t.previous.Number && t.previous.Epoch < 0 {
			s.Epoch = t.previous.Epoch // another line about the same step
		}
		next := t.follow(s)
		if !t.seen.add(s.Epoch, s.Number) {
			if next && len(t.rows) > 1 {
				t.curve.Add(s, curvePoints)
			}
			t.addTo(s)
			return false
		}
		if t.first < 0 {
			t.first = s.Number
		}
		t.last = s.Number
		t.numbered++
	}
	t.count++
	t.hasMemory = t.hasMemory || s.AllocatedBytes != unknown || s.ReservedBytes != unknown
	if s.Seconds > 0 {
		t.reported.add(s.Seconds)
	}
	t.since(s, elapsed)
	t.previous, t.elapsed = s, elapsed
	t.curve.Add(s, curvePoints)
	return true
}

// since times a step by what came before.
func (t *tally) since(s evidence.Step, elapsed float64) {
	n := s.Number - t.previous.Number
	if t.previous.Number < 0 || n <= 0 {
		return
	}
	if elapsed > t.elapsed && t.elapsed > 0 {
		t.cumulative.add((elapsed - t.elapsed) / float64(n))
	}
	if d := s.At - t.previous.At; s.At != 0 && t.previous.At != 0 && d > 0 && d < int64(24*time.Hour) {
		t.stamped.add(float64(d) / 1e9 / float64(n))
	}
}

// row is a stretch of a log in which the numbers of steps rise: of several jobs in
// one log, each has its own.
type row struct {
	line, steps int
	epoch, last int64
}

const (
	rowSteps = 3  // more than ranks whose lines are mixed are apart
	maxRows  = 64 // of one log
)

// follow puts a step into its row, and begins another where numbers go back; false
// where the line tells of the same step as the one before. Numbers that go back and
// forth are those of ranks, mixed.
func (t *tally) follow(s evidence.Step) bool {
	n := len(t.rows)
	switch {
	case n == 0:
		t.rows = append(t.rows, row{line: s.Line})
	case t.rows[n-1].epoch != s.Epoch || t.rows[n-1].last <= s.Number+rowSteps:
		if n > 1 && t.rows[n-1].steps < rowSteps && s.Number > max(t.rows[n-2].last, t.rows[n-1].last+1) {
			t.rows = t.rows[:n-1]
		}
	case t.rows[n-1].steps >= rowSteps && n < maxRows:
		t.rows = append(t.rows, row{line: s.Line})
	}
	r := &t.rows[len(t.rows)-1]
	same := r.steps > 0 && r.last == s.Number && r.epoch == s.Epoch
	if !same {
		r.steps++
	}
	r.epoch, r.last = s.Epoch, s.Number
	return !same
}

// addTo takes from another line about the last step what the first did not
// say: DeepSpeed reports a step's learning rate, loss and time on three lines. Of ranks the one that holds most counts.
func (t *tally) addTo(s evidence.Step) {
	if n := len(t.curve.List); n > 0 && t.curve.List[n-1].Number == s.Number && t.curve.List[n-1].Epoch == s.Epoch {
		kept := &t.curve.List[n-1]
		kept.AllocatedBytes = max(kept.AllocatedBytes, s.AllocatedBytes)
		kept.ReservedBytes = max(kept.ReservedBytes, s.ReservedBytes)
	}
	if s.Number == t.previous.Number && s.Epoch == t.previous.Epoch && t.previous.Seconds < 0 && s.Seconds > 0 {
		t.previous.Seconds = s.Seconds
		t.reported.add(s.Seconds)
	}
}

// curvePoints bounds the kept steps to twice this number.
const curvePoints = 1024

func (t *tally) steps() *evidence.Steps {
	s := &evidence.Steps{Count: t.count, First: known(t.first), Last: known(t.last), Curve: t.curve.List}
	for i := 1; i < len(t.rows); i++ {
		s.Again = append(s.Again, t.rows[i].line)
	}
	for _, source := range [...]*median{&t.reported, &t.cumulative, &t.stamped} {
		if source.n > 0 {
			// Logs have microseconds at best; the rest is the noise of differences.
			s.MedianStepSeconds = evidence.Known(math.Round(source.value()*1e9) / 1e9)
			break
		}
	}
	return s
}

// numberSet is a set of (epoch, step), a bit each: steps are dense or nearly.
type numberSet struct {
	pages map[pageKey]*[64]uint64
	key   pageKey
	page  *[64]uint64
	last  int64 // when the set is full
}

type pageKey struct{ epoch, page int64 }

// maxPages bounds the set to 16 MiB, 134 million steps.
const maxPages = 32 << 10

// add reports whether the step is new. A full set knows only whether steps go up.
func (n *numberSet) add(epoch, step int64) bool {
	key := pageKey{epoch, step >> 12}
	if n.page == nil || key != n.key {
		page := n.pages[key]
		if page == nil {
			if len(n.pages) >= maxPages {
				fresh := step > n.last
				n.last = max(n.last, step)
				return fresh
			}
			if n.pages == nil {
				n.pages = map[pageKey]*[64]uint64{}
			}
			page = new([64]uint64)
			n.pages[key] = page
		}
		n.key, n.page = key, page
	}
	n.last = max(n.last, step)
	word, bit := step>>6&63, uint64(1)<<(step&63)
	if n.page[word]&bit != 0 {
		return false
	}
	n.page[word] |= bit
	return true
}

// median is exact up to medianKept values, and that of every second, fourth or further one beyond.
type median struct {
	n    int
	kept evidence.Thinned[float64]
}

const medianKept = 1 << 15

func (m *median) add(v float64) {
	m.n++
	m.kept.Add(v, medianKept/2)
}

func (m *median) value() float64 {
	sorted := slices.Sorted(slices.Values(m.kept.List))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
