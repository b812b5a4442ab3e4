package classify

import "testing"

// TestLayersAreNoSteps has a program that fails in its first pass, with stacks:
// its layers recur as iterations do. Iterations around a model of the same kind do,
// too.
func TestLayersAreNoSteps(t *testing.T) {
	const sequential = "site-packages/torch/nn/modules/container.py:250 forward"
	layer := func(outer ...string) [2][]string {
		return [2][]string{append([]string{"net.py:5 forward", callFrame}, outer...), append([]string{"net.py:6 forward", callFrame}, outer...)}
	}
	method := []string{"net.py:12 body", "net.py:16 forward", callFrame, "train.py:12 main"}
	container := []string{sequential, callFrame, "train.py:12 main"}
	for _, x := range []struct {
		name   string
		layer  [2][]string
		before []string // another line, of the first pass
		again  bool     // of every pass
		steps  int
	}{
		{"a method calls the layers", layer(method...), append([]string{linearFrame, callFrame, "net.py:11 body"}, method[1:]...), false, 1},
		{"Sequential calls them", layer(container...), nil, false, 1},
		{"Sequential calls others, too", layer(container...), append([]string{linearFrame, callFrame}, container...), false, 1},
		{"a loop calls Sequential", layer(container...), append([]string{linearFrame, callFrame}, container...), true, 8},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newProgram(t, true)
			batch := p.alloc(Inputs, mib, "train.py:10 main")
			for k := range 8 {
				if x.before != nil && (k == 0 || x.again) {
					p.alloc(Activations, 5*mib, x.before...)
				}
				p.alloc(Activations, 5*mib, x.layer[0]...)
				for i := range int64(3) {
					p.alloc(Activations, 5*mib+i*mib, append([]string{linearFrame, callFrame}, x.layer[0]...)...)
					p.free(p.alloc(Temporary, 3*mib, append([]string{linearFrame, callFrame}, x.layer[1]...)...))
				}
				p.alloc(Activations, 5*mib, x.layer[1]...)
			}
			if !x.again {
				p.fail(5 * mib)
				p.events[len(p.events)-1].Stack = p.stack(x.layer[0])
			}
			p.free(batch)
			if c := New(p.timeline(), Options{}); len(c.Steps) != x.steps {
				t.Errorf("%d steps, want %d", len(c.Steps), x.steps)
			}
		})
	}
}

// TestLayersUnderCheckpointing has a program that fails in its first pass, without
// stacks: each layer keeps what the next begins with, and nothing else.
func TestLayersUnderCheckpointing(t *testing.T) {
	s := newStory(t, false)
	const layers = 8
	for range layers {
		for _, n := range []int64{9, 3, 12, 12, 1, 2} {
			s.alloc(Weights, n*mib)
		}
	}
	s.alloc(Weights, 64*mib)
	batch := s.alloc(Inputs, 4*mib+512)
	kept := []int{s.alloc(Activations, 24*mib)}
	for k := range layers {
		normed := s.alloc(Temporary, 24*mib)
		qkv := s.alloc(Temporary, 72*mib)
		s.free(normed)
		attended := s.alloc(Temporary, 25*mib)
		s.free(qkv)
		sum := s.alloc(Temporary, 24*mib)
		s.free(attended)
		wide := s.alloc(Temporary, 96*mib)
		gate := s.alloc(Temporary, 97*mib)
		if k == layers-1 {
			s.fail(97 * mib)
			s.free(gate, wide, sum)
			break
		}
		s.free(wide)
		kept = append(kept, s.alloc(Activations, 24*mib))
		s.free(gate, sum)
	}
	s.free(kept...)
	s.free(batch)
	c := New(s.timeline(), Options{})
	if len(c.Steps) != 1 {
		t.Errorf("%d steps, want 1", len(c.Steps))
	}
	for k, id := range kept[1:] {
		if c.Category[id] != Activations {
			t.Errorf("what layer %d keeps is %v, %d %% sure", k, c.Category[id], c.Confidence[id])
		}
	}
}
