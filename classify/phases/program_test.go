package phases_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// TestRuns asks an ordinary program what comes next.
func TestRuns(t *testing.T) {
	p := newTape(t, false)
	p.weights(12*mib, 20*mib, 28*mib)
	p.loop(2)
	p.fail(100 * mib)
	a := p.follow()
	phase := func(r int) string {
		if r >= len(a.Runs) {
			return "none"
		}
		return a.Runs[r].Phase.String()
	}
	var next []string
	for r := range a.Runs {
		next = append(next, phase(int(a.NextBackward[r]))+" "+phase(int(a.NextOptimizer[r])))
	}
	if n := len(next); next[1] != "backward optimizer" || next[n-1] != "none none" || !a.Trains || !a.Updates {
		t.Errorf("%q", next)
	}
	first, second := a.BackwardAfter(-1), a.BackwardAfter(a.Run(a.BackwardAfter(0).End))
	if first != a.BackwardAfter(0) || second == nil || second.First <= first.First || a.BackwardAfter(a.Run(second.End)) != nil {
		t.Errorf("backward passes are %+v and %+v", first, second)
	}
	failed := a.Last - 1
	if !a.FailedBetween(failed-1, failed) || a.FailedBetween(failed, failed) || a.FailedBetween(0, failed-1) {
		t.Errorf("request %v failed elsewhere", a.OOMs)
	}
	a.Peaks()
	for _, s := range a.Steps {
		if s.PeakAllocated < 120*mib || s.PeakAllocated > 200*mib {
			t.Errorf("step %d needs %d", s.Number, s.PeakAllocated)
		}
	}
	saved := a.Timeline.Of[4] // by the first layer
	if a.Birth(saved).Marks&frames.InModule == 0 || a.Death(saved).Marks&frames.Engine == 0 || a.Death(0).Marks != 0 {
		t.Errorf("%d was made by %v and freed by %v", saved, a.Birth(saved), a.Death(saved))
	}
}

// TestIsOver: what a program lets go of at its end was never short-lived.
func TestIsOver(t *testing.T) {
	for _, c := range []struct {
		blocks int
		over   bool
	}{{8, true}, {7, false}} {
		p := newTape(t, true)
		made := p.times(c.blocks, 12*mib)
		for range 20 {
			p.brief(mib)
		}
		p.free(made...)
		a := p.follow()
		if got := a.Outlives(0); got != c.over || (a.Freed(0) == a.Last) != c.over || a.Stop >= a.Last {
			t.Errorf("%d blocks go at the end: over %v", c.blocks, got)
		}
	}
}

// TestEndOf: what the last step works in goes before the program lets go of what it began with.
func TestEndOf(t *testing.T) {
	p := newTape(t, true)
	made := p.times(8, 12*mib)
	for range 20 {
		p.brief(mib)
	}
	work := p.alloc(3 * mib)
	p.free(work)
	p.free(made...)
	a := p.follow()
	if id := a.Timeline.Of[work]; a.Outlives(id) || a.Freed(id) == a.Last || !a.Outlives(0) {
		t.Errorf("the last work goes at %d of %d", a.Freed(id), a.Last)
	}
}

// TestAsSecond: passes that let go of nothing begin where the second one shows it.
func TestAsSecond(t *testing.T) {
	p := newTape(t, true)
	p.weights(12*mib, 20*mib, 28*mib)
	for range 3 {
		batch := p.alloc(2 * mib)
		p.forward(8)
		root := p.alloc(4)
		for _, n := range []int64{12, 20, 28} {
			p.brief(5 * mib)
			p.brief(5 * mib)
			p.alloc(n * mib)
		}
		p.free(root, batch)
	}
	if a := p.follow(); a.Loop != 3 || !a.Trains {
		t.Errorf("the loop begins at %d", a.Loop)
	}
}

// TestInRoot: what a pass leaves to another backward pass, which no stack shows, is of its graph and no batch.
func TestInRoot(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int // that the second pass frees
		want   meaning.Phase
	}{
		{"as many as a graph has", 9, meaning.Forward},
		{"as few as a batch", 4, meaning.Data},
	} {
		p := newTape(t, true)
		p.weights(12*mib, 20*mib, 28*mib)
		var first int
		for range 3 {
			first = len(p.events)
			later := p.times(c.blocks, mib)
			saved := p.forward(8)
			grads := p.backward(saved, 12*mib, 20*mib, 28*mib)
			grads = append(grads, p.backward(later, 12*mib)...)
			p.within("optimizer", func() { p.brief(2 * mib) })
			p.free(grads...)
		}
		if got := p.follow().Phases[first]; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCommunicates marks FSDP's ranges.
func TestCommunicates(t *testing.T) {
	p := newTape(t, true)
	p.times(2, mib)
	p.within("FSDP::all_gather (layers.0)", func() { p.times(2, mib) })
	p.within("FSDP::pre_forward", func() { p.times(2, mib) })
	p.within("FSDP::post_backward_reduce", func() { p.alloc(mib) })
	p.ranges = append(p.ranges, p.ranges[1]) // an end that nothing began
	if got := p.follow().Communicates(); !slices.Equal(got, []bool{false, false, true, true, false, false, true}) {
		t.Errorf("%v", got)
	}
	p.ranges = p.ranges[2:4]
	if got := p.follow().Communicates(); got != nil {
		t.Errorf("no ranges of FSDP: %v", got)
	}
}

// TestWorkspaceBySize: cuBLAS's blocks go at once.
func TestWorkspaceBySize(t *testing.T) {
	p := newTape(t, true)
	p.brief(32 << 20)
	p.brief(33 << 20)
	p.alloc(32 << 20)
	p.times(2, mib)
	a := p.follow()
	for id, want := range []bool{true, false, false} {
		if got := a.IsWorkspaceBySize(timeline.AllocationID(id)); got != want {
			t.Errorf("%d: %v", id, got)
		}
	}
}

// TestLayersOfModel: equal layers are most of a model, whose single pass is none of several iterations.
func TestLayersOfModel(t *testing.T) {
	layers := func(p *tape, n int, keep bool) {
		for range n {
			for _, size := range []int64{1, 9, 2, 8, 3, 7} {
				if id := p.alloc(size * mib); !keep {
					p.free(id)
				}
			}
		}
	}
	for _, c := range []struct {
		layers int // of the model
		steps  int
	}{{8, 1}, {4, 6}} {
		p := newTape(t, true)
		for range c.layers {
			for _, size := range []int64{3, 4, 5, 6, 11, 12, 13} {
				p.alloc(size * mib)
			}
		}
		id := p.alloc(mib)
		p.times(4, 30*mib)
		p.free(id)
		layers(p, 6, false)
		p.fail(100 * mib)
		a := p.follow()
		if l := a.LayersOfModel(); !l.Most {
			t.Errorf("%d layers are %+v", c.layers, l)
		}
		if len(a.Steps) != c.steps {
			t.Errorf("%d layers: %v of %s", c.layers, starts(a.Steps), told(a))
		}
	}
	p := newTape(t, true)
	p.times(3, mib)
	if a := p.follow(); a.LayersOfModel().Most {
		t.Error("three blocks are layers")
	}
}

// TestFromItsEnd: a graph goes from what was made last; few blocks, those that go in order, and what else goes beside it are none.
func TestFromItsEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int
		order  func(ids []int)
		want   bool
	}{
		{"from its end", 24, slices.Reverse[[]int], true},
		{"in the order in which it came", 24, func([]int) {}, false},
		{"too few", 12, slices.Reverse[[]int], false},
		{"the first block first, then from the end", 24, func(ids []int) { slices.Reverse(ids[1:]) }, false},
	} {
		p := newTape(t, false)
		ids := p.times(c.blocks, mib, linear, module, mine)
		p.brief(mib, other, mine)
		at := len(p.events)
		c.order(ids)
		p.free(ids...)
		p.brief(mib, other, mine)
		a := p.follow()
		if got := a.FromItsEnd(at); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if a.FromItsEnd(a.Last) {
			t.Errorf("%s: what stays goes", c.name)
		}
	}
}
