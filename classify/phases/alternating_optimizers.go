package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
)

// period counts how many optimizers take turns within an iteration, by what is
// allocated between their steps: bytes where they repeat, else numbers. What they
// allocate themselves is more where one is made anew.
func (a *Program) period(ends []int) int {
	counts, bytes := make([]int, len(ends)), make([]int, len(ends))
	for k, e := range ends {
		from := a.Loop
		if k > 0 {
			from = ends[k-1]
		}
		for i := from; i < e; i++ {
			if a.Events.Action[i] == snapshot.Alloc && a.Phases[i] != meaning.Optimizer {
				counts[k]++
				bytes[k] += int(a.Events.Size[i] >> 4)
			}
		}
	}
	if p := recurrence(bytes, 0); p > 0 {
		return p
	}
	if p := recurrence(counts, 20); p > 0 {
		return p
	}
	return 1
}

// recurrence is the shortest distance, up to 4, at which most numbers come back,
// 0 when there is none. Numbers are equal when they differ by less than a
// part of themselves; with part 0 when they are the same.
func recurrence(numbers []int, part int) int {
	for period := 1; period <= 4; period++ {
		same, total := 0, 0
		for i := 2 * period; i < len(numbers); i++ { // the first ones make their state
			total++
			d := numbers[i] - numbers[i-period]
			if d == 0 || part > 0 && max(d, -d)*part <= numbers[i] {
				same++
			}
		}
		if total > 0 && same*5 >= total*3 {
			return period
		}
	}
	return 0
}

// oneOptimizer tells that what comes back every few steps is no other optimizer's
// turn but, say, an evaluation: each step has its own backward pass, and most leave
// as many bytes of gradients as the one before.
func (a *Program) oneOptimizer(ends []int) bool {
	const most = 3 // of five
	grads, passes := make([]int64, len(ends)), make([]int64, len(ends))
	left := false
	for k, e := range ends {
		from := a.Loop
		if k > 0 {
			from = ends[k-1]
		}
		for i := from; i < e; i++ {
			if a.Events.Action[i] != snapshot.Alloc || a.Phases[i] != meaning.Backward {
				continue
			}
			id := a.Timeline.Of[i]
			passes[k] += a.Timeline.Requested(id)
			if a.Freed(id) >= e {
				grads[k] += a.Timeline.Requested(id)
				left = true
			}
		}
		if passes[k] == 0 && k > 0 { // steps after the backward pass of another
			return false
		}
	}
	if !left { // they are kept, and added to
		grads = passes
	}
	same, total := 0, 0
	for k := 2; k < len(ends); k++ { // the first pass may be another
		total++
		if grads[k] == grads[k-1] {
			same++
		}
	}
	return total > 0 && same*5 >= total*most
}
