package replay

import (
	"strings"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// cause is why memory went back to the driver.
type cause uint8

const (
	byPressure   cause = iota // a request could not be met otherwise
	byEmptyCache              // the program asked for it
)

// burst is a run of events that give memory back, without anything else
// between them but completed frees.
type burst struct {
	first, last int
	cause       cause
	certain     bool  // a stack says so
	want        int64 // bytes asked of the driver right after it; 0: nothing
	reserved    int64 // before it
	freed       int64 // bytes that go back
	asked       int   // event of that request
	captures    bool  // it is the first of a pool of its own: a CUDA graph's capture empties the cache before
}

// findBursts finds where memory went back to the driver, and why: by the
// stack, where there is one; else by what follows. Under pressure a request of
// the driver follows that had not fitted into what was free; and what is
// beyond the capacity once is never within it later.
func findBursts(t *timeline.Timeline) []burst {
	e := &t.Device.Events
	var list []burst
	causes := stackCauses{s: t.Snapshot, known: map[snapshot.StackID]reason{}}
	before, peak := t.Start.Reserved, t.Start.Reserved
	next := -1                                   // the event that follows the last burst
	pools := make([]bool, len(t.Snapshot.Pools)) // those that something was asked for
	t.ReservedAt(func(i int, reserved int64) {
		switch e.Action[i] {
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			if i != next {
				list = append(list, burst{first: i, reserved: before})
			}
			b := &list[len(list)-1]
			b.last = i
			b.freed += e.Size[i]
			if r := causes.of(e.StackOf(i)); r.certain {
				b.cause, b.certain = r.cause, true
			}
			if next = following(e, i); next < e.Len() && e.Action[next] == snapshot.OOM {
				b.want = unlimited
			}
		default:
			pool := e.PoolOf(i)
			if i == next {
				b := &list[len(list)-1]
				b.want, b.asked, b.captures = e.Size[i], i, pool != 0 && !pools[pool]
			}
			if pool != 0 {
				pools[pool] = true
			}
		}
		before, peak = reserved, max(peak, reserved)
	})
	for i := range list {
		b := &list[i]
		if !b.certain && (b.want == 0 || b.want < unlimited && (b.captures || b.reserved+b.want <= peak || b.hadRoom(e))) {
			b.cause = byEmptyCache
		}
	}
	return list
}

// following is the first event after another that may say why memory went back:
// completed frees may come between.
func following(e *snapshot.Events, i int) int {
	for i++; i < e.Len(); i++ {
		switch e.Action[i] {
		case snapshot.FreeCompleted, snapshot.SnapshotTaken, snapshot.Annotate:
		default:
			return i
		}
	}
	return i
}

// hadRoom tells whether what was asked for next would have found room in a segment
// that went back: then it was the program that gave it back, or a CUDA graph's
// capture, whose requests have a pool of their own.
func (b *burst) hadRoom(e *snapshot.Events) bool {
	next := b.asked + 1
	for next < e.Len() && (e.Action[next] == snapshot.SnapshotTaken || e.Action[next] == snapshot.Annotate) {
		next++
	}
	if next == e.Len() || e.Action[next] != snapshot.Alloc {
		return false
	}
	need := e.Size[next]
	for i := b.first; i <= b.last; i++ {
		if e.Action[i] != snapshot.SegmentFree || e.StreamOf(i) != e.StreamOf(next) {
			continue
		}
		if small := e.Size[i] == smallBuffer; small == (need <= smallSize) && need <= e.Size[i] {
			return true
		}
	}
	return false
}

// reason is what a stack says about memory that went back; certain is false for nothing.
type reason struct {
	cause   cause
	certain bool
}

// stackCauses looks at the stacks that gave memory back, once each.
type stackCauses struct {
	s     *snapshot.Snapshot
	known map[snapshot.StackID]reason
}

func (c *stackCauses) of(id snapshot.StackID) reason {
	r, ok := c.known[id]
	if !ok {
		r = c.look(id)
		c.known[id] = r
	}
	return r
}

func (c *stackCauses) look(id snapshot.StackID) (r reason) {
	for _, f := range c.s.Stack(id) {
		name := c.s.String(c.s.Frames[f].Function)
		switch {
		case name == "empty_cache", strings.Contains(name, "::emptyCache("):
			return reason{byEmptyCache, true}
		case strings.Contains(name, "CachingAllocator") && strings.Contains(name, "::malloc("):
			r = reason{byPressure, true}
		}
	}
	return r
}
