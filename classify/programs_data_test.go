package classify

import "testing"

// TestReplayBuffers has two equal tables that the program makes itself, beside
// weights that an optimizer trains: they are data, though they stay like weights.
func TestReplayBuffers(t *testing.T) {
	p := newProgram(t, true)
	tables := []int{p.alloc(Inputs, 512*mib, "train.py:7 main"), p.alloc(Inputs, 512*mib, "train.py:8 main")}
	p.train(4, func(k int) {
		p.backward(p.forward("train.py:12 main", 8))
		p.within("Optimizer.step#AdamW.step", func() { p.update(k) })
		p.clear()
	})
	c := New(p.timeline(), Options{})
	for _, id := range tables {
		if c.Category[id] != Inputs {
			t.Errorf("a table is %v, %d %% sure", c.Category[id], c.Confidence[id])
		}
	}
	for _, id := range p.weights {
		if c.Category[id] != Weights {
			t.Errorf("a weight of %d MiB is %v, %d %% sure", p.allocs[id].bytes>>20, c.Category[id], c.Confidence[id])
		}
	}
}
