package logs

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// epochsRise reports whether another epoch begins with each of these values, and none between.
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
	c, ok := series.Climbing(s.values)
	if !ok {
		return false
	}
	first, last, n := s.values[0], s.values[len(s.values)-1], len(c.At)
	every := "again and again"
	switch numbers := s.numbers; {
	case s.epochsRise(c.At):
		every = "an epoch"
	case numbers[c.At[n-1]] > numbers[c.At[0]]:
		every = fmt.Sprintf("every %s steps or so", units.Count(int(numbers[c.At[n-1]]-numbers[c.At[0]])/(n-1)))
	}
	f := report.Finding{ID: "memory_grows", Severity: report.Warning, Confidence: 0.75, Code: how("loop"),
		Title: fmt.Sprintf("%s grows by %s %s in the log, from %s to %s", what, units.Bytes(int64(c.Each)), every,
			units.Bytes(int64(first)), units.Bytes(int64(last))),
		Evidence: []string{fmt.Sprintf("%s: %d rises of %s or about, and the same level in between", w.name(source), n,
			units.Bytes(int64(c.Each))),
			"sequences or images that get larger by a schedule look alike"},
		Fix: advice.Text("log.stairs")}
	if size := w.capacityOf(); size > int64(last) {
		f.Evidence = append(f.Evidence, fmt.Sprintf("at this pace the GPU's %s are full after %s more", units.Bytes(size),
			units.Count(int((float64(size)-last)/c.Each))))
	}
	w.add(f)
	return true
}
