package passes

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/meaning"
)

// TestIn: an event is in a phase where one of its spans holds it.
func TestIn(t *testing.T) {
	span := func(p classify.Phase, first, last int) classify.PhaseSpan {
		return classify.PhaseSpan{Phase: p, FirstEvent: first, LastEvent: last}
	}
	c := &classify.Classification{Result: &meaning.Result{}}
	c.Before = []classify.PhaseSpan{span(classify.Setup, 0, 3), span(classify.Forward, 4, 5)}
	c.Steps = []classify.Step{
		{FirstEvent: 7, LastEvent: 12, Phases: []classify.PhaseSpan{span(classify.Forward, 7, 9), span(classify.Backward, 10, 12)}},
		{FirstEvent: 14, LastEvent: 18, Phases: []classify.PhaseSpan{span(classify.Forward, 14, 16), span(classify.Optimizer, 18, 18)}},
	}
	for event := -1; event < 21; event++ {
		for _, phase := range []classify.Phase{classify.Setup, classify.Forward, classify.Backward, classify.Optimizer} {
			want := slices.ContainsFunc(Spans(c, phase), func(p classify.PhaseSpan) bool {
				return p.FirstEvent <= event && event <= p.LastEvent
			})
			if got := In(c, phase, event); got != want {
				t.Errorf("event %d in %v: %v", event, phase, got)
			}
		}
	}
}
