package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// facts are what several rules ask of a device, worked out in one pass over its
// allocations.
type facts struct {
	// at sums up what is alive at the allocated peak.
	at     [classify.NumCategories][classify.NumDetails]tally
	spans  []classify.PhaseSpan // of the whole recording, in order
	trains bool                 // some backward pass is seen, or an optimizer's step
	unseen bool                 // it trains, but no backward pass could be seen
	scarce bool                 // a request failed, or nearly all of the device was taken
}

func (e *examination) facts(dev *report.Device) *facts {
	f := &facts{spans: e.spans()}
	has := func(p classify.Phase) bool {
		return slices.ContainsFunc(f.spans, func(s classify.PhaseSpan) bool { return s.Phase == p })
	}
	f.unseen = !has(classify.Backward) && has(classify.Optimizer)
	f.trains = f.unseen || has(classify.Backward)
	event := e.t.Peaks.Allocated.Event
	for i, bytes := range e.t.Allocated {
		if e.t.AliveAt(timeline.AllocationID(i), event) {
			f.at[e.classes.Category[i]][e.classes.Detail[i]].add(bytes)
		}
	}
	f.scarce = len(dev.OOMs) > 0 || dev.CapacityBytes != nil && dev.Peaks.Reserved.Bytes >= *dev.CapacityBytes/10*9
	return f
}

// spans are the phases of the whole recording, in order.
func (e *examination) spans() []classify.PhaseSpan {
	spans := slices.Clone(e.classes.Before)
	for i := range e.classes.Steps {
		spans = append(spans, e.classes.Steps[i].Phases...)
	}
	return spans
}

// held is what a category takes at the peak, all its details together.
func (f *facts) held(c classify.Category) (bytes int64) {
	for _, y := range f.at[c] {
		bytes += y.bytes
	}
	return bytes
}

// severity is that of what costs memory by design: worth a warning only where
// memory runs short.
func (f *facts) severity() report.Severity {
	if f.scarce {
		return report.Warning
	}
	return report.Info
}

// share is a part of a whole in percent.
func share(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(100 * float64(part) / float64(whole))
}

// topSite is the line of code that holds most of a category at the peak, nil
// when no stack shows any.
func topSite(sites []report.Site, category classify.Category) *report.Site {
	for i := range sites {
		if s := &sites[i]; *s.Category == category.String() && s.Known && s.Function != "" {
			return s
		}
	}
	return nil
}

// siteLine is a call site with what it holds, for a line of evidence.
func siteLine(s *report.Site) string {
	return units.Bytes(s.Bytes) + " in " + units.Plural(s.Blocks, "block") + " from " + s.Short() + calledFrom(s.CalledFrom)
}

// calledFrom goes on after a line of code with the one that called it, if any.
func calledFrom(p *report.Place) string {
	if p == nil {
		return ""
	}
	return ", called from " + placeText(p)
}

func placeText(p *report.Place) string {
	return (&report.Site{Function: p.Function, File: p.File, Line: p.Line}).Short()
}

func intOf(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// lineText names a line of code in a sentence.
func lineText(l frames.Line) string {
	s := report.Site{Function: l.Function, File: l.File, Line: lineOf(l.Line)}
	return s.Short()
}

// byStack sums up allocations by their stack.
func (e *examination) byStack(ids []timeline.AllocationID) map[snapshot.StackID]int64 {
	sums := map[snapshot.StackID]int64{}
	for _, id := range ids {
		sums[e.t.Stack(id)] += e.t.Allocated[id]
	}
	return sums
}

// coveringLine is the innermost of the user's lines, forward methods of modules
// aside, that nearly all of some memory was asked for under: the call that a
// change has to go around. It is empty when no stack shows the user's code.
func (e *examination) coveringLine(bytes map[snapshot.StackID]int64) frames.Line {
	return e.coveringLineBut(bytes, nil)
}

// coveringLineBut is the same, of lines that aren't among some.
func (e *examination) coveringLineBut(bytes map[snapshot.StackID]int64, not map[frames.Line]bool) frames.Line {
	type cover struct {
		bytes int64
		depth int // most lines that it was called through
	}
	covers := map[frames.Line]cover{}
	var all int64
	for id, n := range bytes {
		all += n
		seen := map[frames.Line]bool{}
		lines := e.view.User(id)
		for i, line := range lines {
			depth := len(lines) - i
			if seen[line] || line.Function == "forward" || not[line] {
				continue
			}
			seen[line] = true
			c := covers[line]
			c.depth = max(c.depth, depth)
			c.bytes += n
			covers[line] = c
		}
	}
	var best frames.Line
	found := cover{}
	for line, c := range covers {
		enough, was := share(c.bytes, all) >= 98, share(found.bytes, all) >= 98
		better := enough && !was || enough == was && cmp.Or(deeper(enough, c.depth, found.depth),
			cmp.Compare(c.bytes, found.bytes), compareLines(best, line)) > 0
		if found.bytes == 0 || better {
			best, found = line, c
		}
	}
	if share(found.bytes, all) < 50 {
		return frames.Line{}
	}
	return best
}

// deeper prefers the inner one of lines that cover enough.
func deeper(enough bool, depth, other int) int {
	if !enough {
		return 0
	}
	return cmp.Compare(depth, other)
}

func compareLines(a, b frames.Line) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
}
