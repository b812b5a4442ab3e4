package classify

import (
	"testing"
)

// TestOptimizerOfVariables binds new moments and weights in every step, and
// variables of its loop hold the old ones until the next parameter's turn: lines tell
// what takes the place of what, as far as there are any.
func TestOptimizerOfVariables(t *testing.T) {
	for _, size := range []func(i int) int64{func(int) int64 { return 12 * mib }, func(i int) int64 { return int64(12+8*(i%3)) * mib }} {
		p := &program{story: newStory(t, true)}
		line := func(n string) []string {
			return []string{"optimizer.py:" + n + " step", "site-packages/torch/optim/optimizer.py:480 wrapper", "train.py:15 main"}
		}
		var first, second, grads [8]int
		for i := range 8 {
			p.weights = append(p.weights, p.alloc(Weights, size(i), "linear.py:19 __init__", "train.py:5 main"))
		}
		for i := range 8 {
			first[i] = p.alloc(OptimizerState, size(i), "optimizer.py:27 __init__", "train.py:6 main")
			second[i] = p.alloc(OptimizerState, size(i), "optimizer.py:28 __init__", "train.py:6 main")
		}
		p.train(4, func(int) {
			saved := p.forward("train.py:12 main", 8)
			root := p.alloc(Temporary, 4)
			for i := 7; i >= 0; i-- {
				p.free(p.alloc(Temporary, 5*mib))
				p.free(saved[i])
				grads[i] = p.alloc(Gradients, size(i))
			}
			p.free(root)
			var olds [2]int // what variables hold
			for i := range 8 {
				replace := func(at string, place *int, held *int, of Category) {
					old := *place
					*place = p.alloc(of, size(i), line(at)...)
					if i > 0 {
						p.freeAt(line(at), *held)
					}
					*held = old
				}
				replace("51", &first[i], &olds[0], OptimizerState)
				replace("56", &second[i], &olds[1], OptimizerState)
				decayed := p.alloc(Temporary, size(i), line("63")...)
				p.freeAt(line("63"), p.weights[i])
				p.weights[i] = p.alloc(Weights, size(i), line("64")...)
				p.freeAt(line("64"), decayed)
			}
			p.freeAt(line("48"), olds[:]...)
			p.free(grads[:]...)
		})
		c := New(p.timeline(), Options{})
		for id, a := range p.allocs {
			if a.category != c.Category[id] && (a.category == Weights || a.category == OptimizerState) && c.Confidence[id] > Plausible {
				t.Errorf("%v of %d MiB in step %d: said %v, %d %% sure", a.category, a.bytes/mib, a.step, c.Category[id], c.Confidence[id])
			}
		}
	}
}

// TestTurns: what comes back every few steps is no other optimizer's turn where
// each step leaves the same gradients, or is called for by the same lines; where
// two optimizers have a backward pass each, both make one step.
func TestTurns(t *testing.T) {
	for _, x := range []struct {
		name   string
		stacks bool
		every  int // steps from one evaluation to the next
		turns  bool
		want   int
	}{
		{"evaluated every second step", true, 2, false, 12}, {"evaluated every third step", true, 3, false, 12},
		{"evaluated every second step, no stacks", false, 2, false, 12},
		{"two optimizers", true, 1, true, 6},
	} {
		p := newProgram(t, x.stacks)
		first, second := p.weights[:1], p.weights[1:]
		p.train(12, func(k int) {
			if x.turns {
				p.weights = first
				if k%2 == 1 {
					p.weights = second
				}
			}
			n := 8
			if x.turns && k%2 == 1 {
				n = 5
			}
			saved := p.forward("train.py:12 main", n)
			root := p.alloc(Temporary, 4)
			for i := n - 1; i >= 0; i-- {
				p.free(p.alloc(Temporary, 5*mib))
				p.free(saved[i])
			}
			for i := len(p.weights) - 1; i >= 0; i-- {
				p.grads = append(p.grads, p.alloc(Gradients, p.allocs[p.weights[i]].bytes))
			}
			p.free(root)
			line := "train.py:15 main"
			if x.turns && k%2 == 1 {
				line = "train.py:19 main"
			}
			p.within("Optimizer.step#AdamW.step", func() {
				for _, w := range p.weights {
					if k < 1 || x.turns && k < 2 {
						p.alloc(OptimizerState, p.allocs[w].bytes, stateFrame, stepFrame, wrapperFrame, line)
					}
					p.free(p.alloc(Temporary, p.allocs[w].bytes, stepFrame, wrapperFrame, line))
				}
			})
			p.clear()
			if !x.turns && k%x.every == x.every-1 {
				p.free(p.infer())
			}
		})
		if c := New(p.timeline(), Options{}); len(c.Steps) < x.want || len(c.Steps) > x.want+1 { // what follows the last one may be one more
			t.Errorf("%s: %d steps, want %d", x.name, len(c.Steps), x.want)
		}
	}
}

// TestScoresOfASlice takes a loss of its own of all scores but each sequence's last:
// backward begins with the gradient of these, and puts it into that of all.
func TestScoresOfASlice(t *testing.T) {
	p := newProgram(t, true)
	p.train(4, func(k int) {
		saved := p.forward("train.py:12 main", 24)
		scores := p.alloc(Logits, 80*mib, linearFrame, callFrame, "train.py:12 main")
		logs := p.alloc(Logits, 80*mib, "train.py:13 main")
		p.free(p.alloc(Temporary, 4, "train.py:13 main"))
		root := p.alloc(Temporary, 4)
		part := p.alloc(Logits, 78*mib)
		all := p.alloc(Logits, 80*mib)
		p.free(part)
		of := p.alloc(Logits, 80*mib)
		p.free(all, logs)
		p.free(p.alloc(Temporary, 5*mib), of, root)
		p.backward(saved)
		p.within("Optimizer.step#AdamW.step", func() { p.update(k) })
		p.clear()
		p.free(scores)
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.bytes == 80*mib && a.phase != Backward && c.Category[id] != a.category {
			t.Errorf("scores in step %d: said %v, %d %% sure", a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestScoresOfConnectionistLoss takes ctc_loss of log-softmax, whose backward makes
// small things of its own while it works: the gradients of scores go on after them.
func TestScoresOfConnectionistLoss(t *testing.T) {
	p := newProgram(t, true)
	p.train(4, func(k int) {
		saved := p.forward("train.py:12 main", 8)
		scores := p.alloc(Logits, 61*mib, linearFrame, callFrame, "train.py:12 main")
		logs := p.alloc(Logits, 61*mib, "site-packages/torch/nn/functional.py:2250 log_softmax", "train.py:13 main")
		alpha := p.alloc(Activations, mib, "site-packages/torch/nn/functional.py:3080 ctc_loss", "train.py:14 main")
		root := p.alloc(Temporary, 4)
		beta := p.alloc(Temporary, mib)
		of := p.alloc(Logits, 61*mib)
		small := p.alloc(Temporary, mib/4)
		p.free(p.alloc(Temporary, mib/8), p.alloc(Temporary, mib/8), p.alloc(Temporary, mib/4), small, beta, alpha)
		copied := p.alloc(Logits, 61*mib)
		p.free(p.alloc(Logits, 61*mib))
		p.free(of, p.alloc(Temporary, 5*mib), copied, scores, logs)
		p.backward(saved)
		p.update(k)
		p.clear()
		p.free(root)
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.category == Logits && c.Category[id] != Logits {
			t.Errorf("%d in step %d: said %v, %d %% sure", id, a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestWorkspaceOfAboutTheScoresSize: a matrix library's workspace is as large as
// scores without the last token by chance.
func TestWorkspaceOfAboutTheScoresSize(t *testing.T) {
	const workspace = 32 * mib
	p := newProgram(t, true)
	p.train(4, func(k int) {
		saved := p.forward("train.py:12 main", 8)
		scores := p.alloc(Logits, workspace+512, linearFrame, callFrame, "train.py:12 main")
		p.free(p.alloc(Workspace, workspace, linearFrame, callFrame, "train.py:12 main"))
		logs := p.alloc(Logits, workspace+512, "site-packages/torch/nn/functional.py:2250 log_softmax", "train.py:13 main")
		root := p.alloc(Temporary, 4)
		of := p.alloc(Logits, workspace+512)
		p.free(p.alloc(Logits, workspace+512), of, p.alloc(Workspace, workspace), scores, logs)
		p.backward(saved)
		p.update(k)
		p.clear()
		p.free(root)
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if said := c.Category[id] == Logits; said != (a.category == Logits) && (a.category == Logits || a.category == Workspace) {
			t.Errorf("%v in step %d: said %v, %d %% sure", a.category, a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestScoresLookedAt looks at each sequence's own scores after a pass, without
// stacks: the many small results are not the pass's end.
func TestScoresLookedAt(t *testing.T) {
	p := newProgram(t, false)
	for i := range 21 {
		p.build(p.weight(i % 3))
	}
	p.loop(8, func(k int) {
		length := int64(16 - k)
		batch := p.alloc(Inputs, 8<<10*length)
		hidden := p.alloc(Temporary, mib*length)
		for range 8 {
			wide := p.alloc(Temporary, 3*mib*length)
			p.free(p.alloc(Temporary, 4*mib*length))
			next := p.alloc(Temporary, mib*length)
			p.free(hidden, wide)
			hidden = next
		}
		scores := p.alloc(Logits, 48*mib*length)
		p.free(hidden)
		wide := p.alloc(Logits, 96*mib*length)
		logs := p.alloc(Logits, 96*mib*length)
		p.free(wide)
		for range 8 {
			best := p.alloc(Temporary, 160)
			own := p.alloc(Temporary, 160)
			p.free(best, own, p.alloc(Temporary, 4))
		}
		p.free(scores, logs, batch)
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.category == Logits && c.Category[id] != Logits {
			t.Errorf("%d MiB of scores in step %d: said %v, %d %% sure", a.bytes>>20, a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestPairsThatGoBitByBit keeps pairs of one size beyond a backward pass, and the
// next one frees them while it works: a graph's, no keys and values.
func TestPairsThatGoBitByBit(t *testing.T) {
	p := newProgram(t, false)
	var kept []int
	p.train(6, func(k int) {
		saved := p.forward("", 4)
		earlier := kept
		kept = nil
		for range 8 {
			kept = append(kept, p.alloc(Activations, 16*mib), p.alloc(Activations, 16*mib))
			saved = append(saved, p.forward("", 6)...)
		}
		for i := len(earlier) - 1; i >= 0; i-- {
			p.free(p.alloc(Temporary, 16*mib), earlier[i])
		}
		p.backward(saved)
		p.within("Optimizer.step#AdamW.step", func() { p.update(k) })
		p.clear()
	})
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if c.Category[id] == KVCache && a.step < 5 { // of the last step nothing is known
			t.Fatalf("%d MiB of step %d are keys and values, %d %% sure", a.bytes>>20, a.step, c.Confidence[id])
		}
	}
}

// TestFlatBuffers makes Megatron's buffers: those of the weights first.
func TestFlatBuffers(t *testing.T) {
	const file = "megatron/core/distributed/param_and_grad_buffer.py"
	p := newStory(t, true)
	for range 3 {
		p.alloc(Weights, 40*mib, file+":586 __init__", "train.py:5 main")
		p.alloc(Gradients, 80*mib, file+":592 __init__", "train.py:5 main")
	}
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if c.Category[id] != a.category {
			t.Errorf("%d MiB: said %v, %d %% sure", a.bytes/mib, c.Category[id], c.Confidence[id])
		}
	}
}

// TestCopiesOfTheModel keeps the model's state in every step, beside one that was kept
// before the first: copies are weights, sums of something for each weight aren't.
func TestCopiesOfTheModel(t *testing.T) {
	for _, c := range []struct {
		name   string
		stacks bool
		op     string
		want   Category
		most   uint8 // sureness
	}{
		{"copies", true, "Ops.cpp:1 at::_ops::clone::call", Weights, 90},
		{"sums that begin as zeros", true, "Ops.cpp:1 at::_ops::zeros_like::call", Temporary, 89},
		{"no stacks", false, "", Weights, 69},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, c.stacks)
			for i := range 7 {
				p.build(int64(9+i) * mib)
			}
			for _, w := range p.weights {
				p.alloc(Weights, p.allocs[w].bytes, applyFrame, "train.py:6 main")
			}
			var made []int
			p.train(6, func(k int) {
				saved := p.forward("train.py:12 main", 8)
				p.within("Optimizer.zero_grad#AdamW.zero_grad", p.clear)
				root := p.alloc(Temporary, 4)
				for i := len(saved) - 1; i >= 0; i-- {
					p.free(p.alloc(Temporary, 5*mib), saved[i])
				}
				for i := len(p.weights) - 1; i >= 0; i-- {
					p.grads = append(p.grads, p.alloc(Gradients, p.allocs[p.weights[i]].bytes))
				}
				p.free(root)
				p.within("Optimizer.step#AdamW.step", func() {
					for _, w := range p.weights {
						if k == 0 {
							p.alloc(OptimizerState, p.allocs[w].bytes, stateFrame, stepFrame, wrapperFrame, "train.py:15 main")
						}
						p.free(p.alloc(Temporary, p.allocs[w].bytes, stepFrame, wrapperFrame, "train.py:15 main"))
					}
				})
				for _, w := range p.weights {
					made = append(made, p.alloc(c.want, p.allocs[w].bytes, c.op, "keep.py:7 keep", "train.py:16 main"))
				}
			})
			k := New(p.timeline(), Options{})
			for _, id := range made[:5*len(p.weights)] { // of the last ones nothing is known without stacks
				if k.Category[id] != c.want || k.Confidence[id] > c.most || c.most > 70 && k.Confidence[id] < 80 {
					t.Fatalf("%d MiB of step %d: said %v, %d %% sure by %v in %v", p.allocs[id].bytes>>20, p.allocs[id].step, k.Category[id], k.Confidence[id], k.Signal[id], k.Phase[id])
				}
			}
		})
	}
}
