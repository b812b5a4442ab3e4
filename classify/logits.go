package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// LogitsOutput marks the scores themselves.
const LogitsOutput = Detail(NumDetails)

// findLogits marks scores over classes, their copies and their gradients: the
// run of equal sizes around a classification loss.
func (a *analysis) findLogits() {
	a.logits = map[timeline.AllocationID]Detail{}
	for r := range a.runs {
		if a.runs[r].phase != Forward {
			continue
		}
		if size := a.lossSize(r); size > 64 {
			a.markForward(r, size)
			if p := a.backwardAfter(r); p != nil {
				a.markBackward(p, size)
			}
		}
	}
}

// lossSize is the size of the log-softmax in a forward pass, 0 when there is
// none to be seen.
func (a *analysis) lossSize(r int) int64 {
	var largest int64
	if a.recorded.allocs {
		for i := a.runs[r].first; i < a.runs[r].end; i++ {
			if a.events.Action[i] == snapshot.Alloc && a.stacks[a.events.StackOf(i)].marks&loss != 0 {
				largest = max(largest, a.events.Size[i])
			}
		}
		if p := a.backwardAfter(r); p != nil {
			for i := p.first; i < p.end; i++ {
				if a.events.Action[i] == snapshot.Alloc && a.stacks[a.events.StackOf(i)].marks&(lossGrad|workspace) == lossGrad {
					largest = max(largest, a.events.Size[i])
				}
			}
		}
		if largest > 0 {
			return largest
		}
		if a.recorded.native {
			return 0
		}
	}
	return a.lossSizeByOrder(r)
}

// lossSizeByOrder sees the loss in the first allocations of backward: the
// gradient of nll_loss and that of log_softmax, of equal size and one after the
// other, and the log-softmax of that size at the end of forward.
func (a *analysis) lossSizeByOrder(r int) int64 {
	p := a.backwardAfter(r)
	if p == nil {
		return 0
	}
	first, last := int64(0), int64(0)
	n := 0
	for i := p.first; i < p.end && n < 6; i++ {
		size := a.events.Size[i]
		if a.events.Action[i] != snapshot.Alloc || size <= 64 {
			continue
		}
		if first != 0 && size != last && size*2 != last && last*2 != size {
			break
		}
		if first == 0 {
			first = size
		}
		last = size
		n++
	}
	if n < 2 {
		return 0
	}
	seen := 0
	for i := a.runs[r].end - 1; i >= a.runs[r].first && seen < 12; i-- {
		size := a.events.Size[i]
		if a.events.Action[i] != snapshot.Alloc || size <= 64 {
			continue
		}
		if size == first || size == last {
			return size
		}
		seen++
	}
	return 0
}

// family tells whether a size is that of the scores in another precision, or
// with the last token cut off.
func family(n, size int64) bool {
	for _, m := range [...]int64{size, size / 2, size * 2, size * 4} {
		if n == m || n > m && n-m <= m/64 || n < m && m-n <= m/64 {
			return true
		}
	}
	return false
}

// markForward marks the scores and their copies: back from the loss to the
// product that made them, and on to the end of forward.
func (a *analysis) markForward(r int, size int64) {
	at := a.lossAt(r, size)
	flat := a.transposed(at, a.runs[r].end, size)
	for i := at; i < a.runs[r].end; i++ {
		if a.events.Action[i] != snapshot.Alloc || flat && (i == at || a.freed(a.t.Of[i]) <= i+2) {
			continue
		}
		if family(a.events.Size[i], size) {
			a.logits[a.t.Of[i]] = LogitsCopy
		}
	}
	for i, budget := at-1, 16; i >= a.runs[r].first && budget > 0; i-- {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		budget--
		n, id := a.events.Size[i], a.t.Of[i]
		e := a.stacks[a.events.StackOf(i)]
		switch {
		case family(n, size) && e.marks&workspace == 0:
			if e.marks&matmul != 0 && e.marks&copying == 0 {
				a.logits[id] = LogitsOutput
				return
			}
			a.logits[id] = LogitsCopy
		case n*16 < size || e.marks&workspace != 0 || cublasSizes[n]:
		default:
			return
		}
	}
}

// lossAt is the log-softmax of a forward pass: the first allocation of its size
// under the loss, without stacks the last of that size that stays.
func (a *analysis) lossAt(r int, size int64) int {
	at := a.runs[r].end
	for i := a.runs[r].end - 1; i >= a.runs[r].first; i-- {
		if a.events.Action[i] != snapshot.Alloc || a.events.Size[i] != size {
			continue
		}
		if a.stacks[a.events.StackOf(i)].marks&loss != 0 {
			at = i
		} else if !a.recorded.allocs && a.freed(a.t.Of[i]) > i+2 {
			return i
		}
	}
	if at == a.runs[r].end { // the loss is compiled: any of that size
		for i := a.runs[r].first; i < a.runs[r].end; i++ {
			if a.events.Action[i] == snapshot.Alloc && a.events.Size[i] == size {
				return i
			}
		}
	}
	return at
}

// transposed tells whether the log-softmax runs over another dimension than the
// last one: it copies its input for that. Its result is no row of scores.
func (a *analysis) transposed(at, end int, size int64) bool {
	next := at + 1
	for next < end && a.events.Action[next] != snapshot.Alloc && a.events.Action[next] != snapshot.FreeRequested {
		next++
	}
	if next >= end || a.events.Action[next] != snapshot.Alloc || a.events.Size[next] != size {
		return false
	}
	return a.freed(a.t.Of[next]) <= next+2 && a.freed(a.t.Of[at]) > next+2
}

// markBackward marks the gradients of the scores.
func (a *analysis) markBackward(p *run, size int64) {
	misses := 0
	for i, budget := p.first, 24; i < p.end && budget > 0; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		budget--
		n, id := a.events.Size[i], a.t.Of[i]
		e := a.stacks[a.events.StackOf(i)]
		switch {
		case e.marks&matmul != 0 && e.marks&workspace == 0:
			return
		case family(n, size):
			a.logits[id] = LogitsGradient
		case n*16 < size || e.marks&(workspace|comm) != 0 || cublasSizes[n]:
		case misses < 2:
			misses++
		default:
			return
		}
	}
}
