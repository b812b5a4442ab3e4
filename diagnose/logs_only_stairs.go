package diagnose

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// stairs are a level that rises by the same again and again, and stays in between.
type stairs struct {
	at   []int   // indexes of the first values after a rise
	each float64 // the median of the rises
}

const (
	stairRises = 3
	evenly     = 1.5 // times the median, or a part of it, that a rise and what lies between two may be
	levelShare = 0.1 // of the whole rise that the rest may change by
)

// climbing finds stairs. A running maximum that rises with the longest batch so far
// does so by less and less, and ever more seldom.
func climbing(values []float64) (stairs, bool) {
	var s stairs
	var rises, gaps []float64
	rest := 0.0
	for i := 1; i < len(values); i++ {
		d := values[i] - values[i-1]
		if math.Abs(d) < max(growthBytes, growthShare*values[i]) {
			rest += d
			continue
		}
		if d < 0 {
			return s, false
		}
		if n := len(s.at); n > 0 {
			gaps = append(gaps, float64(i-s.at[n-1]))
		}
		s.at, rises = append(s.at, i), append(rises, d)
	}
	if len(s.at) < stairRises {
		return s, false
	}
	s.each = median(rises)
	last := len(values) - s.at[len(s.at)-1]
	whole := values[len(values)-1] - values[0]
	ok := even(rises) && even(gaps) && median(gaps) > 1 && float64(last) <= evenly*median(gaps) &&
		math.Abs(rest) <= levelShare*whole
	return s, ok
}

// even tells values of which none is far from the median.
func even(values []float64) bool {
	m := median(values)
	for _, v := range values {
		if v > evenly*m || v < m/evenly {
			return false
		}
	}
	return true
}

// epochsRise tells whether another epoch begins with each of these values, and none between.
func (s *stepSeries) epochsRise(at []int) bool {
	begun := 0
	for i := at[0] - 1; i < len(s.epochs); i++ {
		if i > 0 && s.epochs[i] > s.epochs[i-1] {
			begun++
		}
	}
	for _, i := range at {
		if s.epochs[i] <= s.epochs[i-1] {
			return false
		}
	}
	return begun == len(at)
}

// climbs tells of memory that is kept once for each epoch, or after so many steps.
func (w *witness) climbs(source int, what string, s *stepSeries) bool {
	c, ok := climbing(s.values)
	if !ok {
		return false
	}
	first, last, n := s.values[0], s.values[len(s.values)-1], len(c.at)
	every := "again and again"
	switch numbers := s.numbers; {
	case s.epochsRise(c.at):
		every = "an epoch"
	case numbers[c.at[n-1]] > numbers[c.at[0]]:
		every = fmt.Sprintf("every %s steps or so", units.Count(int(numbers[c.at[n-1]]-numbers[c.at[0]])/(n-1)))
	}
	f := report.Finding{ID: "memory_grows", Severity: report.Warning, Confidence: 0.75, Code: how("loop"),
		Title: fmt.Sprintf("%s grows by %s %s in the log, from %s to %s", what, units.Bytes(int64(c.each)), every,
			units.Bytes(int64(first)), units.Bytes(int64(last))),
		Evidence: []string{fmt.Sprintf("%s: %d rises of %s or about, and the same level in between", w.name(source), n,
			units.Bytes(int64(c.each))),
			"sequences or images that get larger by a schedule look alike"},
		Fix: ptr("Look what is kept each time: results of the evaluation, lists of losses or outputs, a new model, optimizer " +
			"or data loader beside the old one. Record over such a rise to see it")}
	if size := w.capacityOf(-1); size > int64(last) {
		f.Evidence = append(f.Evidence, fmt.Sprintf("at this pace the GPU's %s are full after %s more", units.Bytes(size),
			units.Count(int((float64(size)-last)/c.each))))
	}
	w.add(f)
	return true
}
