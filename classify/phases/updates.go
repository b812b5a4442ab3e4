package phases

import (
	"cmp"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
)

// Updates tells where iterations end that train.
var Updates = &Signal{
	ID: "updates",
	Doc: `A step ends when the last of its optimizers has stepped, else with its backward pass. How many of them take turns in
a step, as those of a GAN do, shows in the gradients that their passes leave, up to 8 of them, or in what is allocated between
their steps and comes back. A step begins with what the first one began with: evaluations before that belong to the step that
they follow. Rollouts whose results several updates share begin a step of all these updates. Where the program or a profiler
names its steps (ProfilerStep#3, a record_function called step or iteration), these are the steps.`,
	Tells: Steps,
	Find: func(f *facts) found {
		ends := ticks(f)
		if len(ends) == 0 {
			ends = f.ends(meaning.Optimizer)
		}
		if named := namedSteps(f, ends); named != nil {
			return found{starts: named}
		}
		if len(ends) == 0 {
			return found{starts: after(f, f.ends(meaning.Backward))}
		}
		if period := period(f, ends); period > 1 {
			var last []int
			for i := period - 1; i < len(ends); i += period {
				last = append(last, ends[i])
			}
			ends = last
		}
		return found{starts: after(f, ends)}
	},
}

// ticks are the ends of the optimizers' annotated steps, also of those that allocate nothing and so have no event of their
// own.
func ticks(f *facts) (out []int) {
	for _, w := range f.Windows {
		if w.phase == meaning.Optimizer && (!w.fused || w.ends) && w.end < f.Last && (len(out) == 0 || w.end > out[len(out)-1]) {
			out = append(out, w.end)
		}
	}
	return out
}

// period counts how many optimizers take turns within an iteration: by the gradients that their passes leave, else by what is
// allocated between their steps, bytes where they repeat, else numbers. What they allocate themselves is more where one is made
// anew.
func period(f *facts, ends []int) int {
	counts, bytes, grads, passes := make([]int, len(ends)), make([]int, len(ends)), make([]int, len(ends)), make([]int, len(ends))
	from, left, apart := f.Loop, false, true
	for k, e := range ends {
		for i := range f.allocs(from, e) {
			n := int(f.Events.Size[i])
			if f.Phases[i] != meaning.Optimizer {
				counts[k]++
				bytes[k] += n >> 4
			}
			if f.Phases[i] == meaning.Backward {
				passes[k] += n
				if f.Freed(f.Timeline.Of[i]) >= e {
					grads[k], left = grads[k]+n, true
				}
			}
		}
		apart = apart && (passes[k] > 0 || k == 0) // none steps after the backward pass of another
		from = e
	}
	if !left { // they are kept, and added to
		grads = passes
	}
	if apart && oneOptimizer(grads) {
		return 1
	}
	return cmp.Or(recurrence(bytes, 0), recurrence(counts, 20), 1)
}

// recurrence is the shortest distance, up to 4, at which most numbers come back, 0 when there is none; the first ones make
// their state.
func recurrence(numbers []int, part int) int {
	for period := 1; period <= 4; period++ {
		if mostAre(numbers, 2*period, period, part) {
			return period
		}
	}
	return 0
}

// mostAre reports whether three of five numbers, from one on, are those at a distance before them, or differ by less than a
// part of themselves.
func mostAre(numbers []int, from, distance, part int) bool {
	same := 0
	for i := from; i < len(numbers); i++ {
		d := numbers[i] - numbers[i-distance]
		same += AsInt(d == 0 || part > 0 && max(d, -d)*part <= numbers[i])
	}
	return len(numbers) > from && same*5 >= (len(numbers)-from)*3
}

// oneOptimizer tells that what comes back every few steps is no other optimizer's turn but, say, an evaluation: each step has
// its own backward pass, and most leave as many bytes of gradients as the one before.
func oneOptimizer(grads []int) bool { return mostAre(grads, 2, 1, 0) } // the first pass may be another

// after are the events at which steps begin that end with some others; none without ends.
func after(f *facts, ends []int) []int {
	if len(ends) == 0 {
		return nil
	}
	starts, i := []int{f.Loop}, f.Loop
	for _, e := range ends {
		i = max(i, e) // what doesn't begin a step after the end before doesn't after this one
		for i < f.Last && (f.Events.Action[i] != snapshot.Alloc ||
			!meaning.HintOf(f.Phases[i]).Is(meaning.Data, meaning.Forward, meaning.Generate)) {
			i++
		}
		if i < f.Last && i > starts[len(starts)-1] {
			starts = append(starts, i)
		}
	}
	starts = iterations{facts: f}.from(starts)
	if len(starts) > 1 && f.Phases[starts[0]] == meaning.Data && f.Phases[starts[1]] == meaning.Forward {
		for starts[0]+1 < starts[1] && f.Phases[starts[0]] != meaning.Forward { // each step loads the next one's batch
			starts[0]++
		}
	}
	return starts
}
