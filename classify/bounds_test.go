package classify

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

const module = "lib/python3.11/site-packages/torch/nn/modules/module.py:1798 _call_impl"

// TestSite: what the line of four weights makes once more is a weight, too, where nothing trains; what a function makes that says
// so is a cache.
func TestSite(t *testing.T) {
	const line = "serve.py:3 make"
	for _, c := range []struct {
		name, inner string
		weights     int
		want        Category
	}{
		{"the line of weights", line, 4, meaning.Weights},
		{"the line of three weights", line, 3, meaning.Inputs},
		{"a line of its own", "serve.py:9 table", 4, meaning.Inputs},
		{"a function that names a cache", "serve.py:9 alloc_kv", 4, meaning.KVCache},
		{"a function that caches", "serve.py:9 cached_table", 4, meaning.Inputs},
	} {
		s := newStory(t, true)
		s.in(meaning.Setup)
		for k := range c.weights {
			s.alloc(meaning.Weights, 3*mib, line, "serve.py:"+string(rune('4'+k%2))+" load", "serve.py:40 main")
		}
		asked := s.alloc(c.want, 5*mib, c.inner, "serve.py:20 setup", "serve.py:40 main")
		s.alloc(meaning.Weights, 7*mib, "lib/python3.11/site-packages/torch/nn/modules/module.py:900 _apply", "serve.py:40 main")
		s.loop(4, func(int) {
			s.in(meaning.Forward)
			for range 6 {
				s.freeAt([]string{"serve.py:41 main"}, s.alloc(meaning.Temporary, mib, "serve.py:30 forward", module, "serve.py:41 main"))
			}
		})
		if got := New(s.timeline(), Options{}).Category[timeline.AllocationID(asked)]; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStateOfShortRun: state goes with its optimizer, whose second step makes nothing.
func TestStateOfShortRun(t *testing.T) {
	s := newStory(t, true)
	s.in(meaning.Setup)
	for k := range 4 {
		s.alloc(meaning.Weights, int64(k+3)*mib, "lib/python3.11/site-packages/torch/nn/modules/module.py:900 _apply", "train.py:4 main")
	}
	var state []int
	s.loop(4, func(k int) {
		s.in(meaning.Forward)
		saved := []int{}
		for range 8 {
			saved = append(saved, s.alloc(meaning.Activations, mib, "train.py:8 forward", module, "train.py:9 main"))
		}
		s.in(meaning.Backward)
		var gradients []int
		for i := range 4 {
			gradients = append(gradients, s.alloc(meaning.Gradients, int64(i+3)*mib))
			s.freeAt(nil, saved[2*i], saved[2*i+1])
		}
		s.in(meaning.Optimizer)
		for i := 0; i < 4 && k%2 == 0; i++ {
			state = append(state, s.alloc(meaning.OptimizerState, int64(i+3)*mib, "lib/python3.11/site-packages/torch/optim/sgd.py:9 step",
				"train.py:14 main"))
		}
		s.freeAt([]string{"train.py:15 main"}, gradients...)
		if k%2 == 1 {
			s.freeAt([]string{"train.py:16 main"}, state[len(state)-4:]...)
		}
	})
	c := New(s.timeline(), Options{})
	for _, id := range state {
		if got := c.Category[id]; got != meaning.OptimizerState {
			t.Errorf("%d: %v by %s", id, got, RuleID(c.Rule[id]))
		}
	}
}

// TestOfNoWeight: what a hook keeps of activations' gradients has no weight's size, and more gradients have one; where none does,
// the weights aren't known.
func TestOfNoWeight(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := newStory(t, true)
		s.in(meaning.Setup)
		for k := range 8 {
			s.alloc(meaning.Weights, int64(3+phases.AsInt(!known)*(9+k))*mib, "lib/python3.11/site-packages/torch/nn/modules/module.py:900 _apply", "train.py:4 main")
		}
		var kept []int
		s.loop(5, func(int) {
			s.in(meaning.Forward)
			batch := s.alloc(meaning.Inputs, 2*mib, "train.py:7 main")
			var saved, gradients []int
			for range 24 {
				saved = append(saved, s.alloc(meaning.Activations, mib, "train.py:8 forward", module, "train.py:9 main"))
			}
			s.in(meaning.Backward)
			root := s.alloc(meaning.Temporary, 4)
			for k := range 8 {
				gradients = append(gradients, s.alloc(meaning.Gradients, 3*mib))
				s.freeAt(nil, saved[23-3*k], saved[22-3*k], saved[21-3*k])
			}
			kept = append(kept, s.alloc(meaning.Temporary, 7*mib))
			s.free(root)
			s.in(meaning.OtherPhase)
			s.freeAt([]string{"train.py:12 main"}, append(gradients, batch)...)
		})
		c := New(s.timeline(), Options{})
		if got := c.Category[kept[1]]; (got == Gradients) == known {
			t.Errorf("weights known %v: %v by %q in %v", known, got, RuleID(c.Rule[kept[1]]), c.Phase[kept[1]])
		}
	}
}

// TestMoreThanTrained: whole sets beside the weights that passes leave gradients of are an optimizer's.
func TestMoreThanTrained(t *testing.T) {
	const kib = 1 << 10
	sizes := []int64{600 * kib, 800 * kib, 900 * kib}
	for _, c := range []struct {
		name  string
		marks frames.Marks // of what is beside the weights
		sets  []int64      // so many times as large as those
		lacks bool         // one block of the last set
		want  []meaning.Detail
	}{
		{"two sets", frames.UserInner, []int64{1, 1}, false, []meaning.Detail{meaning.Moment1, meaning.Moment2}},
		{"one set, which may be a copy", frames.UserInner, []int64{1}, false, nil},
		{"one set of zeros", frames.Filled, []int64{1}, false, []meaning.Detail{meaning.Moment1}},
		{"a part of a set of zeros", frames.Filled, []int64{1}, true, nil},
		{"twice the bytes", frames.UserInner, []int64{2}, false, []meaning.Detail{meaning.MasterWeights}},
		{"twice the bytes, and moments", frames.UserInner, []int64{2, 2, 2}, false,
			[]meaning.Detail{meaning.MasterWeights, meaning.Moment1, meaning.Moment2}},
		{"a part of twice the bytes", frames.UserInner, []int64{2}, true, nil},
		{"three times the bytes", frames.UserInner, []int64{3}, false, nil},
	} {
		p := &phased.Program{}
		p.By(frames.Weight)
		p.In(meaning.Setup)
		for _, n := range sizes {
			p.Make(n, 1)
		}
		p.By(c.marks)
		var made []int
		for _, times := range c.sets {
			for _, n := range sizes {
				made = append(made, p.Make(n*times, 1)...)
			}
		}
		p.By(0)
		for range 2 {
			p.In(meaning.Forward)
			saved := p.Make(50*kib, 4)
			p.In(meaning.Backward)
			p.Free(saved...)
			var gradients []int
			for _, n := range sizes {
				gradients = append(gradients, p.Make(n, 1)...)
			}
			p.In(meaning.ZeroGrad)
			p.Free(gradients...)
		}
		a := rules.New(p.Follow())
		a.Signal = make([]meaning.Signal, len(a.Category))
		for _, b := range made {
			id := a.Timeline.Of[b]
			a.Category[id], a.Signal[id] = meaning.Weights, meaning.ByLife
		}
		if c.lacks {
			a.Phase[a.Timeline.Of[made[len(made)-1]]] = meaning.Forward
		}
		got := moreThanTrained(a)
		if len(got) != len(c.want)*len(sizes) {
			t.Errorf("%s: %d are state, want %d sets", c.name, len(got), len(c.want))
		}
		for k, want := range c.want {
			if d := got[a.Timeline.Of[made[k*len(sizes)]]]; d != want {
				t.Errorf("%s: set %d: %v, want %v", c.name, k, d, want)
			}
		}
	}
}
