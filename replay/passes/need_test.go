package passes

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// TestStepsAfter: a pass that failed and the one after it, which steps, are one step of the recording; that one went through.
func TestStepsAfter(t *testing.T) {
	step := func(n, first, optimizer int) classify.Step {
		return classify.Step{Number: n, FirstEvent: first, LastEvent: first + 99, Phases: []classify.PhaseSpan{
			{Phase: classify.Forward, FirstEvent: first}, {Phase: classify.Optimizer, FirstEvent: optimizer, LastEvent: first + 99}}}
	}
	three := []classify.Step{step(0, 0, 50), step(1, 100, 150), step(2, 200, 250)}
	for _, test := range []struct {
		name  string
		event int
		ooms  []timeline.OOM
		want  int
	}{
		{"in forward, and trained on in the same step", 120, nil, 2},
		{"in the optimizer's step", 160, nil, 1},
		{"in the last step, which then ends", 220, nil, 0},
		{"another fails later", 120, []timeline.OOM{{Event: 260}}, 0},
	} {
		c := &classify.Classification{Result: &meaning.Result{Steps: three, Timeline: &timeline.Timeline{OOMs: test.ooms}}}
		if got := StepsAfter(c, test.event); got != test.want {
			t.Errorf("%s: %d steps follow, not %d", test.name, got, test.want)
		}
	}
}
