package facts_test

import (
	"testing"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/report"
)

// TestStepsAfter: a pass that failed and the one after it, which steps, are one step of the recording; that one went through.
func TestStepsAfter(t *testing.T) {
	step := func(n, first, optimizer int) report.Step {
		return report.Step{Step: n, FirstEvent: first, LastEvent: first + 99, Phases: []report.Phase{
			{Phase: "forward", FirstEvent: first}, {Phase: "optimizer", FirstEvent: optimizer, LastEvent: first + 99}}}
	}
	three := []report.Step{step(0, 0, 50), step(1, 100, 150), step(2, 200, 250)}
	for _, test := range []struct {
		name  string
		event int
		ooms  []report.OOM
		want  int
	}{
		{"in forward, and trained on in the same step", 120, nil, 2},
		{"in the optimizer's step", 160, nil, 1},
		{"in the last step, which then ends", 220, nil, 0},
		{"another fails later", 120, []report.OOM{{Event: 260}}, 0},
	} {
		d := &report.Device{Steps: three, OOMs: test.ooms}
		if got := facts.StepsAfter(d, test.event); got != test.want {
			t.Errorf("%s: %d steps follow, not %d", test.name, got, test.want)
		}
	}
}
