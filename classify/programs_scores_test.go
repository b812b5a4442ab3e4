package classify

import (
	"fmt"
	"testing"
)

const (
	oneEach  = 16 << 10 // bytes of a number for each of 4,096 tokens
	wide     = 128 * mib
	forward  = "net.py:20 forward"
	lossLine = "train.py:13 logps"

	engineFrame = "libtorch.so:1 torch::autograd::Engine::evaluate_function" // in recordings with C++ frames
)

// scored are the scores of a model, in half precision, their copy and its
// log-softmax, of which each token's own is read.
func (p *program) scored() (made []int, own int) {
	half := p.alloc(Logits, wide/2, linearFrame, callFrame, forward, callFrame, "train.py:12 logps")
	full := p.alloc(Logits, wide, lossLine)
	soft := p.alloc(Logits, wide, lossLine)
	p.free(full)
	own = p.alloc(Activations, oneEach, lossLine)
	return []int{half, soft}, own
}

// unscored is the beginning of the backward pass of what gather picked.
func (p *program) unscored(soft int) {
	for range 30 { // of what follows for each token
		p.free(p.alloc(Temporary, oneEach))
	}
	last := p.alloc(Temporary, oneEach)
	picked := p.alloc(Logits, wide)
	p.free(last)
	full := p.alloc(Logits, wide)
	p.free(picked, soft)
	half := p.alloc(Logits, wide/2)
	p.free(full)
	p.alloc(Gradients, p.weight(2))
	p.grads = append(p.grads, len(p.allocs)-1)
	p.free(half)
}

// rest is the rest of the backward pass, and the step. What lines says is around the
// former.
func (p *program) rest(k int, saved []int, lines ...string) {
	for i := len(saved) - 1; i >= 0; i-- {
		p.free(p.alloc(Temporary, 5*mib, lines...))
		p.free(saved[i])
	}
	for i := 1; i >= 0; i-- {
		p.grads = append(p.grads, p.alloc(Gradients, p.weight(i), lines...))
	}
	p.update(k)
	p.clear()
}

// TestScoresOfTwoModels compares the scores of each token's own word with those that
// another model gives it, whose pass comes in between.
func TestScoresOfTwoModels(t *testing.T) {
	for _, stacks := range []bool{true, false} {
		p := newProgram(t, stacks)
		p.train(4, func(k int) {
			saved := p.forward("train.py:12 logps", 20)
			made, own := p.scored()
			p.free(made[0])
			for range 20 { // nothing is saved
				p.free(p.alloc(Temporary, 5*mib, linearFrame, callFrame, "train.py:12 logps"))
			}
			other, theirs := p.scored()
			p.free(other...)
			for range 14 {
				next := p.alloc(Temporary, oneEach, "train.py:14 main")
				p.free(own)
				own = next
			}
			root := p.alloc(Temporary, 4)
			p.free(own, theirs)
			p.unscored(made[1])
			p.rest(k, saved)
			p.free(root)
		})
		p.allScores(stacks)
	}
}

// allScores wants what is told as scores, and nothing else of some size.
func (p *program) allScores(stacks bool) {
	c := New(p.timeline(), Options{})
	for id, a := range p.allocs {
		if a.bytes >= mib && (a.category == Logits) != (c.Category[id] == Logits) {
			p.t.Errorf("stacks %v: %d MiB of %v in step %d: said %v, %d %% sure", stacks, a.bytes>>20, a.category, a.step, c.Category[id], c.Confidence[id])
		}
	}
}

// TestPartsOfTokens scores each sequence by itself: the gradient of all scores comes
// after many small ones.
func TestPartsOfTokens(t *testing.T) {
	const soft = "libtorch.so:1 at::_ops::_log_softmax::call"
	p := newProgram(t, true)
	p.train(4, func(k int) {
		saved := p.forward("train.py:12 main", 20)
		all := p.alloc(Logits, 400*mib, "libtorch.so:1 at::_ops::mm::call", forward, callFrame, "train.py:12 main")
		part := p.alloc(Logits, 40*mib, soft, "train.py:13 main")
		p.free(all)
		root := p.alloc(Temporary, 4, engineFrame)
		for range 40 {
			p.free(p.alloc(Temporary, 640, engineFrame))
		}
		first := p.alloc(Logits, 40*mib, engineFrame)
		p.free(part)
		whole := p.alloc(Logits, 400*mib, engineFrame)
		p.free(first, whole)
		p.rest(k, saved, engineFrame)
		p.free(root)
	})
	p.allScores(true)
}

// TestWideWithoutScores ends its passes in what is far larger than all else, and
// neither a softmax nor a cross-entropy: distances of all triples, or hidden features
// with a penalty on them.
func TestWideWithoutScores(t *testing.T) {
	for _, inModule := range []bool{true, false} {
		for _, kind := range []string{"native", "python"} {
			t.Run(fmt.Sprintf("in a module %v, %s", inModule, kind), func(t *testing.T) {
				p := newProgram(t, true)
				at := func(operator string, lines ...string) []string {
					if kind == "native" {
						return append([]string{"libtorch.so:1 at::_ops::" + operator + "::call"}, lines...)
					}
					return lines
				}
				var pass []string
				if kind == "native" {
					pass = []string{engineFrame}
				}
				p.train(4, func(k int) {
					saved := p.forward("train.py:12 main", 8)
					wideLines := []string{"train.py:13 main"}
					if inModule {
						wideLines = []string{forward, callFrame, "train.py:12 main"}
					}
					product := p.alloc(Temporary, wide, at("mm", wideLines...)...)
					kept := p.alloc(Activations, wide, at("relu", wideLines...)...)
					p.free(product)
					if inModule {
						saved = append(saved, p.alloc(Activations, wide/16, at("mm", wideLines...)...))
					}
					penalty := p.alloc(Temporary, wide, at("abs", "train.py:14 main")...)
					sum := p.alloc(Activations, 4, at("sum", "train.py:14 main")...)
					p.free(penalty)
					root := p.alloc(Temporary, 4, pass...)
					p.free(sum)
					first := p.alloc(Temporary, wide, pass...)
					second := p.alloc(Temporary, wide, pass...)
					p.free(first, kept)
					p.grads = append(p.grads, p.alloc(Gradients, p.weight(2), pass...))
					p.free(second)
					p.rest(k, saved, pass...)
					p.free(root)
				})
				c := New(p.timeline(), Options{})
				for id, a := range p.allocs {
					if c.Category[id] == Logits {
						t.Fatalf("%d MiB in step %d are scores, %d %% sure", a.bytes>>20, a.step, c.Confidence[id])
					}
				}
			})
		}
	}
}

// TestOwnCrossEntropy works out the loss by hand, of a part of the scores: the
// exponential is of that.
func TestOwnCrossEntropy(t *testing.T) {
	at := func(operator string, lines ...string) []string {
		return append([]string{"libtorch.so:1 at::_ops::" + operator + "::call"}, lines...)
	}
	p := newProgram(t, true)
	p.train(4, func(k int) {
		saved := p.forward("train.py:12 main", 8)
		all := p.alloc(Logits, wide, at("mm", forward, callFrame, "train.py:12 main")...)
		part := p.alloc(Activations, wide/256, at("exp", "train.py:13 main")...)
		sum := p.alloc(Activations, 4, at("sum", "train.py:13 main")...)
		root := p.alloc(Temporary, 4, engineFrame)
		p.free(sum, part)
		first := p.alloc(Logits, wide, engineFrame)
		second := p.alloc(Logits, wide, engineFrame)
		p.free(first)
		p.grads = append(p.grads, p.alloc(Gradients, p.weight(2), engineFrame))
		p.free(second, all)
		p.rest(k, saved, engineFrame)
		p.free(root)
	})
	p.allScores(true)
}
