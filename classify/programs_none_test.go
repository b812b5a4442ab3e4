package classify

import (
	"slices"
	"testing"
)

// TestScoresOfTokens computes with the score of each token's own class, as
// policy gradients do: many small results lie between the scores and the
// backward pass, which then shows no loss over classes.
func TestScoresOfTokens(t *testing.T) {
	p := newProgram(t, false)
	p.train(4, func(k int) {
		saved := p.forward("", 40)
		p.free(p.alloc(Logits, 96*mib))
		saved = append(saved, p.alloc(Logits, 96*mib))
		for range 14 {
			saved = append(saved, p.alloc(Activations, 1200))
		}
		p.backward(append(saved, p.alloc(Activations, 4)))
		p.within("Optimizer.step#AdamW.step", func() { p.update(k) })
		p.clear()
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.bytes < mib || c.Category[id] == a.category {
			continue
		}
		if a.category != Logits {
			t.Errorf("%d MiB of %v in step %d: said %v", a.bytes>>20, a.category, a.step, c.Category[id])
		} else if c.Confidence[id] > 80 {
			t.Errorf("scores in step %d: said %v, %d %% sure", a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestKeptAfterTraining keeps what a last pass made, more than 3 GB of it: its
// size isn't that of the gradients, which DDP's buckets have.
func TestKeptAfterTraining(t *testing.T) {
	p := newProgram(t, false)
	p.train(4, p.ordinary)
	p.alloc(Inputs, mib)
	kept := []int{p.alloc(Activations, 3<<30), p.alloc(Activations, 2<<30)}
	p.free(p.alloc(Temporary, 8*mib))
	c := New(p.timeline(), Options{})
	for _, id := range kept {
		if c.Category[id] == Communication {
			t.Errorf("%d MiB are communication, %d %% sure", p.allocs[id].bytes>>20, c.Confidence[id])
		}
	}
}

// TestBuckets finds DDP's buckets after the first step: what forward keeps, copies of
// the weights and what later steps make again may have the sum of the gradients, too.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		name    string
		made    []int64 // MiB
		between bool    // something else is made in between
		again   bool    // in the third step, too
		want    bool
	}{
		{"in one go", []int64{2, 40, 18}, false, false, true},
		{"layer by layer", []int64{2, 40, 18}, true, false, false},
		{"copies of the weights", []int64{12, 20, 28}, false, false, false},
		{"in two steps", []int64{2, 40, 18}, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, false)
			var made []int
			p.train(6, func(k int) {
				saved := p.forward("", 4)
				if k == 1 || k == 2 && c.again {
					for _, n := range c.made {
						made = append(made, p.alloc(Communication, n*mib))
						if c.between {
							p.free(p.alloc(Temporary, 3*mib))
						}
					}
				}
				p.backward(append(saved, p.forward("", 4)...))
				p.update(k)
				p.clear()
			})
			k := New(p.timeline(), Options{})
			for _, id := range made {
				if (k.Category[id] == Communication) != c.want {
					t.Errorf("%d MiB: said %v, %d %% sure", p.allocs[id].bytes>>20, k.Category[id], k.Confidence[id])
				}
			}
		})
	}
}

// TestTeacherBeforeStudent runs a deep teacher, of which nothing is saved, before each
// pass of a student with layers of the same sizes: what backward makes of these sizes is
// nothing that checkpointing computes again, for the student has saved all of its own.
func TestTeacherBeforeStudent(t *testing.T) {
	for _, checkpoints := range []bool{false, true} {
		p := newProgram(t, false)
		layer := []int64{5 * mib, 3 * mib, 4 * mib, 6 * mib, 2 * mib, 7 * mib}
		var again []int
		run := func() (made []int) {
			for _, n := range layer {
				made = append(made, p.alloc(Activations, n))
			}
			return made
		}
		p.train(6, func(k int) {
			for range 40 {
				p.free(run()...)
			}
			var saved [][]int
			for range 8 {
				if made := run(); checkpoints {
					p.free(made[1:]...)
					saved = append(saved, made[:1])
				} else {
					saved = append(saved, made)
				}
			}
			root := p.alloc(Temporary, 4)
			for i := len(saved) - 1; i >= 0; i-- {
				made := run()
				p.free(p.alloc(Temporary, 9*mib))
				p.free(made...)
				slices.Reverse(saved[i])
				p.free(saved[i]...)
				again = append(again, made...)
			}
			for i := range p.weights {
				p.grads = append(p.grads, p.alloc(Gradients, p.weight(i)))
			}
			p.free(root)
			p.update(k)
			p.clear()
		})
		c := New(p.timeline(), Options{})
		for _, id := range again {
			if (c.Detail[id] == Recomputed) != checkpoints {
				t.Fatalf("checkpointing %v: in step %d %d MiB are %v %v, %d %% sure", checkpoints, p.allocs[id].step, p.allocs[id].bytes>>20, c.Category[id], c.Detail[id], c.Confidence[id])
			}
		}
	}
}

// TestNoGradientsSize keeps what is no weight's size beyond the backward pass in which
// it is made, by all that shows: no sure gradient.
func TestNoGradientsSize(t *testing.T) {
	p := newProgram(t, false)
	var odd []int
	p.train(4, func(k int) {
		saved := p.forward("", 8)
		root := p.alloc(Temporary, 4)
		kept := p.alloc(Activations, 18*mib)
		odd = append(odd, kept)
		for i := len(saved) - 1; i >= 0; i-- {
			p.free(p.alloc(Temporary, 5*mib), saved[i])
		}
		for i := range p.weights {
			p.grads = append(p.grads, p.alloc(Gradients, p.weight(i)))
		}
		p.free(root)
		p.update(k)
		p.clear()
		p.free(kept)
	})
	c := New(p.timeline(), Options{})
	for _, id := range odd {
		if c.Category[id] == Gradients && c.Confidence[id] >= 90 {
			t.Errorf("a gradient, %d %% sure", c.Confidence[id])
		}
	}
	for id, a := range p.allocs {
		if a.category == Gradients && (c.Category[id] != Gradients || c.Confidence[id] < 90) {
			t.Fatalf("a gradient of a weight: said %v, %d %% sure", c.Category[id], c.Confidence[id])
		}
	}
}

// TestEqualLayers fails in a forward pass whose layers all make the same: none of
// it are scores, though nothing else is as large.
func TestEqualLayers(t *testing.T) {
	p := newProgram(t, false)
	p.loop(1, func(int) {
		p.alloc(Inputs, 40*mib)
		for range 16 {
			p.alloc(Activations, 40*mib)
			p.free(p.alloc(Temporary, mib))
		}
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.category == Activations && c.Category[id] == Logits {
			t.Fatalf("a layer's result is scores, %d %% sure", c.Confidence[id])
		}
	}
}

// TestDecoderOutOfMemory fails in the middle of a pass whose tensors grow towards
// its end, as those of image decoders do: the last ones made are no scores.
func TestDecoderOutOfMemory(t *testing.T) {
	p := newProgram(t, false)
	pass := func(unit int64, stages int) {
		x := p.alloc(Inputs, unit)
		for k := range stages {
			for range 6 {
				y := p.alloc(Temporary, unit<<k)
				z := p.alloc(Temporary, unit<<k)
				p.free(x, y)
				x = z
			}
		}
		if stages == 6 {
			p.free(x)
		}
	}
	p.loop(3, func(k int) { pass(mib, 6) })
	p.loop(1, func(int) {
		pass(128*mib, 5)
		p.fail(4096 * mib)
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if c.Category[id] == Logits && c.Confidence[id] > 70 && a.bytes > 64*mib {
			t.Fatalf("%d MiB are scores, %d %% sure", a.bytes>>20, c.Confidence[id])
		}
	}
}

// TestResultsOfOneSize keeps four results of one size beyond each backward pass:
// no keys and values, which come two by two.
func TestResultsOfOneSize(t *testing.T) {
	p := newProgram(t, false)
	var kept []int
	p.train(4, func(k int) {
		p.free(kept...)
		saved := p.forward("", 4)
		kept = []int{p.alloc(Temporary, 16*mib), p.alloc(Temporary, 16*mib), p.alloc(Temporary, 16*mib)}
		saved = append(saved, p.forward("", 20)...)
		kept = append(kept, p.alloc(Temporary, 16*mib))
		saved = append(saved, p.forward("", 20)...)
		p.backward(saved)
		p.update(k)
		p.clear()
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if c.Category[id] == KVCache {
			t.Fatalf("%d MiB of step %d are keys and values, %d %% sure", a.bytes>>20, a.step, c.Confidence[id])
		}
	}
}

// TestFailureOverScores: the second request of a backward pass fails, in which the
// gradient of the scores comes from that of their logarithm. Before a forward pass
// is over nobody makes three numbers and then as much as they are of.
func TestFailureOverScores(t *testing.T) {
	const wide = 120 * mib
	for _, c := range []struct {
		name    string
		numbers int
		asked   int64
		want    Phase
	}{
		{"the gradient of scores", 3, wide, Backward},
		{"in 16 bits", 3, wide / 2, Backward},
		{"a copy of scores before the loss", 0, wide, Forward},
		{"something else", 3, 7 * mib, Forward},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t, false)
			for range 12 {
				s.alloc(Weights, 12*mib)
			}
			var saved []int
			for range 8 {
				saved = append(saved, s.alloc(Activations, 5*mib))
				s.free(s.alloc(Temporary, 3*mib))
			}
			saved = append(saved, s.alloc(Logits, wide))
			for range c.numbers {
				saved = append(saved, s.alloc(Temporary, 4))
			}
			first := s.alloc(Logits, wide)
			s.fail(c.asked)
			failed := len(s.events) - 1
			s.free(first)
			slices.Reverse(saved)
			s.free(saved...)
			k := New(s.timeline(), Options{})
			said := Forward
			for _, step := range k.Steps {
				for _, p := range step.Phases {
					if p.FirstEvent <= failed && failed <= p.LastEvent {
						said = p.Phase
					}
				}
			}
			if said != c.want {
				t.Errorf("the request failed in %v, want %v", said, c.want)
			}
			if c.want == Backward && (k.Category[first] != Logits || k.Detail[first] != LogitsGradient) {
				t.Errorf("what was there of it is %v, %v", k.Category[first], k.Detail[first])
			}
		})
	}
}
