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

// TestPassLetGo has a program that ends in its first pass, by an error that no
// request brought about: what was there to the end may have been for a backward.
func TestPassLetGo(t *testing.T) {
	p := newProgram(t, true)
	batch := p.alloc(Inputs, mib, "train.py:10 main")
	saved := p.forward("train.py:12 main", 8)
	p.free(saved...)
	p.free(batch)
	c := New(p.timeline(), Options{})
	for k, id := range saved[:2] {
		if c.Category[id] != Activations && c.Confidence[id] > 75 {
			t.Errorf("what layer %d keeps is %v, %d %% sure", k, c.Category[id], c.Confidence[id])
		}
	}
}
