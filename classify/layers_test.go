package classify

import "testing"

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
