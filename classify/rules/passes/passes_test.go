package passes

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

const kib = 1 << 10

// asked is a block of a program, and what a rule says of it.
type asked struct {
	name string
	tell func(p *phased.Program) (block int)   // after a model was made
	also func(a *phases.Program, b, freed int) // changes facts that no event tells; nil: none
	want rules.Claim
}

var (
	none      = rules.Claim{}
	temporary = rules.As(meaning.Temporary, rules.Guess)
	saved     = rules.As(meaning.Activations, rules.Guess)
)

// check asks a rule about the block of each program.
func check(t *testing.T, r *rules.Rule, rows []asked) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			block := c.tell(p)
			a := p.Follow()
			if c.also != nil {
				c.also(a, block, a.Freed(a.Timeline.Of[block]))
			}
			if got := phased.Ask(r, a, block); got != c.want {
				t.Errorf("%v %v %d, want %v %v %d", got.Category, got.Detail, got.Sure, c.want.Category, c.want.Detail, c.want.Sure)
			}
		})
	}
}

// model makes weights, four events; the last one is as small as others are by chance.
func model(p *phased.Program) {
	p.In(meaning.Setup)
	p.Make(600*kib, 2)
	p.Make(800*kib, 1)
	p.Make(60*kib, 1)
}

// life is a block that is made in one phase and goes in another, after so many other blocks.
func life(made meaning.Phase, size int64, others int, gone meaning.Phase, rest ...meaning.Phase) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(made)
		b := p.Make(size, 1)[0]
		p.Make(7*kib, others)
		p.In(gone)
		p.Free(b)
		return b + after(p, rest)
	}
}

// kept is a block that stays.
func kept(made meaning.Phase, size int64, rest ...meaning.Phase) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(made)
		return p.Make(size, 1)[0] + after(p, rest)
	}
}

// after goes through phases, in each of which there is some work.
func after(p *phased.Program, rest []meaning.Phase) int {
	for _, phase := range rest {
		p.In(phase)
		p.Work(9 * kib)
	}
	return 0
}

// by has the stack of a block, and those of all that follows, show something.
func by(marks frames.Marks, tell func(p *phased.Program) int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.By(marks)
		return tell(p)
	}
}

// older has the recording begin after a block was made.
func older(tell func(p *phased.Program) int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.Older(40 * kib)
		return tell(p)
	}
}

// failed has a request fail so many events after the block's birth.
func failed(behind int) func(a *phases.Program, b, freed int) {
	return func(a *phases.Program, b, _ int) { a.OOMs = []int{b + behind} }
}

// untrained has the pass in which the block is made be one of a validation, which ends so many events before it goes.
func untrained(before int) func(a *phases.Program, b, freed int) {
	return func(a *phases.Program, b, freed int) {
		a.Untrained = [][]meaning.Step{{{FirstEvent: b, LastEvent: freed - before}}}
	}
}

const (
	data, forward, backward, update = meaning.Data, meaning.Forward, meaning.Backward, meaning.Optimizer
	clearing, generate, other       = meaning.ZeroGrad, meaning.Generate, meaning.OtherPhase
)

func TestMask(t *testing.T) {
	check(t, MaskInForward, []asked{
		{"kept", by(frames.Mask, kept(forward, 5*kib)), nil, temporary},
		{"kept, of generation", by(frames.Mask, kept(generate, 5*kib, forward)), nil, temporary},
		{"kept, of a batch", by(frames.Mask, kept(data, 5*kib, forward)), nil, none},
		{"kept, by other code", by(frames.MatMul, kept(forward, 5*kib)), nil, none},
		{"gone", by(frames.Mask, life(forward, 5*kib, 2, forward)), nil, none},
		{"gone with a failure", by(frames.Mask, life(forward, 5*kib, 2, forward)), failed(3), temporary},
		{"gone one event before a failure", by(frames.Mask, life(forward, 5*kib, 2, forward)), failed(4), none},
		{"made right after a failure", by(frames.Mask, life(forward, 5*kib, 2, forward)), failed(0), none},
	})
}

func TestUnfinishedBackward(t *testing.T) {
	gradient := rules.As(meaning.Gradients, rules.Plausible)
	check(t, UnfinishedBackward, []asked{
		{"of no weight's size", kept(backward, 5*kib), nil, temporary},
		{"of a weight's size", kept(backward, 600*kib), nil, gradient},
		{"one byte larger", kept(backward, 600*kib+1), nil, temporary},
		{"gone at last", life(backward, 600*kib, 3, backward), nil, none},
		{"the pass ends", kept(backward, 600*kib, update), nil, none},
		{"in forward", kept(forward, 600*kib), nil, none},
	})
}

func TestBatch(t *testing.T) {
	batch := func(sure uint8) rules.Claim { return rules.As(meaning.Inputs, sure) }
	step := func(before int) func(a *phases.Program, b, freed int) { // ends so many events before the block goes
		return func(a *phases.Program, b, freed int) {
			a.Steps = []meaning.Step{{FirstEvent: b, LastEvent: freed - before}}
		}
	}
	check(t, BatchByLife, []asked{
		{"used by a pass", life(data, 5*kib, 2, forward), step(0), batch(rules.Likely)},
		{"in a recording that begins in a step", older(life(data, 5*kib, 2, forward)), step(0), batch(rules.Likely)},
		{"with stacks", by(0, life(data, 5*kib, 2, forward)), step(1), batch(rules.Likely)},
		{"with stacks, in a recording that begins in a step", older(by(0, life(data, 5*kib, 2, forward))), step(0),
			batch(rules.Plausible)},
		{"zeros of a step", by(frames.Filled, life(data, 5*kib, 2, forward)), step(0), batch(rules.Likely)},
		{"zeros for one event longer", by(frames.Filled, life(data, 5*kib, 2, forward)), step(1), temporary},
		{"zeros before all steps", by(frames.Filled, life(data, 5*kib, 2, forward)), func(a *phases.Program, b, freed int) {
			step(1)(a, b, freed)
			a.Step[a.Timeline.Of[b]] = -1
		}, batch(rules.Likely)},
		{"made in forward", life(forward, 5*kib, 2, forward), step(0), none},
	})
}

// TestCleared steps an optimizer within a backward pass, which only named ranges tell.
func TestCleared(t *testing.T) {
	const mib = kib * kib
	s := &snapshot.Snapshot{Strings: []string{"", "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"}}
	within := func(name snapshot.StringID, first, last int) {
		s.Annotations = append(s.Annotations, snapshot.Annotation{Start: true, Name: name, TimeUS: int64(first)},
			snapshot.Annotation{Name: name, TimeUS: int64(last)})
	}
	p := &phased.Program{}
	p.Make(12*mib, 1)
	p.Make(20*mib, 1)
	p.Make(28*mib, 1)
	var layers []int
	for k := range int64(6) {
		layers = append(layers, p.Make((5+k)*mib, 1)...)
		p.Work(3 * mib)
	}
	root := p.Make(4, 1)
	var cleared, used, let int
	for k := range 6 {
		p.Work(5 * mib)
		cleared, used, let = p.Make(12*mib, 1)[0], p.Make(20*mib, 1)[0], p.Make(28*mib, 1)[0]
		p.Free(layers[5-k])
		work := p.Make(mib, 1)[0]
		p.Free(work, used)
		within(1, work, work+4)
		p.Free(cleared)
		within(2, work+5, work+6)
		p.Free(let)
	}
	p.Free(root...)
	p.Work(mib, mib)
	s.Devices = []snapshot.Device{{Events: *p.Follow().Events}}
	events := &s.Devices[0].Events
	for i := range events.Action {
		events.TimeUS = append(events.TimeUS, int64(i))
	}
	a := phases.Follow(timeline.New(s, &s.Devices[0]), phases.Gather(s, &s.Devices[0]))
	gradient := rules.As(meaning.Gradients, rules.Strong)
	for _, c := range []struct {
		name  string
		block int
		want  rules.Claim
	}{
		{"by a zero_grad", cleared, gradient}, {"by a step", used, none}, {"by the pass", let, none}, {"in forward", layers[0], none},
	} {
		if got := phased.Ask(ClearedInBackward, a, c.block); got != c.want {
			t.Errorf("gone %s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCutByFailure(t *testing.T) {
	check(t, CutByFailure, []asked{
		{"gone with a failure", life(forward, 5*kib, 2, forward), failed(3), saved},
		{"gone one event before a failure", life(forward, 5*kib, 2, forward), failed(4), none},
		{"made right after a failure", life(forward, 5*kib, 2, forward), failed(0), none},
		{"kept", kept(forward, 5*kib, forward), failed(1), saved},
		{"nothing fails", life(forward, 5*kib, 2, forward), nil, none},
		{"a backward pass comes later", life(forward, 5*kib, 2, forward, backward), failed(1), saved},
		{"a backward pass comes to it", life(forward, 5*kib, 2, backward), failed(1), none},
		{"in generation", life(generate, 5*kib, 2, forward), failed(3), none},
	})
}

func TestHeldAtEnd(t *testing.T) {
	check(t, HeldAtEnd, []asked{
		{"kept", kept(forward, 5*kib), nil, rules.As(meaning.Activations, rules.Guess-10)},
		{"kept after the last backward pass", func(p *phased.Program) int {
			after(p, []meaning.Phase{forward, backward})
			return kept(forward, 5*kib)(p)
		}, nil, rules.As(meaning.Activations, rules.Guess-10)},
		{"kept, of a validation", kept(forward, 5*kib), untrained(1), temporary},
		{"gone at last", life(forward, 5*kib, 2, forward), nil, none},
		{"a backward pass comes", kept(forward, 5*kib, backward), nil, none},
		{"a batch", kept(data, 5*kib), nil, none},
	})
}

// dropped makes blocks of some sizes in a pass, and lets go of all at once, the last first or the first.
func dropped(blocks int, kinds int64, inOrder bool) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(forward)
		var made, gone []int
		for k := range int64(blocks) {
			made = append(made, p.Make((10+k%kinds)*kib, 1)...)
		}
		for k := range made {
			if !inOrder {
				k = len(made) - 1 - k
			}
			gone = append(gone, made[k])
		}
		p.Free(gone...)
		return made[3]
	}
}

// trained goes through a pass with its backward pass first.
func trained(tell func(p *phased.Program) int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		after(p, []meaning.Phase{forward, backward})
		return tell(p)
	}
}

// besides works so many times after that.
func besides(n int, tell func(p *phased.Program) int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		b := tell(p)
		for range n {
			p.Work(3 * kib)
		}
		return b
	}
}

func TestFreedWithGraph(t *testing.T) {
	likely := rules.As(meaning.Activations, rules.Likely)
	check(t, FreedWithGraph, []asked{
		{"16 at once", dropped(16, 8, false), nil, likely},
		{"15 at once", dropped(15, 8, false), nil, none},
		{"in the order of birth, as variables go", dropped(16, 8, true), nil, none},
		{"all of a size, as a list goes", dropped(16, 1, false), nil, none},
		{"a quarter of what forward makes", besides(48, dropped(16, 8, false)), nil, likely},
		{"less than a quarter", besides(49, dropped(16, 8, false)), nil, none},
		{"by a failure", dropped(16, 8, false), failed(13), rules.As(meaning.Activations, rules.Plausible)},
		{"one by one", besides(60, life(forward, 5*kib, 2, forward)), nil, none},
	})
}

func TestGradient(t *testing.T) {
	gradient := func(sure uint8) rules.Claim { return rules.As(meaning.Gradients, sure) }
	in := func(size int64) func(p *phased.Program) int { return kept(backward, size, update) }
	check(t, GradientByLife, []asked{
		{"of a weight's size", in(600 * kib), nil, gradient(rules.Strong)},
		{"one byte larger", in(600*kib + 1), nil, gradient(rules.Guess)},
		{"one byte larger, in a recording that begins later", older(in(600*kib + 1)), nil, gradient(rules.Strong)},
		{"twice as large", in(1600 * kib), nil, gradient(rules.Likely)},
		{"half as large", in(300 * kib), nil, gradient(rules.Likely)},
		{"a scalar", in(8), nil, gradient(rules.Likely)},
		{"larger than a scalar", in(9), nil, gradient(rules.Guess)},
		{"of no weight's size, by torch", by(frames.MatMul, in(5*kib)), nil, gradient(rules.Guess)},
		{"of no weight's size, by a hook", by(frames.UserInner, in(5*kib)), nil, rules.As(meaning.Temporary, rules.Likely)},
		{"of a weight's size, by a hook", by(frames.UserInner, in(600*kib)), nil, gradient(rules.Strong)},
		{"made in forward", kept(forward, 600*kib, backward), nil, none},
	})
}

// multiples are the largest weight so many times as large, in KiB.
func multiples(from, to int64) (kibs []int64) {
	for times := from; times < to; times++ {
		kibs = append(kibs, 800*times)
	}
	return kibs
}

// TestGradientOfSample: blocks that are so many times as large as each weight.
func TestGradientOfSample(t *testing.T) {
	claim := rules.As(meaning.Gradients, rules.Likely+1)
	of := func(in meaning.Phase, then func(p *phased.Program, made []int), sizes ...int64) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			p.In(in)
			p.Free(p.Make(800*kib*5, 1)...) // a product on the way
			var made []int
			for _, n := range sizes {
				made = append(made, p.Make(n*kib, 1)...)
			}
			then(p, made)
			return made[len(made)-1]
		}
	}
	clip := func(p *phased.Program, made []int) {
		p.In(other)
		p.Work(9 * kib)
		p.Free(made...)
		after(p, []meaning.Phase{update, forward, backward, update})
	}
	check(t, GradientOfSample, []asked{
		{"five times all", of(backward, clip, 600*5, 300, 600*5, 800*5), nil, claim},
		{"all as large as weights", of(backward, clip, 600, 60, 600, 800), nil, none},
		{"one is missing", of(backward, clip, 600*5, 300, 800*5), nil, none},
		{"the smallest is missing", of(backward, clip, 600*5, 600*5, 800*5), nil, none},
		{"others times as large", of(backward, clip, 600*5, 300, 600*4, 800*5), nil, none},
		{"one after the other", of(backward, func(p *phased.Program, made []int) {
			p.Free(made[0])
			p.Make(600*5*kib, 1)
		}, 600*5, 300, 800*5), nil, none},
		{"among many that are larger", of(backward, clip, append(multiples(6, 200), 600*5, 300, 600*5, 800*5)...), nil, claim},
		{"among too many that are smaller", of(backward, clip, append(multiples(2, 200), 600*300, 60*300, 600*300, 800*300)...), nil,
			none},
		{"made in forward", of(forward, clip, 600*5, 300, 600*5, 800*5), nil, none},
		{"in a pass that may be backward", of(forward, clip, 600*5, 300, 600*5, 800*5), func(a *phases.Program, _, _ int) {
			a.Trains, a.Updates = false, true
		}, claim},
	})
}

func TestKeptWithoutGraph(t *testing.T) {
	several := func(n int) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			p.In(forward)
			return p.Make(5*kib, n)[0]
		}
	}
	check(t, KeptWithoutGraph, []asked{
		{"15 are kept", several(15), nil, temporary},
		{"16 are kept, as a graph is", several(16), nil, none},
		{"16 beside many that go", besides(49, several(16)), nil, temporary},
		{"gone at last", life(forward, 5*kib, 2, forward), nil, none},
		{"in a program that trains", trained(several(15)), nil, none},
		{"in setup", kept(meaning.Setup, 5*kib), nil, none},
	})
}

func TestOutlivesBackward(t *testing.T) {
	beside := func(released int, rest ...meaning.Phase) func(p *phased.Program) int { // beside blocks that the pass frees
		return func(p *phased.Program) int {
			p.In(forward)
			b := p.Make(5*kib, 1)[0]
			gone := p.Make(11*kib, released)
			p.In(backward)
			p.Free(gone...)
			return b + after(p, rest)
		}
	}
	later := func(reverse bool) func(p *phased.Program) int { // beside many that the pass frees
		return func(p *phased.Program) int {
			p.In(forward)
			stays := p.Make(5*kib, 20)
			gone := p.Make(11*kib, 200)
			p.In(backward)
			p.Free(gone...)
			b := stays[9]
			p.In(other)
			p.Work(9 * kib)
			if reverse {
				slices.Reverse(stays)
			}
			p.Free(stays...)
			return b + after(p, []meaning.Phase{update})
		}
	}
	loads := func(a *phases.Program, b, _ int) { a.Loads = map[snapshot.StackID]bool{a.Events.StackOf(b): true} }
	check(t, OutlivesBackward, []asked{
		{"beside five that go", beside(5, update), nil, temporary},
		{"beside four that go, as of a graph that is kept", beside(4, update), nil, saved},
		{"the recording ends in the pass", beside(5), nil, saved},
		{"a failure comes in its first event", beside(5, update), failed(6), saved},
		{"a failure comes before that", beside(5, update), failed(5), temporary},
		{"a failure comes right after the pass", beside(5, update), failed(16), saved},
		{"a failure comes after that", beside(5, update), failed(17), temporary},
		{"made by a line that loads", by(frames.UserInner, beside(5, update)), loads, rules.As(meaning.Inputs, rules.Plausible)},
		{"gone later, from the end of its graph", later(true), nil, saved},
		{"gone later, in the order in which it came", later(false), nil, temporary},
		{"gone before the pass", life(forward, 5*kib, 2, forward, backward, update), nil, none},
		{"gone in its first event", life(forward, 5*kib, 0, backward, update), nil, temporary},
		{"without a backward pass", kept(forward, 5*kib, update), nil, none},
	})
}

// again makes blocks of some sizes in forward and once more in backward, where they go once the pass has gone on.
func again(sizes []int64, saves int, end func(p *phased.Program, made []int)) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(forward)
		p.Work(sizes...)
		saved := p.Make(90*kib, saves)
		p.In(backward)
		var made []int
		for _, n := range sizes {
			made = append(made, p.Make(n, 1)...)
		}
		p.Free(saved...)
		end(p, made)
		return made[2] + after(p, []meaning.Phase{update})
	}
}

// goesOn frees what was made again before the pass ends.
func goesOn(p *phased.Program, made []int) {
	p.Free(made...)
	p.Work(5 * kib)
}

var (
	six  = []int64{21 * kib, 22 * kib, 23 * kib, 24 * kib, 25 * kib, 26 * kib}
	five = six[:5]
)

func TestRecomputed(t *testing.T) {
	claim := func(sure uint8) rules.Claim { return rules.KindOf(meaning.Activations, meaning.Recomputed, sure) }
	sized := claim(rules.Likely + 2)
	sixth := func(n int64) []int64 { return slices.Concat(five, []int64{n}) }
	check(t, RecomputedInBackward, []asked{
		{"six sizes come back", again(six, 0, goesOn), nil, sized},
		{"five sizes", again(five, 0, goesOn), nil, none},
		{"the sixth is a scalar", again(sixth(64), 0, goesOn), nil, none},
		{"the sixth is larger than that", again(sixth(65), 0, goesOn), nil, sized},
		{"the sixth is a workspace", again(sixth(1<<20), 0, goesOn), nil, none},
		{"forward saves one less", again(six, 5, goesOn), nil, sized},
		{"forward saves as many", again(six, 6, goesOn), nil, none},
		{"gone within the sizes", func(p *phased.Program) int {
			p.In(forward)
			p.Work(six...)
			p.In(backward)
			p.Make(six[0], 1)
			b := p.Make(six[1], 1)[0]
			p.Make(six[2], 1)
			p.Free(b)
			made := p.Make(six[3], 1)
			for _, n := range six[4:] {
				made = append(made, p.Make(n, 1)...)
			}
			goesOn(p, made)
			return b + after(p, []meaning.Phase{update})
		}, nil, none},
		{"and go after others", again(sixth(26*kib), 0, func(p *phased.Program, made []int) {
			p.Work(31*kib, 32*kib, 33*kib, 34*kib, 35*kib, 36*kib)
			goesOn(p, made)
		}), nil, sized},
		{"gone after the pass", again(six, 0, func(p *phased.Program, made []int) {
			p.Work(5 * kib)
			p.In(update)
			p.Free(made...)
		}), nil, none},
	})

	stacked := func(made, gone frames.Marks, others int) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			p.In(backward)
			p.By(made)
			b := p.Make(5*kib, 1)[0]
			p.By(gone)
			p.Make(7*kib, others)
			p.Free(b)
			p.Work(5 * kib)
			return b
		}
	}
	frees := func(a *phases.Program, _, _ int) { a.Recorded.Frees = true }
	const layer, engine = frames.Rebuild, frames.Rebuild | frames.Nested
	check(t, RecomputedInBackward, []asked{
		{"by a layer, gone by the engine", stacked(layer, engine, 2), frees, claim(rules.Likely + 5)},
		{"by a layer, gone by it", stacked(layer, layer, 2), frees, none},
		{"by a layer, gone without a stack", stacked(layer, layer, 2), func(a *phases.Program, b, freed int) {
			frees(a, b, freed)
			a.Events.Stack[freed] = 0
		}, claim(rules.Likely + 5)},
		{"by a layer, gone by the next event but one", stacked(layer, engine, 1), frees, none},
		{"by the engine", stacked(engine, engine, 2), frees, none},
		{"by other code", stacked(frames.MatMul, engine, 2), frees, none},
		{"with C++ frames, which other rules read", stacked(layer, engine, 2), func(a *phases.Program, b, freed int) {
			frees(a, b, freed)
			a.Recorded.Native = true
		}, none},
		{"frees have no stacks, after work of the engine", stacked(layer, engine, 2), nil, claim(rules.Likely)},
		{"sizes come back", by(0, again(six, 0, goesOn)), frees, none},
	})
}

func TestResultOfPass(t *testing.T) {
	result, batch := rules.As(meaning.Temporary, rules.Plausible), rules.As(meaning.Inputs, rules.Guess)
	step := func(early, events int) func(a *phases.Program, b, freed int) { // begins before the block's birth
		return func(a *phases.Program, b, _ int) {
			a.Steps = []meaning.Step{{FirstEvent: b - early, LastEvent: b - early + events}}
		}
	}
	ten := life(forward, 5*kib, 9, forward)
	check(t, ResultOfPass, []asked{
		{"more than a third of a step", ten, step(1, 29), result},
		{"a third of it", ten, step(1, 30), none},
		{"from the first event on", ten, step(0, 29), batch},
		{"from the first event on, in a recording that begins later", older(ten), step(0, 29), result},
		{"with stacks", by(0, ten), step(1, 29), none},
		{"before all steps", ten, func(a *phases.Program, b, _ int) { a.Step[a.Timeline.Of[b]] = -1 }, none},
		{"in a program that trains", trained(ten), step(1, 29), none},
		{"beyond its validation", trained(ten), untrained(1), result},
		{"up to the end of its validation", trained(ten), untrained(0), none},
		{"beyond its validation, into a backward pass", life(forward, 5*kib, 9, backward), untrained(1), none},
		{"beyond its validation, as a batch", trained(life(data, 5*kib, 9, forward)), untrained(1), none},
	})
}

func TestSavedForBackward(t *testing.T) {
	alone, cast := rules.As(meaning.Activations, rules.Strong-3), rules.As(meaning.Activations, rules.Likely)
	last := func(size int64, more int) func(p *phased.Program) int { // goes so many events before the pass ends
		return func(p *phased.Program) int {
			b := life(forward, size, 2, backward)(p)
			p.Make(5*kib, more)
			return b + after(p, []meaning.Phase{update})
		}
	}
	check(t, SavedForBackward, []asked{
		{"freed by the pass", last(5*kib, 0), nil, alone},
		{"made by the program before it", life(meaning.OtherPhase, 5*kib, 2, backward, update), nil, cast},
		{"freed before it", life(forward, 5*kib, 2, forward, backward, update), nil, none},
		{"freed after it", func(p *phased.Program) int {
			p.In(forward)
			b := p.Make(5*kib, 1)[0]
			after(p, []meaning.Phase{backward, update})
			p.Free(b)
			return b
		}, nil, none},
		{"kept", kept(forward, 5*kib, backward, update), nil, none},
		{"kept in the pass in which the recording ends", kept(forward, 5*kib, backward), nil, none},
		{"a scalar that goes last", last(8, 0), nil, temporary},
		{"a scalar that goes before another event", last(8, 1), nil, alone},
		{"larger than a scalar", last(9, 0), nil, alone},
		{"half of a weight, by compiled code", by(frames.Inductor, last(300*kib, 0)), nil, cast},
		{"one byte larger, by compiled code", by(frames.Inductor, last(300*kib+1, 0)), nil, alone},
		{"half of a weight, by other code", by(frames.MatMul, last(300*kib, 0)), nil, alone},
		{"a batch", life(data, 5*kib, 2, backward, update), nil, none},
	})
}

func TestGradientOfGradient(t *testing.T) {
	claim := rules.As(meaning.Activations, rules.Likely)
	later := func(size int64, gone meaning.Phase) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			b := kept(backward, size, forward)(p)
			p.In(gone)
			p.Free(b)
			return b + after(p, []meaning.Phase{update})
		}
	}
	check(t, GradientOfGradient, []asked{
		{"gone in the next pass", later(5*kib, backward), nil, claim},
		{"of a weight's size", later(600*kib, backward), nil, rules.As(meaning.Gradients, rules.Plausible)},
		{"of a weight's size, more than there are weights", func(p *phased.Program) int {
			p.In(backward)
			more := p.Make(600*kib, 2)
			b := p.Make(600*kib, 1)[0]
			p.In(forward)
			p.Work(9 * kib)
			p.In(backward)
			p.Free(append(more, b)...)
			return b + after(p, []meaning.Phase{update})
		}, nil, claim},
		{"gone in a step", later(5*kib, update), nil, none},
		{"kept", kept(backward, 5*kib, forward, backward), nil, none},
		{"made in forward", life(forward, 5*kib, 2, backward, update), nil, none},
	})
}

func TestTemporaryElsewhere(t *testing.T) {
	plausible := rules.As(meaning.Temporary, rules.Plausible)
	beyond := func(size int64) func(p *phased.Program) int { // a training pass
		return func(p *phased.Program) int {
			b := kept(other, size, forward, backward)(p)
			p.In(update)
			p.Free(b)
			return b
		}
	}
	check(t, TemporaryElsewhere, []asked{
		{"there for a pass, by the program's own code", by(frames.UserInner, beyond(5*kib)), nil, rules.As(meaning.Inputs, rules.Guess)},
		{"there for a pass", beyond(5 * kib), nil, plausible},
		{"there for a pass, of a weight's size", by(frames.UserInner, beyond(600*kib)), nil, plausible},
		{"of a zero_grad", life(clearing, 5*kib, 2, clearing), nil, plausible},
		{"of setup", life(meaning.Setup, 5*kib, 2, meaning.Setup), nil, plausible},
		{"kept", kept(other, 5*kib, forward), nil, plausible},
		{"kept, of a weight's size", kept(other, 600*kib, forward), nil, temporary},
		{"kept, one byte larger", kept(other, 600*kib+1, forward), nil, plausible},
		{"kept, of a small weight's size", kept(other, 60*kib, forward), nil, plausible},
		{"gone, of a weight's size", life(other, 600*kib, 2, forward), nil, plausible},
		{"of a pass", life(forward, 5*kib, 2, forward), nil, none},
	})
}

func TestTemporaryInBackward(t *testing.T) {
	alone := rules.As(meaning.Temporary, byLifeAlone)
	check(t, TemporaryInBackward, []asked{
		{"within the pass", life(backward, 5*kib, 9, backward, update), nil, alone},
		{"gone after the pass", life(backward, 5*kib, 2, update), nil, none},
		{"gone after the pass, by the next event but one", life(backward, 5*kib, 1, update), nil, alone},
		{"kept", kept(backward, 5*kib, update), nil, none},
		{"forward saves as much as comes back", again(six, 6, goesOn), nil, rules.As(meaning.Temporary, rules.Plausible)},
		{"forward saves less", again(six, 5, goesOn), nil, alone},
		{"in forward", life(forward, 5*kib, 2, backward), nil, none},
	})
}

func TestTemporaryInForward(t *testing.T) {
	alone := rules.As(meaning.Temporary, byLifeAlone)
	trained := func(tell func(p *phased.Program) int) func(p *phased.Program) int {
		return func(p *phased.Program) int { return tell(p) + after(p, []meaning.Phase{backward}) }
	}
	held := func(before, behind int) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			p.In(forward)
			p.Make(7*kib, before-4)
			b := p.Make(5*kib, 1)[0]
			p.Make(7*kib, behind)
			return b
		}
	}
	among := func(others int) func(p *phased.Program) int {
		return func(p *phased.Program) int {
			p.In(forward)
			ids := p.Make(5*kib, others+1)
			for _, id := range ids {
				p.Free(id)
			}
			return ids[0]
		}
	}
	check(t, TemporaryInForward, []asked{
		{"gone with fifteen others", trained(among(15)), nil, rules.As(meaning.Temporary, rules.Plausible)},
		{"gone with fewer", trained(among(4)), nil, alone},
		{"gone before the pass", trained(life(forward, 5*kib, 2, forward)), nil, alone},
		{"gone in the pass", life(forward, 5*kib, 2, backward), nil, none},
		{"kept", trained(kept(forward, 5*kib)), nil, none},
		{"kept for a quarter of a program without a pass", held(9, 2), nil, alone},
		{"kept for more of it", held(9, 3), nil, temporary},
		{"of a weight's size for 64 events", trained(life(forward, 600*kib, 63, forward)), nil, alone},
		{"of a weight's size for 65 events", trained(life(forward, 600*kib, 64, forward)), nil, temporary},
		{"of a weight's size, with stacks", by(0, trained(life(forward, 600*kib, 64, forward))), nil, alone},
		{"one byte larger", trained(life(forward, 600*kib+1, 64, forward)), nil, alone},
		{"of a small weight's size", trained(life(forward, 60*kib, 64, forward)), nil, alone},
		{"a batch", life(data, 5*kib, 2, forward), nil, none},
	})
}
