package html

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// timelineView is the peak of a memory timeline that the profiler exported.
type timelineView struct {
	Source int
	Peak   int64
	Host   bool
	Parts  []timelinePart // the largest first
}

// timelinePart is what the tensors of one of the profiler's categories held.
type timelinePart struct {
	Category     string
	AtPeak, Most int64
}

// Timelines are the memory timelines among the evidence.
func (v *page) Timelines() []timelineView {
	if v.Evidence == nil {
		return nil
	}
	var out []timelineView
	for _, t := range v.Evidence.Timelines {
		view := timelineView{Source: t.Source, Peak: t.PeakBytes, Host: t.Host}
		for c := range evidence.TimelineCategories {
			if t.PeakByCategory[c] > 0 {
				name := strings.ReplaceAll(strings.ToLower(c.String()), "_", " ")
				view.Parts = append(view.Parts, timelinePart{name, t.AtPeak[c], t.PeakByCategory[c]})
			}
		}
		slices.SortStableFunc(view.Parts, func(a, b timelinePart) int { return cmp.Compare(b.AtPeak, a.AtPeak) })
		out = append(out, view)
	}
	return out
}
