package phases_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
)

// TestNeighbors fills gaps between phases that ranges name.
func TestNeighbors(t *testing.T) {
	const data, zero = "enumerate(DataLoader)#x", "zero_grad"
	for _, c := range []struct {
		before, after string // "": the recording's end
		want          string // phases of what goes at once, and of what is there until after the second one
	}{
		{"forward", "forward", "forward forward"},
		{"forward", "backward", "forward forward"},
		{"forward", "optimizer", "forward forward"},
		{"forward", "", "forward forward"},
		{"backward", "backward", "backward backward"},
		{"backward", "optimizer", "other other"},
		{"backward", "forward", "other data"},
		{"backward", data, "other data"},
		{"backward", "", "other other"},
		{"optimizer", "optimizer", "other other"},
		{"optimizer", "forward", "other data"},
		{"optimizer", zero, "other other"},
		{"optimizer", "backward", "forward forward"},
		{zero, zero, "zero_grad zero_grad"},
		{zero, "forward", "other data"},
		{data, data, "other data"},
		{data, "forward", "other data"},
		{data, "backward", "forward forward"},
	} {
		p := newTape(t, true)
		p.weights(12*mib, 20*mib)
		p.within(c.before, func() { p.times(2, 3*mib) })
		first := len(p.events)
		p.brief(mib)
		second := len(p.events)
		batch := p.alloc(mib)
		if c.after != "" {
			p.within(c.after, func() { p.times(2, 3*mib) })
		}
		p.free(batch)
		a := p.follow("rhythm")
		if got := a.Phases[first].String() + " " + a.Phases[second].String(); got != c.want {
			t.Errorf("between %s and %q: %s, want %s", c.before, c.after, got, c.want)
		}
		if a.Phases[0] != meaning.Setup || a.PhaseAt(-1) != meaning.Setup {
			t.Errorf("before %s: %v", c.before, a.Phases[0])
		}
	}
}

// TestBetweenPasses: with Python's stacks, what the program makes between two passes is neither's, unlike what a hook makes.
func TestBetweenPasses(t *testing.T) {
	hook, program := []string{"hooks.py:7 hook"}, []string{other, mine, "train.py:30 <module>"}
	for _, c := range []struct {
		begins, by []string // of what the recording begins with, and of what lies between
		want       meaning.Phase
	}{
		{nil, program, meaning.OtherPhase},
		{nil, hook, meaning.Backward},
		{hook, program, meaning.OtherPhase},
		{hook, hook, meaning.Backward},
	} {
		p := newTape(t, false)
		if c.begins != nil {
			p.brief(mib, c.begins...)
		}
		p.times(2, 12*mib, apply, mine)
		saved := p.times(9, mib, linear, module, mine)
		p.times(3, mib)
		at := len(p.events)
		p.brief(mib, c.by...)
		p.free(saved...)
		p.times(3, mib)
		if got := p.follow("").Phases[at]; got != c.want {
			t.Errorf("by %q, after %q: %v, want %v", c.by, c.begins, got, c.want)
		}
	}
}

// TestJoin: who speaks of an event first decides, what nobody knows is known by neighbors, and nothing is said of a recording
// of which nothing is known.
func TestJoin(t *testing.T) {
	p := newTape(t, false)
	p.weights(12*mib, 20*mib)
	p.within("forward", func() { p.backward(p.forward(2)) }) // frames know better
	p.within("backward", func() {
		p.alloc(mib, other) // and ranges better than lines that load batches
		p.within("optimizer", func() { p.alloc(mib, other) })
	})
	p.alloc(mib, other)
	for _, c := range []struct {
		without []string
		want    string
	}{
		{nil, "setup/frames 2, forward/frames 8, backward/frames 15, other/neighbors 1"},
		{[]string{"frames"}, "setup/neighbors 2, forward/named-ranges 21, backward/named-ranges 2, other/neighbors 1"},
		{[]string{"named-ranges"}, "setup/frames 2, forward/frames 8, backward/frames 13, other/neighbors 3"},
		{[]string{"frames", "named-ranges"}, "setup/neighbors 23, data/loaded-batches 3"},
		{[]string{"neighbors"}, "setup/frames 2, forward/frames 8, backward/frames 15, other/- 1"},
		{[]string{"nobody"}, "setup/frames 2, forward/frames 8, backward/frames 15, other/neighbors 1"},
	} {
		if got := told(p.follow(c.without...)); got != c.want {
			t.Errorf("without %q: %s", c.without, got)
		}
	}

	p = newTape(t, true)
	p.times(3, mib)
	if a := p.follow(); told(a) != "setup/neighbors 3" || len(a.Steps) != 0 || a.Loop != 3 || len(a.Before) != 1 || a.Before[0].LastEvent != 2 {
		t.Errorf("nothing known: %s, %+v", told(a), a.Steps)
	}
	p = newTape(t, true)
	p.older(mib)
	if a := p.follow(); told(a) != "" || len(a.Steps) != 0 || a.Before != nil || a.Run(0) != 0 || a.Run(-1) != -1 {
		t.Errorf("no events: %s", told(a))
	}
}

// TestEachLeftOut: a program is told without any one signal, and without all.
func TestEachLeftOut(t *testing.T) {
	var all []string
	for _, s := range phases.Signals() {
		all = append(all, s.ID)
	}
	for _, bare := range []bool{false, true} {
		p := newTape(t, bare)
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(3)
		for _, id := range all {
			if got := told(p.follow(id)); strings.Contains(got, "/"+id+" ") {
				t.Errorf("without %s: %s", id, got)
			}
		}
		if got := told(p.follow(all...)); got != "other/- 219" {
			t.Errorf("without all: %s", got)
		}
	}
}

// TestRephase: what a rule makes of the phases of events, no signal told.
func TestRephase(t *testing.T) {
	p := newTape(t, false)
	p.weights(12*mib, 20*mib)
	p.forward(3)
	p.backward(nil)
	a := p.follow()
	for i, phase := range a.Phases {
		if phase == meaning.Forward {
			a.Phases[i] = meaning.Generate
		}
	}
	a.Rephase()
	if got := told(a); got != "setup/frames 2, generate/- 12, backward/frames 3" {
		t.Error(got)
	}
	if s := a.Steps[0].Phases; len(s) != 2 || s[0].Phase != meaning.Generate || s[0].By != 0 || a.Phase[2] != meaning.Generate {
		t.Errorf("%+v", s)
	}
	if span, step := a.SpanAt(15); span.Phase != meaning.Backward || step.Number != 0 {
		t.Errorf("%+v of %+v", span, step)
	}
	if span, step := a.SpanAt(0); span.Phase != meaning.Setup || step != nil {
		t.Errorf("%+v of %+v", span, step)
	}
}

// TestSteps cuts programs into iterations.
func TestSteps(t *testing.T) {
	pass := func(p *tape, sizes ...int64) {
		batch := p.alloc(mib, mine)
		for _, n := range sizes {
			p.free(p.alloc(n, linear, module, mine), p.alloc(n, linear, module, mine))
		}
		p.free(batch)
	}
	update := func(p *tape, grads ...int64) {
		batch := p.alloc(mib, mine)
		left := p.backward(p.forward(4), grads...)
		p.within("Optimizer.step#AdamW.step", func() { p.brief(mib, step, mine) })
		p.free(append(left, batch)...)
	}
	evaluate := func(p *tape) {
		for range 4 {
			p.free(append(p.forward(3), p.alloc(mib, other))...)
		}
	}
	adversaries := func(grads ...int64) func(p *tape) {
		return func(p *tape) {
			for range 4 {
				p.alloc(mib, mine)
				for k, n := range []int{3, 5} {
					left := p.backward(p.forward(n), grads[k])
					p.within("Optimizer.step#AdamW.step", func() { p.brief(mib, step, mine) })
					p.free(left...)
				}
			}
		}
	}
	for _, c := range []struct {
		signal, name string
		bare         bool
		make         func(p *tape)
		want         []int
		without      []int // the signal; nil: the same
	}{
		{"updates", "each its own", false, func(p *tape) { p.loop(3) }, []int{2, 74, 146}, nil},
		{"updates", "without ranges by their work", false, func(p *tape) {
			p.loop(3)
			p.ranges = nil
		}, []int{2, 74, 146}, nil},
		{"updates", "two take turns", false, adversaries(20*mib, 28*mib), []int{2, 93, 184, 275}, nil},
		{"updates", "one, whose passes take turns", false, adversaries(20*mib, 20*mib), []int{3, 39, 93, 130, 184, 221, 275, 312},
			[]int{2, 93, 184, 275}},
		{"updates", "three critics and a generator take turns", false, func(p *tape) {
			for range 3 {
				for _, n := range []int64{20, 20, 20, 28} {
					update(p, n*mib)
				}
			}
		}, []int{2, 194, 386}, []int{2, 50, 98, 146, 194, 242, 290, 338, 386, 434, 482, 530}},
		{"updates", "evaluations between them and after the last", false, func(p *tape) {
			for k := range 4 {
				update(p, 20*mib)
				if k%2 == 1 {
					evaluate(p)
				}
			}
		}, []int{2, 50, 182, 230}, []int{2, 50, 230}},
		{"updates", "an evaluation before the first", false, func(p *tape) {
			evaluate(p)
			for range 2 {
				update(p, 20*mib)
			}
		}, []int{2, 134}, []int{2}},
		{"updates", "rollouts that three updates share", false, func(p *tape) {
			for range 3 {
				shared := p.times(5, 7*mib, other)
				evaluate(p)
				for range 3 {
					update(p, 20*mib)
				}
				p.free(shared...)
			}
		}, []int{2, 245, 488}, nil},
		{"updates", "rollouts of which nothing is used again", false, func(p *tape) {
			for range 3 {
				p.free(p.times(5, 7*mib, other)...)
				evaluate(p)
				for range 3 {
					update(p, 20*mib)
				}
			}
		}, []int{17, 150, 198, 245, 393, 441, 488, 636, 684}, []int{2, 245, 488}},
		{"updates", "named, as a profiler does", false, func(p *tape) {
			for k := range 3 {
				p.within(fmt.Sprintf("ProfilerStep#%d", k), func() {
					update(p, 20*mib)
					update(p, 20*mib)
				})
			}
		}, []int{2, 98, 194}, []int{2, 50, 98, 146, 194, 242}},
		{"updates", "named twice", false, func(p *tape) {
			for k := range 3 {
				p.within(fmt.Sprintf("ProfilerStep#%d", k), func() {
					p.alloc(mib, mine)
					p.within("train_step", func() { update(p, 20*mib) })
				})
			}
		}, []int{2, 51, 100}, nil},
		{"updates", "the optimizer's own, named", false, func(p *tape) {
			for range 3 {
				batch := p.alloc(mib, mine)
				left := p.backward(p.forward(4), 20*mib)
				p.within("step", func() { p.within("Optimizer.step#AdamW.step", func() { p.brief(mib, step, mine) }) })
				p.free(append(left, batch)...)
			}
		}, []int{2, 50, 98}, nil},
		{"updates", "within the backward pass", true, func(p *tape) {
			fusing(5, 0)(p)
			fused(p, 5, 0)
		}, []int{5, 75}, nil},
		{"updates", "no optimizer steps", false, func(p *tape) {
			for range 3 {
				p.alloc(mib, mine)
				p.backward(p.forward(3), 20*mib)
			}
		}, []int{2, 34, 66}, nil},
		{"forward-loops", "each pass has a batch", false, func(p *tape) {
			for range 3 {
				pass(p, 3*mib, 4*mib, 5*mib)
			}
		}, []int{2, 23, 44}, []int{2}},
		{"forward-loops", "each batch comes in pieces", false, func(p *tape) {
			for range 2 {
				p.times(2, mib, mine)
				pass(p, 3*mib, 4*mib, 5*mib)
			}
		}, []int{2, 25}, []int{2}},
		{"forward-loops", "nothing but batches", false, func(p *tape) { p.times(7, mib, mine) }, []int{5, 6, 7, 8}, []int{5}},
		{"forward-loops", "the first line of a pass", false, func(p *tape) {
			for range 4 {
				p.free(p.alloc(mib, "site-packages/torch/nn/modules/sparse.py:1 forward", module, mine))
				for range 3 {
					p.free(p.alloc(mib, linear, module, mine))
				}
			}
		}, []int{2, 14, 26, 38}, []int{2}},
		{"forward-loops", "only deeper modules recur: layers", false, func(p *tape) {
			for k := range 4 {
				p.alloc(mib, linear, module, module, mine)
				for i := range 4 {
					p.alloc(mib, product, fmt.Sprintf("net.py:%d forward", 4*k+i), module, mine)
				}
			}
		}, []int{2}, nil},
		{"forward-loops", "sizes", true, func(p *tape) {
			p.weights(12*mib, 20*mib)
			for range 4 {
				for _, n := range []int64{1, 9, 2, 8, 3, 7, 4, 6} {
					id := p.alloc(n * mib)
					p.times(1, 512*n)
					p.free(id, id+1)
				}
			}
		}, []int{4, 52, 100, 148}, []int{4}},
		{"forward-loops", "lives, where batches of two sizes take turns", true, func(p *tape) {
			p.weights(12*mib, 20*mib)
			for k := range int64(8) {
				ids := p.times(8, (1+k*k)*mib)
				p.free(ids[1], ids[0], ids[3], ids[2], ids[7], ids[5], ids[6], ids[4])
			}
		}, []int{4, 28, 52, 76, 100, 124, 148, 172}, []int{4}},
		{"forward-loops", "layers that keep what they make", true, func(p *tape) {
			p.weights(12*mib, 20*mib)
			id := p.alloc(mib)
			p.times(4, 30*mib)
			p.free(id)
			for range 6 {
				for _, n := range []int64{1, 9, 2, 8, 3, 7} {
					p.alloc(n * mib)
				}
			}
			p.fail(100 * mib)
		}, []int{4}, nil},
	} {
		t.Run(c.signal+"/"+c.name, func(t *testing.T) {
			p := newTape(t, c.bare)
			p.weights(28*mib, 36*mib)
			c.make(p)
			if got := starts(p.follow().Steps); !slices.Equal(got, c.want) {
				t.Errorf("%v of %s", got, told(p.follow()))
			}
			if c.without == nil {
				c.without = c.want
			}
			if got := starts(p.follow(c.signal).Steps); !slices.Equal(got, c.without) {
				t.Errorf("without: %v", got)
			}
		})
	}
}

// TestUntrainedPasses finds validations of three passes or more between trained ones.
func TestUntrainedPasses(t *testing.T) {
	for _, c := range []struct {
		passes, layers int
		kept           bool // until a later backward pass
		want           string
	}{{3, 6, false, "untrained forward forward forward"}, {2, 6, false, ""}, {6, 1, false, ""},
		{4, 6, true, "waiting forward forward forward"}} {
		p := newTape(t, false)
		p.weights(12*mib, 20*mib, 28*mib)
		p.loop(3)
		var made []int
		for range c.passes {
			p.brief(mib, "site-packages/torch/nn/modules/sparse.py:1 forward", module, mine)
			saved := p.forward(c.layers)
			if c.kept {
				made = append(made, saved...)
			} else {
				p.free(saved...)
			}
		}
		if c.kept {
			p.backward(made)
		}
		p.loop(1)
		a := p.follow()
		got := ""
		for _, steps := range a.Untrained {
			got += "untrained"
			for _, n := range starts(steps) {
				got += " " + a.Phases[n].String()
			}
			last := steps[len(steps)-1].LastEvent
			if a.UntrainedEnd(last) != last || a.UntrainedEnd(last+1) != a.Last {
				t.Errorf("the last pass ends at %d, not at %d", a.UntrainedEnd(last), last)
			}
		}
		for _, steps := range a.Waiting {
			got += "waiting"
			for _, n := range starts(steps) {
				got += " " + a.Phases[n].String()
			}
		}
		if got != c.want {
			t.Errorf("%d passes of %d layers, kept %v: %s", c.passes, c.layers, c.kept, got)
		}
		if a = p.follow("untrained-passes"); len(a.Untrained)+len(a.Waiting) > 0 {
			t.Errorf("%d passes: found without the signal", c.passes)
		}
	}
}

// TestNamedWithoutTimes: names of steps say nothing where events have no times.
func TestNamedWithoutTimes(t *testing.T) {
	p := newTape(t, false)
	p.weights(28*mib, 36*mib)
	for range 3 {
		p.within("iteration", func() { p.backward(p.forward(3), 20*mib) })
	}
	line := p.timeline()
	line.Device.Events.TimeUS = nil
	if got := len(phases.Follow(line, phases.Gather(line.Snapshot, line.Device)).Steps); got != 3 {
		t.Errorf("%d steps", got)
	}
}
