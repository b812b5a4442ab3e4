package leaks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// joint is a tensor that a line makes again in step after step, each larger than
// the one whose place it takes.
type joint struct {
	ids         []timeline.AllocationID
	steps       []int
	least, most int64 // requested bytes that one has more than the one before
}

// joined finds what a program joins anew in every step (torch.cat): no tensor
// stays, but what they hold does. It needs stacks.
func (l *loop) joined() []Leak {
	const fewest = 4 // that follow each other
	var open []*joint
	looks := 4 << 20 // at allocations, in all
	n := l.t.Snapshot.NumStacks() + 1
	of, seen := make([]*joint, n), make([]bool, n) // by StackID
	for id, step := range l.all() {
		switch l.c.Category[id] {
		case meaning.Temporary, meaning.Inputs, meaning.Unknown:
		default:
			continue
		}
		stack := l.t.Stack(id)
		if l.t.Requested(id) < smallGrowth || stack == 0 {
			continue
		}
		if !seen[stack] {
			seen[stack] = true
			if l.ownLine(stack) {
				of[stack] = &joint{}
				open = append(open, of[stack])
			}
		}
		j := of[stack]
		if j == nil {
			continue
		}
		if !j.goesOn(l, id, step, &looks) {
			*j = joint{}
		}
		j.ids, j.steps = append(j.ids, id), append(j.steps, step)
	}
	var leaks []Leak
	for _, j := range open {
		n := len(j.ids)
		if n < fewest {
			continue
		}
		apart := (j.steps[n-1] - j.steps[0]) / (n - 1)
		last := j.ids[n-1]
		perStep := j.least / int64(max(1, apart))
		if j.steps[n-1]+apart < l.n-1 || perStep < smallGrowth || l.bytes(last) < smallTotal { // it has stopped
			continue
		}
		steps := max(n, j.steps[n-1]-j.steps[0]+apart) // also those between concatenations
		leak := Leak{Kind: GrowingList, Steps: steps, BytesPerStep: perStep, TotalBytes: l.bytes(last)}
		kept := make([]survivor, n)
		for i, id := range j.ids {
			kept[i] = survivor{id, int32(j.steps[i]), int32(l.n)}
		}
		l.describe(&leak, kept)
		leak.Site, leak.stack = l.keeper(GrowingList, pace{alive: kept})
		leak.Site.Bytes = leak.TotalBytes
		leak.Confidence = confidence(n, 1, leak.File != "")
		leak.Joined = true
		leaks = append(leaks, leak)
	}
	return leaks
}

// goesOn reports whether an allocation takes the place of the last one, in a later
// step, and is larger by something that is there, about as large as the time
// before: batches of growing sizes take each other's place, too.
func (j *joint) goesOn(l *loop, id timeline.AllocationID, step int, looks *int) bool {
	n := len(j.ids)
	if n == 0 {
		return true
	}
	last := j.ids[n-1]
	more := l.t.Requested(id) - l.t.Requested(last)
	died := l.t.FreeRequested[last]
	if step <= j.steps[n-1] || more <= 0 || died == timeline.Never || died < l.t.Born[id] || died > l.last[min(step+1, l.n-1)] {
		return false
	}
	if !l.there(more, last, id, looks) {
		return false
	}
	if j.most == 0 {
		j.least, j.most = more, more
	}
	j.least, j.most = min(j.least, more), max(j.most, more)
	return j.most <= 2*j.least
}

// there reports whether something of a size that was made after one allocation was
// alive when another was made.
func (l *loop) there(size int64, after, id timeline.AllocationID, looks *int) bool {
	for k := id - 1; k > after && *looks > 0; k-- {
		*looks--
		if l.t.Requested(k) == size && l.t.FreeRequested[k] > l.t.Born[id] {
			return true
		}
	}
	return false
}

// ownLine reports whether the innermost Python frame of a stack is the user's.
func (l *loop) ownLine(stack snapshot.StackID) bool {
	for _, f := range l.t.Snapshot.Stack(stack) {
		if l.view.Language(f) == frames.Python {
			return l.view.Owner(f) == frames.User
		}
	}
	return false
}
