package phases_test

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
)

// TestSampler tells a sampler between two updates from an evaluation: what a pass ends with takes the place of what it began with.
func TestSampler(t *testing.T) {
	work := func(p *tape) { p.free(p.forward(8)...) }
	for name, c := range map[string]struct {
		untrained func(p *tape)
		generates bool
	}{
		"a sampler": {func(p *tape) {
			x := p.alloc(2*mib, other)
			for range 5 {
				work(p)
				next := p.alloc(2*mib, other)
				p.free(x)
				x = next
			}
			p.free(x)
		}, true},
		"too few passes": {func(p *tape) {
			x := p.alloc(2*mib, other)
			for range 2 {
				work(p)
				next := p.alloc(2*mib, other)
				p.free(x)
				x = next
			}
			p.free(x)
		}, false},
		"results of an evaluation": {func(p *tape) {
			x := -1
			for range 5 {
				work(p)
				next := p.alloc(2*mib, other)
				if x >= 0 {
					p.free(x)
				}
				x = next
			}
			p.free(x)
		}, false},
		"batches of an evaluation": {func(p *tape) {
			x := -1
			for range 5 {
				next := p.alloc(2*mib, other)
				if x >= 0 {
					p.free(x)
				}
				x = next
				work(p)
			}
			p.free(x)
		}, false},
	} {
		p := newTape(t, false)
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(2)
		c.untrained(p)
		p.loop(1)
		a, generates := p.follow(), false
		for _, r := range a.Runs {
			generates = generates || r.Phase == meaning.Generate
		}
		if generates != c.generates {
			t.Errorf("%s: %s", name, told(a))
		}
	}
}
