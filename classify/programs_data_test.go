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

// TestDoubtfulSetup: without stacks, what setup keeps is no sure weight where nothing
// later tells it from something else.
func TestDoubtfulSetup(t *testing.T) {
	layers := func(p *program) {
		for range 8 {
			for _, n := range []int64{9, 3, 5, 12, 7} {
				p.build(n * mib)
			}
		}
	}
	fails := func(p *program, frees bool) {
		p.loop(1, func(int) {
			p.alloc(Inputs, 2*mib)
			for k := range 30 {
				held := p.alloc(Temporary, 6*mib)
				for range 4 {
					p.alloc(Activations, int64(30+k)*mib)
				}
				if frees {
					p.free(held)
				}
			}
			p.fail(4096 * mib)
		})
	}
	for _, c := range []struct {
		name    string
		tell    func(p *program)
		weights bool // are sure
	}{
		{"nothing is freed before the failure", func(p *program) { fails(p, false) }, false},
		{"layers come before what is freed", func(p *program) { layers(p); fails(p, true) }, true},
		{"a table of data beside a frozen copy of the model", func(p *program) {
			for i := range 3 {
				p.alloc(Weights, p.weight(i))
			}
			p.alloc(Inputs, 512*mib)
			p.train(4, p.ordinary)
		}, true},
		{"more tables of data than weights", func(p *program) {
			for range 6 {
				p.alloc(Inputs, 64*mib)
			}
			p.train(4, p.ordinary)
		}, true},
		{"state that an optimizer makes when it is built", func(p *program) {
			for i := range 3 {
				p.alloc(OptimizerState, p.weight(i))
			}
			p.train(4, func(int) {
				p.backward(p.forward("", 8))
				p.update(1)
				p.clear()
			})
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, false)
			c.tell(p)
			k := New(p.timeline(), Options{})
			weights := true
			for _, id := range p.weights {
				weights = weights && k.Category[id] == Weights && k.Confidence[id] >= 70
			}
			for id, a := range p.allocs {
				if (a.step < 0 || a.category == Activations) && a.category != Weights && k.Category[id] == Weights && k.Confidence[id] >= 70 {
					t.Errorf("%d MiB of %v are weights, %d %% sure by %v", a.bytes>>20, a.category, k.Confidence[id], k.Signal[id])
				}
			}
			if weights != c.weights {
				t.Errorf("weights are sure: %v, want %v", weights, c.weights)
			}
		})
	}
}
