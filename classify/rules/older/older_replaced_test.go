package older

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/internal/testing/phased"
)

// TestReplacedInStep: what was there before the recording and goes in a step, right after its like was made or not.
func TestReplacedInStep(t *testing.T) {
	const kib = 1 << 10
	state, gradient := rules.As(meaning.OptimizerState, rules.Likely), rules.As(meaning.Gradients, rules.Plausible)
	for _, c := range []struct {
		name  string
		phase meaning.Phase
		size  int64 // of what is made
		stays bool
		work  int // pieces of work in between
		want  rules.Claim
	}{
		{"its like stays", meaning.Optimizer, 600 * kib, true, 3, state},
		{"its like goes", meaning.Optimizer, 600 * kib, false, 3, gradient},
		{"another is made", meaning.Optimizer, 800 * kib, true, 3, gradient},
		{"long after it was made", meaning.Optimizer, 600 * kib, true, 30, gradient},
		{"in a zero_grad", meaning.ZeroGrad, 600 * kib, true, 3, gradient},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.In(meaning.Backward)
			p.Work(10 * kib)
			p.In(c.phase)
			next := p.Make(c.size, 1)
			for range c.work {
				p.Work(10 * kib)
			}
			gone := p.Older(600 * kib)
			if !c.stays {
				p.Free(next...)
			}
			if got := phased.Ask(OlderFreed, p.Follow(), gone); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
