package classify

import (
	"slices"
	"testing"
)

// Stacks of torch, innermost first, with the program's own lines around.
const (
	applyFrame   = "site-packages/torch/nn/modules/module.py:900 _apply"
	callFrame    = "site-packages/torch/nn/modules/module.py:1780 _call_impl"
	linearFrame  = "site-packages/torch/nn/modules/linear.py:134 forward"
	stepFrame    = "site-packages/torch/optim/adamw.py:220 step"
	wrapperFrame = "site-packages/torch/optim/optimizer.py:480 wrapper"
	stateFrame   = "site-packages/torch/optim/adamw.py:130 _init_group"
)

// program is told as one with Python stacks only, whose backward passes have
// none. What outer says is around every line of the loop.
type program struct {
	*story
	outer          []string
	weights, grads []int
}

// newProgram has three weights of different sizes.
func newProgram(t *testing.T, stacks bool) *program {
	p := &program{story: newStory(t, stacks)}
	for i := range 3 {
		p.build(p.weight(i))
	}
	return p
}

// build makes a weight.
func (p *program) build(bytes int64) {
	p.weights = append(p.weights, p.alloc(Weights, bytes, applyFrame, "train.py:5 main"))
}

// train tells n steps, each with a batch that is there to its end.
func (p *program) train(n int, step func(k int)) {
	p.loop(n, func(k int) {
		batch := p.alloc(Inputs, mib, "train.py:10 main")
		step(k)
		p.free(batch)
	})
}

// ordinary is a step as in most programs.
func (p *program) ordinary(k int) {
	p.backward(p.forward("train.py:12 main", 8))
	p.update(k)
	p.clear()
}

func (p *program) weight(i int) int64 { return int64(12+8*i) * mib }

func (p *program) at(lines ...string) []string { return append(slices.Clone(lines), p.outer...) }

// forward makes what the layers save for backward.
func (p *program) forward(line string, n int) (saved []int) {
	for range n {
		saved = append(saved, p.alloc(Activations, 5*mib, p.at(linearFrame, callFrame, line)...))
		p.free(p.alloc(Temporary, 3*mib, p.at(linearFrame, callFrame, line)...))
	}
	return saved
}

// backward lets go of what was saved, the last first, and makes gradients.
func (p *program) backward(saved []int) {
	root := p.alloc(Temporary, 4) // the gradient of the loss
	for i := len(saved) - 1; i >= 0; i-- {
		p.free(p.alloc(Temporary, 5*mib))
		p.free(saved[i])
	}
	for i := len(p.weights) - 1; i >= 0 && len(p.grads) < len(p.weights); i-- {
		p.grads = append(p.grads, p.alloc(Gradients, p.weight(i)))
	}
	p.free(root)
}

// update is the optimizer's own work.
func (p *program) update(k int) {
	for i := range p.weights {
		if k == 0 {
			p.alloc(OptimizerState, p.weight(i), stateFrame, stepFrame, wrapperFrame, "train.py:15 main")
		}
		p.free(p.alloc(Temporary, p.weight(i), stepFrame, wrapperFrame, "train.py:15 main"))
	}
}

func (p *program) clear() {
	slices.Reverse(p.grads)
	p.free(p.grads...)
	p.grads = nil
}

// infer makes what each layer hands to the next, and returns the last of it.
func (p *program) infer() (last int) {
	for k := range 8 {
		out := p.alloc(Temporary, 5*mib, linearFrame, callFrame, "train.py:12 main")
		if k > 0 {
			p.free(last)
		}
		last = out
	}
	return last
}
