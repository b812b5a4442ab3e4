package phases_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
)

// loop runs n iterations of which each has its batch, forward, backward pass and optimizer's step.
func (p *tape) loop(n int) {
	for range n {
		batch := p.alloc(mib, mine)
		grads := p.backward(p.forward(6), 28*mib, 20*mib, 12*mib)
		p.within("Optimizer.step#AdamW.step", func() { p.brief(4*mib, step, mine) })
		p.free(grads...)
		p.free(batch)
	}
}

// retaining makes a pass that frees nothing of what forward saved, and leaves some sizes, and one that does.
func retaining(left ...int64) func(*tape) {
	return func(p *tape) {
		p.weights(6*mib, 9*mib, 12*mib, 15*mib, 20*mib, 28*mib)
		saved := p.forward(6)
		root := p.alloc(4)
		var grads []int
		for _, n := range left {
			p.brief(5 * mib)
			grads = append(grads, p.alloc(n))
		}
		p.free(root)
		p.brief(7 * mib)
		grads = append(grads, p.backward(saved, 28*mib, 20*mib, 15*mib)...)
		p.within("Optimizer.step#SGD.step", func() { p.brief(mib) })
		p.free(grads...)
	}
}

// cases tell, by signal, what is found in a tape and, where it is named, what without the signal.
var cases = []struct {
	signal, name string
	bare         bool
	make         func(p *tape)
	want         string // of told
	without      string // of told without the signal; "": the same, for it finds nothing
}{
	{"frames", "an ordinary iteration", false, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(1)
	},
		"setup/frames 3, data/loaded-batches 1, forward/frames 24, backward/frames 36, optimizer/frames 3, " +
			"other/neighbors 8",
		"setup/neighbors 64, optimizer/named-ranges 3, other/neighbors 8"},
	{"frames", "Python alone: the engine's threads have no frames", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		saved := p.forward(2)
		p.free(p.times(2, 20*mib)...)
		p.free(saved...)
	},
		"setup/frames 2, forward/frames 8, backward/frames 9, other/neighbors 1",
		"setup/neighbors 20"},
	{"frames", "Python alone: a hook's stack begins in torch", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		saved := p.forward(2)
		p.brief(mib, product, mine, hook)
		p.brief(mib, linear, module, mine, hook)
		p.free(p.times(2, 20*mib)...)
		p.free(saved...)
	},
		"setup/frames 2, forward/frames 8, backward/frames 15, other/neighbors 1",
		"setup/neighbors 26"},
	{"frames", "with C++ frames, what has no stack may be anything", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		saved := p.forward(2)
		p.alloc(4, engine)
		p.times(2, 20*mib)
		p.freeAt([]string{linear, module, mine}, saved...)
	},
		"setup/frames 2, forward/frames 8, backward/frames 1, other/neighbors 2, forward/frames 4",
		"setup/neighbors 17"},
	{"frames", "what a closure runs is not the optimizer's", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.brief(mib, step, mine)
		p.brief(mib, linear, module, other, step, mine)
		p.brief(mib, other, step, mine)
		p.brief(mib, step, mine)
	},
		"setup/frames 2, optimizer/frames 3, forward/frames 6, optimizer/frames 3",
		"setup/neighbors 14"},

	{"named-ranges", "torch's and a program's", true, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("enumerate(DataLoader)#_SingleProcess.__next__", func() { p.alloc(mib) })
		p.within("## Forward ##", func() { p.times(4, 2*mib) })
		p.within("backward", func() { p.times(4, 3*mib) })
		p.within("Optimizer.zero_grad#AdamW.zero_grad", func() { p.alloc(mib) })
		p.within("optimizer_step", func() { p.times(3, mib) })
	},
		"setup/neighbors 2, data/named-ranges 1, forward/named-ranges 4, backward/named-ranges 4, " +
			"zero_grad/named-ranges 1, optimizer/named-ranges 3",
		"setup/neighbors 15"},
	{"named-ranges", "others", true, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("forward of something else", func() { p.times(4, 2*mib) })
		p.within("Optimizer.step", func() { p.times(4, 2*mib) })
		p.within(strings.Repeat("#", 64)+"backward", func() { p.times(4, 3*mib) })
	},
		"setup/neighbors 14",
		""},
	{"named-ranges", "within each other, and never left", true, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("forward", func() {
			p.alloc(mib)
			p.within("optimizer", func() { p.times(2, mib) })
		})
		p.alloc(mib)
		p.within("enumerate(DataLoader)#never left", func() {})
		p.within("backward", func() { p.times(3, mib) })
		p.ranges = slices.Delete(p.ranges, len(p.ranges)-1, len(p.ranges)) // nor this
		p.ranges = slices.Delete(p.ranges, len(p.ranges)-2, len(p.ranges)-1)
	},
		"setup/neighbors 2, forward/named-ranges 4, backward/named-ranges 3",
		"setup/neighbors 9"},
	{"named-ranges", "another device's", true, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("backward", func() { p.times(3, mib) })
		for i := range p.ranges {
			p.ranges[i].Device = 1
		}
	},
		"setup/neighbors 5",
		""},

	{"named-ranges", "a step that runs a backward pass", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		saved := p.forward(2)
		p.within("Optimizer.step#AdaHessian.step", func() {
			p.backward(saved)
			p.alloc(mib, other)
		})
	},
		"setup/frames 2, forward/frames 8, backward/frames 13, optimizer/closures 1",
		"setup/frames 2, forward/frames 8, backward/frames 13, other/neighbors 1"},

	{"optimizer-in-backward", "five steps", true, fusing(5, 0),
		"setup/neighbors 4, forward/rhythm 23, backward/root-gradients 42, forward/rhythm 1, zero_grad/named-ranges 3",
		"setup/neighbors 7, forward/rhythm 26, optimizer/rhythm 35, forward/rhythm 2, zero_grad/named-ranges 3"},
	{"optimizer-in-backward", "four steps: one gap too few", true, fusing(4, 0),
		"setup/neighbors 11, forward/rhythm 22, optimizer/rhythm 27, forward/rhythm 2, zero_grad/named-ranges 3",
		""},
	{"optimizer-in-backward", "much is left between them", true, fusing(5, 4),
		"setup/neighbors 7, forward/rhythm 30, optimizer/rhythm 51, forward/rhythm 2, zero_grad/named-ranges 3",
		""},

	{"closures", "LBFGS", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("Optimizer.step#LBFGS.step", func() {
			for range 2 {
				p.alloc(mib, "train.py:30 main")
				p.within("Optimizer.zero_grad#LBFGS.zero_grad", func() { p.alloc(mib, other, step, mine) })
				p.backward(p.forward(2))
				p.alloc(mib, other)
			}
		})
		p.alloc(mib, other)
	},
		"setup/frames 2, data/loaded-batches 1, zero_grad/named-ranges 1, forward/frames 8, backward/frames 13, " +
			"optimizer/closures 2, zero_grad/named-ranges 1, forward/frames 8, backward/frames 13, " +
			"optimizer/closures 1, other/neighbors 1",
		"setup/frames 2, data/loaded-batches 1, zero_grad/named-ranges 1, forward/frames 8, backward/frames 13, " +
			"other/neighbors 1, data/loaded-batches 1, zero_grad/named-ranges 1, forward/frames 8, backward/frames 13, " +
			"other/neighbors 2"},
	{"closures", "the closure only clears gradients", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.within("Optimizer.step#SGD.step", func() {
			p.alloc(mib, other)
			p.within("Optimizer.zero_grad#SGD.zero_grad", func() { p.alloc(mib, other) })
			p.alloc(mib, other)
		})
	},
		"setup/frames 2, optimizer/closures 1, zero_grad/named-ranges 1, optimizer/closures 1",
		"setup/frames 2, data/loaded-batches 1, zero_grad/named-ranges 1, data/loaded-batches 1"},

	{"root-gradients", "two passes", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(2)
	},
		"setup/neighbors 3, data/rhythm 1, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"data/rhythm 9, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, forward/rhythm 8",
		"setup/neighbors 3, data/rhythm 1, forward/rhythm 24, backward/weights-again 35, optimizer/named-ranges 4, " +
			"data/rhythm 9, forward/rhythm 24, backward/weights-again 35, optimizer/named-ranges 4, forward/rhythm 8"},
	{"root-gradients", "freed in the order of birth, as a cache", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		for range 2 {
			saved := p.forward(6)
			slices.Reverse(saved)
			p.backward(saved)
		}
	},
		"setup/neighbors 3, forward/rhythm 114",
		""},
	{"root-gradients", "one of two passes retains its graph", true, retaining(28*mib, 20*mib, 15*mib, 12*mib, 9*mib, 6*mib),
		"setup/neighbors 6, data/rhythm 13, forward/rhythm 11, backward/root-gradients 26, forward/rhythm 4, " +
			"backward/root-gradients 35, optimizer/named-ranges 4, forward/rhythm 18",
		"setup/neighbors 27, forward/rhythm 3, backward/weights-again 26, optimizer/rhythm 43, forward/rhythm 18"},
	{"root-gradients", "what stays is in the order of weights", true, retaining(6*mib, 9*mib, 12*mib, 15*mib, 20*mib, 28*mib),
		"setup/neighbors 6, forward/rhythm 54, backward/root-gradients 35, optimizer/named-ranges 4, forward/rhythm 18",
		"setup/neighbors 27, forward/rhythm 3, backward/weights-again 26, optimizer/rhythm 43, forward/rhythm 18"},
	{"root-gradients", "what a differentiated pass saved goes last", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		for range 2 {
			first := p.forward(4)
			p.backward(append(p.forward(9), first...), 28*mib, 20*mib, 12*mib)
		}
	},
		"setup/neighbors 3, forward/rhythm 52, backward/root-gradients 70, forward/rhythm 53, " +
			"backward/root-gradients 70, forward/rhythm 1",
		"setup/neighbors 3, forward/rhythm 52, backward/weights-again 70, forward/rhythm 53, backward/weights-again 70, forward/rhythm 1"},
	{"root-gradients", "the first of two losses is there while the second is worked out", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		for range 2 {
			first := p.forward(9)
			loss := p.alloc(4)
			for _, id := range slices.Backward(first[6:]) {
				p.brief(5 * mib)
				p.brief(3 * mib)
				p.free(id)
			}
			second := p.forward(9)
			p.free(loss)
			p.backward(append(first[:6], second...), 28*mib, 20*mib, 12*mib)
		}
	},
		"setup/neighbors 3, forward/rhythm 99, backward/root-gradients 80, forward/rhythm 100, backward/root-gradients 80, " +
			"forward/rhythm 1",
		"setup/neighbors 3, forward/rhythm 99, backward/weights-again 80, forward/rhythm 100, backward/weights-again 80, " +
			"forward/rhythm 1"},
	{"root-gradients", "freed in one go", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		saved := p.forward(12)
		slices.Reverse(saved)
		root := p.alloc(4)
		p.free(saved...)
		p.times(8, mib)
		p.free(root)
	},
		"setup/neighbors 3, forward/rhythm 83",
		""},
	{"root-gradients", "an optimizer steps meanwhile", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		saved := p.forward(6)
		root := p.alloc(4)
		for k, id := range slices.Backward(saved) {
			p.brief(5 * mib)
			p.free(id)
			if k == 3 {
				p.within("Optimizer.step#SGD.step", func() { p.brief(mib) })
			}
		}
		p.free(root)
	},
		"setup/neighbors 3, forward/rhythm 40, optimizer/named-ranges 3, forward/rhythm 17",
		""},
	{"root-gradients", "more than a scalar", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		saved := p.forward(6)
		root := p.alloc(12)
		for _, id := range slices.Backward(saved) {
			p.brief(5 * mib)
			p.free(id)
		}
		p.free(root)
	},
		"setup/neighbors 3, forward/rhythm 57",
		""},
	{"root-gradients", "a request fails in the second pass", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(1)
		saved := p.forward(12)
		p.alloc(4)
		for _, id := range slices.Backward(saved[2:]) {
			p.brief(5 * mib)
			p.free(id)
		}
		p.fail(100 * mib)
	},
		"setup/neighbors 3, data/rhythm 1, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"data/rhythm 9, forward/rhythm 47, backward/root-gradients 52",
		"setup/neighbors 4, forward/rhythm 24, backward/weights-again 35, optimizer/named-ranges 4, " +
			"forward/rhythm 108"},
	{"root-gradients", "the recording ends after few frees", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(1)
		saved := p.forward(12)
		p.alloc(4)
		for _, id := range slices.Backward(saved[5:]) {
			p.brief(5 * mib)
			p.free(id)
		}
	},
		"setup/neighbors 4, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"forward/rhythm 92",
		"setup/neighbors 4, forward/rhythm 24, backward/weights-again 35, optimizer/named-ranges 4, forward/rhythm 92"},

	{"root-gradients", "a layer's number goes with all else when a request fails", true, failing(30),
		"setup/neighbors 3, forward/rhythm 148",
		""},
	{"root-gradients", "a pass that fails late had freed more than it made", true, failing(3),
		"setup/neighbors 3, forward/rhythm 24, backward/root-gradients 42, forward/rhythm 1",
		"setup/neighbors 3, forward/rhythm 67"},

	{"weights-again", "a graph that is retained", true, again(12*mib, 20*mib, 28*mib),
		"setup/neighbors 17, forward/rhythm 3, backward/weights-again 23, data/rhythm 17, forward/rhythm 3, " +
			"backward/weights-again 23, forward/rhythm 3",
		"setup/neighbors 3, forward/rhythm 86"},
	{"weights-again", "too few of their sizes", true, again(12*mib, 20*mib),
		"setup/neighbors 3, forward/rhythm 72",
		""},

	{"pass-under-way", "before others", true, func(p *tape) {
		underWay(8)(p)
		p.loop(1)
	},
		"backward/pass-under-way 26, data/rhythm 2, forward/rhythm 24, backward/root-gradients 35, " +
			"optimizer/named-ranges 4, forward/rhythm 8",
		"setup/neighbors 28, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"forward/rhythm 8"},
	{"pass-under-way", "too few blocks", true, func(p *tape) {
		underWay(7)(p)
		p.loop(1)
	},
		"setup/neighbors 25, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"forward/rhythm 8",
		""},
	{"pass-under-way", "it is all that was recorded", true, underWay(40),
		"backward/pass-under-way 122, forward/rhythm 1",
		"setup/neighbors 123"},
	{"pass-under-way", "something follows, and nothing says what", true, func(p *tape) {
		underWay(40)(p)
		p.times(8, mib)
	},
		"setup/neighbors 131",
		""},

	{"rhythm", "what is kept beside batches", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		for k := range int64(3) {
			p.alloc((7 + k) * mib) // in a list
			batch := p.alloc(mib)
			p.backward(p.forward(6), 28*mib)
			p.free(batch)
		}
	},
		"setup/neighbors 4, data/rhythm 1, forward/rhythm 24, backward/root-gradients 33, data/rhythm 3, other/rhythm 1, " +
			"data/rhythm 1, forward/rhythm 24, backward/root-gradients 33, data/rhythm 5, forward/rhythm 24, " +
			"backward/root-gradients 33, forward/rhythm 3",
		"setup/neighbors 29, backward/root-gradients 157, other/neighbors 3"},
	{"rhythm", "a step whose pass isn't seen, and one that is", true, func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(1)
		p.free(p.forward(6)...)
		p.within("Optimizer.step#SGD.step", func() { p.brief(mib) })
		p.loop(1)
	},
		"setup/neighbors 3, data/rhythm 1, forward/rhythm 24, backward/root-gradients 35, optimizer/named-ranges 4, " +
			"forward/rhythm 44, optimizer/named-ranges 3, data/rhythm 1, forward/rhythm 24, backward/root-gradients 35, " +
			"optimizer/named-ranges 4, forward/rhythm 8",
		"setup/neighbors 28, backward/root-gradients 35, other/neighbors 1, optimizer/named-ranges 3, " +
			"other/neighbors 44, optimizer/named-ranges 3, forward/neighbors 25, backward/root-gradients 35, " +
			"other/neighbors 1, optimizer/named-ranges 3, other/neighbors 8"},
	{"rhythm", "no pass: the loop begins with what goes, but for copies of weights", true, func(p *tape) {
		for range 3 {
			old := p.alloc(4 * mib)
			p.alloc(2 * mib) // which stays
			p.free(old)
		}
		id := p.alloc(mib)
		p.times(4, 5*mib)
		p.free(id)
	},
		"setup/neighbors 12, forward/rhythm 7",
		"setup/neighbors 19"},
	{"rhythm", "no pass: what goes at once begins no loop", true, func(p *tape) {
		id := p.alloc(mib)
		p.times(3, 5*mib)
		p.free(id)
	},
		"setup/neighbors 6",
		""},

	{"setup", "a function of torch's before the first pass", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.times(5, mib, product, mine)
		p.alloc(mib, other)
		p.backward(p.forward(3))
	},
		"setup/setup 7, data/loaded-batches 1, forward/frames 12, backward/frames 18",
		"setup/frames 2, forward/frames 5, setup/neighbors 1, forward/frames 12, backward/frames 18"},
	{"setup", "such functions are the only pass", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.alloc(mib, other)
		p.backward(p.times(3, mib, product, mine))
	},
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frames 18",
		"setup/frames 3, forward/frames 3, backward/frames 18"},
	{"setup", "the batch is what its line makes again", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.alloc(mib, "train.py:3 main")
		for range 2 {
			p.alloc(mib, mine)
			p.alloc(mib, other)
			p.backward(p.forward(3))
		}
	},
		"setup/frames 3, data/loaded-batches 2, forward/frames 12, backward/frames 18, data/loaded-batches 2, " +
			"forward/frames 12, backward/frames 18",
		"setup/frames 5, forward/frames 12, backward/frames 18, setup/neighbors 2, forward/frames 12, " +
			"backward/frames 18"},
	{"setup", "of one iteration it is the last four things", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		for k := range 6 {
			p.alloc(mib, fmt.Sprintf("train.py:%d main", k))
		}
		p.backward(p.forward(3))
	},
		"setup/frames 4, data/loaded-batches 4, forward/frames 12, backward/frames 18",
		"setup/frames 8, forward/frames 12, backward/frames 18"},
	{"setup", "a request fails before the first pass, after as large zeros", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.times(6, 30*mib, zeros, mine)
		p.fail(30*mib, zeros, mine)
	},
		"setup/frames 9",
		""},
	{"setup", "a request fails before the first pass, after as large batches", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		p.times(6, 30*mib, mine)
		p.fail(30*mib, mine)
	},
		"setup/frames 4, data/loaded-batches 4, other/neighbors 1",
		"setup/frames 9"},
	{"setup", "no model, but a pass", false, func(p *tape) {
		p.brief(mib, product, mine)
		for range 4 {
			p.brief(2*mib, mine)
		}
	},
		"forward/frames 15",
		"forward/frames 3, setup/neighbors 12"},
	{"setup", "no model", false, func(p *tape) {
		for range 4 {
			p.brief(2*mib, mine)
		}
	},
		"other/setup 12",
		"setup/neighbors 12"},
	{"setup", "what is older may be a model", false, func(p *tape) {
		p.older(20 * mib)
		for range 4 {
			p.brief(2*mib, mine)
		}
	},
		"data/loaded-batches 1, other/neighbors 2, data/loaded-batches 1, other/neighbors 2, data/loaded-batches 1, " +
			"other/neighbors 2, data/loaded-batches 1, other/neighbors 2",
		"setup/neighbors 12"},

	{"loaded-batches", "also in the middle of other work", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		for range 2 {
			p.alloc(mib, mine)
			p.alloc(mib, other)
			p.backward(p.forward(3))
			p.brief(mib, step, mine)
		}
		p.alloc(mib, mine)
		p.alloc(mib, "train.py:50 main")
	},
		"setup/frames 2, data/loaded-batches 2, forward/frames 12, backward/frames 18, optimizer/frames 3, " +
			"data/loaded-batches 2, forward/frames 12, backward/frames 18, optimizer/frames 3, data/loaded-batches 1, " +
			"other/neighbors 1",
		"setup/frames 2, data/neighbors 2, forward/frames 12, backward/frames 18, optimizer/frames 3, " +
			"data/neighbors 2, forward/frames 12, backward/frames 18, optimizer/frames 3, other/neighbors 2"},
	{"loaded-batches", "begun within the loop: a line of which nothing goes", false, func(p *tape) {
		p.older(12*mib, apply, mine)
		for range 3 {
			p.alloc(mib, "train.py:30 keep")
			batch := p.alloc(mib, other)
			p.backward(p.forward(3))
			p.free(batch)
		}
	},
		"data/loaded-batches 2, forward/frames 12, backward/frames 18, other/neighbors 3, data/loaded-batches 1, " +
			"forward/frames 12, backward/frames 18, other/neighbors 3, data/loaded-batches 1, forward/frames 12, backward/frames 18, " +
			"other/neighbors 2",
		"other/neighbors 1, data/neighbors 1, forward/frames 12, backward/frames 18, other/neighbors 3, data/neighbors 1, " +
			"forward/frames 12, backward/frames 18, other/neighbors 3, data/neighbors 1, forward/frames 12, backward/frames 18, " +
			"other/neighbors 2"},
	{"loaded-batches", "the line computes, too", false, func(p *tape) {
		p.weights(12*mib, 20*mib)
		for range 2 {
			p.alloc(mib, mine)
			saved := p.forward(2)
			p.alloc(mib, mine)
			p.backward(saved)
		}
	},
		"setup/frames 2, data/loaded-batches 1, forward/frames 9, backward/frames 13, data/loaded-batches 1, " +
			"forward/frames 9, backward/frames 13",
		"setup/frames 2, data/neighbors 1, forward/frames 9, backward/frames 13, data/neighbors 1, forward/frames 9, " +
			"backward/frames 13"},
	{"loaded-batches", "without modules what is there after the backward pass", false, func(p *tape) {
		p.weights(12 * mib)
		for range 2 {
			p.alloc(mib, mine)
			saved := p.times(3, 2*mib, other)
			p.backward(saved)
		}
	},
		"setup/frames 1, data/loaded-batches 1, forward/neighbors 3, backward/frames 18, data/loaded-batches 1, " +
			"forward/neighbors 3, backward/frames 18",
		"setup/frames 1, forward/neighbors 4, backward/frames 18, other/neighbors 4, backward/frames 18"},

	{"flat-weights", "a model is packed, which begins no loop", true, packing(8, 0),
		"setup/neighbors 25, forward/rhythm 18",
		"forward/rhythm 43"},
	{"flat-weights", "padded for all ranks", true, packing(64, mib),
		"setup/neighbors 193, forward/rhythm 18",
		"forward/rhythm 211"},
	{"flat-weights", "as large as others together by chance", true, packing(64, mib+mib/16),
		"forward/rhythm 211",
		""},
	{"flat-weights", "too few weights", true, packing(7, 0),
		"forward/rhythm 40",
		""},

	{"frees-without-stacks", "with context=\"alloc\"", false, freeing(true, true),
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frees-without-stacks 15, " +
			"optimizer/frees-without-stacks 3, other/neighbors 2, data/loaded-batches 1, forward/frames 3, " +
			"backward/frees-without-stacks 15, optimizer/frees-without-stacks 3, other/neighbors 2",
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frames 3, other/neighbors 12, " +
			"optimizer/frames 1, other/neighbors 4, data/loaded-batches 1, forward/frames 3, backward/frames 3, " +
			"other/neighbors 12, optimizer/frames 1, other/neighbors 4"},
	{"frees-without-stacks", "what goes after the gradient of the loss", false, freeing(true, false),
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frees-without-stacks 13, other/neighbors 2, " +
			"optimizer/frees-without-stacks 3, other/neighbors 2, data/loaded-batches 1, forward/frames 3, " +
			"backward/frees-without-stacks 13, other/neighbors 2, optimizer/frees-without-stacks 3, other/neighbors 2",
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frames 3, other/neighbors 12, " +
			"optimizer/frames 1, other/neighbors 4, data/loaded-batches 1, forward/frames 3, backward/frames 3, " +
			"other/neighbors 12, optimizer/frames 1, other/neighbors 4"},
	{"frees-without-stacks", "gradients may be zero_grad's", false, freeing(false, true),
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frees-without-stacks 11, other/neighbors 6, " +
			"data/loaded-batches 1, forward/frames 3, backward/frees-without-stacks 11, other/neighbors 6",
		"setup/frames 2, data/loaded-batches 1, forward/frames 3, backward/frames 3, other/neighbors 14, " +
			"data/loaded-batches 1, forward/frames 3, backward/frames 3, other/neighbors 14"},
}

// fusing steps an optimizer so many times within a backward pass, and leaves some blocks between.
func fusing(steps, left int) func(p *tape) {
	return func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		fused(p, steps, left)
	}
}

// fused is one iteration of such a program.
func fused(p *tape, steps, left int) {
	saved := p.forward(6)
	root := p.alloc(4)
	for _, id := range slices.Backward(saved[len(saved)-steps:]) {
		p.brief(5 * mib)
		p.times(left, mib)
		p.free(id)
		p.within("Optimizer.step#SGD.step", func() { p.brief(mib) })
	}
	p.free(root)
	p.within("Optimizer.zero_grad#SGD.zero_grad", func() { p.brief(mib) })
}

// failing frees what was there while a number lives, makes more, and lets go of all where a request fails.
func failing(more int) func(p *tape) {
	return func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		saved := p.forward(6)
		seed := p.alloc(4)
		for _, id := range slices.Backward(saved) {
			p.brief(5 * mib)
			p.free(id)
		}
		made := p.times(more, 5*mib)
		p.fail(100 * mib)
		slices.Reverse(made)
		p.free(made...)
		p.free(seed)
	}
}

// again frees nothing in its backward passes, which make gradients.
func again(grads ...int64) func(p *tape) {
	return func(p *tape) {
		p.weights(12*mib, 20*mib, 28*mib)
		for range 2 {
			batch := p.alloc(mib)
			p.forward(4)
			root := p.alloc(4)
			for _, n := range grads {
				p.alloc(n)
				p.brief(3 * mib)
				p.brief(3 * mib)
			}
			p.free(root, batch)
		}
	}
}

// underWay begins in the middle of a backward pass.
func underWay(blocks int) func(p *tape) {
	return func(p *tape) {
		for range 3 {
			p.older(12 * mib)
		}
		var saved []int
		for range blocks {
			saved = append(saved, p.older(5*mib))
		}
		root := p.older(4)
		for _, id := range slices.Backward(saved) {
			p.alloc(12 * mib)
			p.free(id)
		}
		p.alloc(12 * mib)
		p.free(root)
	}
}

// packing frees weights that are in a flat buffer then, and runs forward.
func packing(n int, padding int64) func(p *tape) {
	return func(p *tape) {
		parts := p.times(n, mib)
		p.alloc(int64(n)*mib + padding)
		p.free(parts...)
		p.free(p.forward(3)...)
	}
}

// freeing has frees without stacks; the optimizer allocates or doesn't, and a gradient goes before backward() returns or after.
func freeing(steps, within bool) func(p *tape) {
	return func(p *tape) {
		p.weights(12*mib, 20*mib)
		for range 2 {
			batch := p.alloc(mib, mine)
			saved := p.times(3, 5*mib, linear, module, mine)
			root := p.alloc(4, engine)
			own := p.alloc(2*mib, engine)
			grad := p.alloc(20*mib, engine)
			p.free(own)
			p.free(saved...)
			if within {
				p.free(grad, root)
			} else {
				p.free(root, grad)
			}
			if steps {
				p.free(p.alloc(3*mib, step, mine))
			}
			p.free(batch)
		}
	}
}

// TestSignals: what each signal finds, what it leaves to others, and where it begins to doubt.
func TestSignals(t *testing.T) {
	asked := map[string]bool{}
	for _, c := range cases {
		asked[c.signal] = asked[c.signal] || c.without != ""
		t.Run(c.signal+"/"+c.name, func(t *testing.T) {
			p := newTape(t, c.bare)
			c.make(p)
			if got := told(p.follow()); got != c.want {
				t.Errorf("%s", got)
			}
			if got := told(p.follow(c.signal)); got != cmp.Or(c.without, c.want) || strings.Contains(got, "/"+c.signal+" ") {
				t.Errorf("without: %s", got)
			}
		})
	}
	for _, s := range phases.Signals() {
		if s.Tells == phases.Events && !asked[s.ID] && s != phases.Neighbors {
			t.Errorf("no tape needs %s", s.ID)
		}
	}
}
