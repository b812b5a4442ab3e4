package optimizer

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

const kib = 1 << 10

// asked is a block of a program, and what a rule says of it.
type asked struct {
	name string
	tell func(p *phased.Program) (block int) // after setup and a backward pass
	also func(a *phases.Program, b int)      // changes facts that no event tells; nil: none
	want rules.Claim
}

// check asks a rule about the block of each program.
func check(t *testing.T, r *rules.Rule, rows []asked) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.In(meaning.Setup)
			p.Make(600*kib, 2)
			p.Make(60*kib, 1)
			p.In(meaning.Backward)
			p.Work(9 * kib)
			block := c.tell(p)
			a := p.Follow()
			if c.also != nil {
				c.also(a, block)
			}
			if got := phased.Ask(r, a, block); got != c.want {
				t.Errorf("%v %v %d, want %v %v %d", got.Category, got.Detail, got.Sure, c.want.Category, c.want.Detail, c.want.Sure)
			}
		})
	}
}

// made is a block of a step that goes in the last of some phases; without any it stays.
func made(size int64, gone ...meaning.Phase) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(meaning.Optimizer)
		b := p.Make(size, 1)[0]
		for _, phase := range gone {
			p.In(phase)
			p.Work(9 * kib)
		}
		if len(gone) > 0 {
			p.Free(b)
		}
		p.In(meaning.Forward)
		p.Work(9 * kib)
		p.In(meaning.Optimizer)
		p.Work(9 * kib)
		return b
	}
}

// stacked is the same in a recording with stacks.
func stacked(tell func(p *phased.Program) int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.By(0)
		return tell(p)
	}
}

const forward, update = meaning.Forward, meaning.Optimizer

func TestState(t *testing.T) {
	state := func(sure uint8) rules.Claim { return rules.As(meaning.OptimizerState, sure) }
	failed := func(behind int) func(a *phases.Program, b int) {
		return func(a *phases.Program, b int) { a.OOMs = []int{b + behind} }
	}
	named := func(covered meaning.Hint) func(a *phases.Program, b int) {
		return func(a *phases.Program, b int) {
			a.Windows = slices.Grow(a.Windows, 1)[:1]
			a.Covered = make([]meaning.Hint, a.Last)
			a.Covered[b] = covered
		}
	}
	beside := func(size int64, gone ...meaning.Phase) func(p *phased.Program) int { // another block that goes
		return func(p *phased.Program) int {
			p.In(update)
			b := p.Make(600*kib, 1)[0]
			made(size, gone...)(p)
			return b
		}
	}
	check(t, StateByLife, []asked{
		{"kept", made(600 * kib), nil, state(rules.Strong)},
		{"kept by the last step", func(p *phased.Program) int {
			p.In(update)
			return p.Make(600*kib, 1)[0]
		}, nil, state(rules.Strong)},
		{"a scalar", made(8), nil, rules.KindOf(meaning.OptimizerState, meaning.StepCounter, rules.Plausible)},
		{"larger than a scalar", made(9), nil, state(rules.Strong)},
		{"replaced by the next step", made(600*kib, forward, update), nil, state(rules.Plausible)},
		{"of a size that the next step replaces", beside(600*kib, forward, update), nil, state(rules.Plausible)},
		{"of another size", beside(600*kib+1, forward, update), nil, state(rules.Strong)},
		{"of a size that goes before the next step", beside(600*kib, forward), nil, state(rules.Strong)},
		{"of a size that goes in the step", beside(600*kib, update), nil, state(rules.Strong)},
		{"of a size that goes in the next step but one", beside(600*kib, forward, update, forward, update), nil, state(rules.Strong)},
		{"a failure ends the step", made(600 * kib), failed(1), state(rules.Plausible)},
		{"a failure after the step", made(600 * kib), failed(2), state(rules.Strong)},
		{"a failure ends the step, with stacks", stacked(made(600 * kib)), failed(1), state(rules.Strong)},
		{"within a step that is named", made(600 * kib), named(meaning.HintOf(update)), state(rules.Strong)},
		{"outside of steps that are named", made(600 * kib), named(meaning.NoHint), state(rules.Guess)},
		{"outside of them, with stacks", stacked(made(600 * kib)), named(meaning.NoHint), state(rules.Strong)},
	})
}

func TestTemporary(t *testing.T) {
	temporary, gradient := rules.As(meaning.Temporary, rules.Strong), rules.As(meaning.Gradients, rules.Guess)
	check(t, TemporaryInStep, []asked{
		{"gone in the step", made(600*kib, update), nil, temporary},
		{"gone in the pass that follows", made(5*kib, forward), nil, temporary},
		{"gone in the next step", made(5*kib, forward, update), nil, rules.Claim{}},
		{"kept", made(5 * kib), nil, rules.Claim{}},
		{"of a weight's size, gone in the pass", made(600*kib, forward), nil, gradient},
		{"of a weight's size, with stacks", stacked(made(600*kib, forward)), nil, temporary},
		{"one byte larger", made(600*kib+1, forward), nil, temporary},
		{"of a small weight's size", made(60*kib, forward), nil, temporary},
	})
}

// TestBeside: moments that come with a checkpoint, after the weights.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		name           string
		weights, pairs int // of two sizes in turn
		second         int64
		then           func(p *phased.Program, moments []int)
		sure           uint8 // 0: none are found
	}{
		{"eight weights and pairs", 8, 8, 800 * kib, nil, rules.Plausible},
		{"with stacks", 8, 8, 800 * kib, func(p *phased.Program, _ []int) { p.By(0) }, rules.Likely},
		{"seven pairs", 8, 7, 800 * kib, nil, 0},
		{"six weights", 6, 8, 800 * kib, nil, 0},
		{"all of one size", 8, 8, 600 * kib, nil, 0},
		{"steps make state of a size", 8, 8, 800 * kib, func(p *phased.Program, _ []int) {
			p.In(update)
			p.Make(800*kib, 1)
		}, 0},
		{"gone in setup", 8, 8, 800 * kib, func(p *phased.Program, moments []int) {
			p.In(meaning.Setup)
			p.Free(moments...)
		}, 0},
		{"gone in the loop", 8, 8, 800 * kib, func(p *phased.Program, moments []int) { p.Free(moments...) }, rules.Plausible},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.In(meaning.Setup)
			sizes := [...]int64{600 * kib, c.second}
			for k := range c.weights {
				p.Make(sizes[k%2], 1)
			}
			p.Make(5*kib, 1) // a buffer
			var moments, counters []int
			for k := range c.pairs {
				p.Work(4) // no counter
				counters = append(counters, p.Make(4, 1)...)
				moments = append(moments, p.Make(sizes[k%2], 2)...)
			}
			p.In(forward)
			p.Work(9 * kib)
			if c.then != nil {
				c.then(p, moments)
			}
			p.Work(9 * kib)
			a := rules.New(p.Follow())
			want := map[timeline.AllocationID]rules.Claim{}
			if c.sure > 0 {
				for i, b := range moments {
					detail := [...]meaning.Detail{meaning.Moment1, meaning.Moment2}[i%2]
					want[a.Timeline.Of[b]] = rules.KindOf(meaning.OptimizerState, detail, c.sure)
				}
				for _, b := range counters {
					want[a.Timeline.Of[b]] = rules.KindOf(meaning.OptimizerState, meaning.StepCounter, c.sure)
				}
			}
			got := Beside.Of(a)
			if len(got) != len(want) {
				t.Errorf("%d are found, want %d", len(got), len(want))
			}
			for id, claim := range want {
				if got[id] != claim {
					t.Errorf("block %d is %v, want %v", id, got[id], claim)
				}
			}
		})
	}
}
