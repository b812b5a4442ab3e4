package replay

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Flush is a run of events in which cached memory goes back to the driver, without
// anything else between them but completed frees.
type Flush struct {
	First, Last int   // events
	Freed       int64 // bytes that go back
	Emptied     bool  // the program asked for it, as by torch.cuda.empty_cache(); else a request found no room
	Certain     bool  // a stack says so; else what follows speaks for it
	Reserved    int64 // bytes held before
	Wanted      int64 // bytes asked of the driver right after it; 0: nothing, Unlimited: a request that fails all the same
	Asked       int   // event of that

	captures bool // it is the first of a pool of its own: a CUDA graph's capture empties the cache before
}

// EmptiedCaches are the flushes that the program itself asked for, in one pass over
// the events.
func EmptiedCaches(t *timeline.Timeline) []Flush {
	return slices.DeleteFunc(findFlushes(t), func(f Flush) bool { return !f.Emptied })
}

// Flushes are those for requests that found no room until all that lay in the cache
// went back, and then did: PyTorch counts them among num_alloc_retries.
func Flushes(t *timeline.Timeline) []Flush {
	return slices.DeleteFunc(findFlushes(t), func(f Flush) bool {
		return f.Emptied || f.Wanted == 0 || f.Wanted == allocator.Unlimited
	})
}

// findFlushes finds where memory went back to the driver, and why: by the
// stack, where there is one; else by what follows. Under pressure a request of
// the driver follows that had not fitted into what was free; and what is
// beyond the capacity once is never within it later.
func findFlushes(t *timeline.Timeline) []Flush {
	e := &t.Device.Events
	var list []Flush
	causes := map[snapshot.StackID]cause{} // of stacks that were looked at
	before, peak := t.Start.Reserved, t.Start.Reserved
	next := -1                                   // the event that follows the last flush
	pools := make([]bool, len(t.Snapshot.Pools)) // those that something was asked for
	t.ReservedAt(func(i int, reserved int64) {
		switch e.Action[i] {
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			if i != next {
				list = append(list, Flush{First: i, Reserved: before})
			}
			stack := e.StackOf(i)
			why, known := causes[stack]
			if !known {
				why = causeOn(t.Snapshot, stack)
				causes[stack] = why
			}
			next = list[len(list)-1].goOn(e, i, why)
		default:
			pool := e.PoolOf(i)
			if i == next {
				f := &list[len(list)-1]
				f.Wanted, f.Asked, f.captures = e.Size[i], i, pool != 0 && !pools[pool]
			}
			if pool != 0 {
				pools[pool] = true
			}
		}
		before, peak = reserved, max(peak, reserved)
	})
	for i := range list {
		if f := &list[i]; !f.Certain {
			f.Emptied = f.Wanted == 0 ||
				f.Wanted < allocator.Unlimited && (f.captures || f.Reserved+f.Wanted <= peak || f.hadRoom(e))
		}
	}
	return list
}

// goOn adds event i, for a reason that its stack tells, and gives the one that may say why.
func (f *Flush) goOn(e *snapshot.Events, i int, why cause) (next int) {
	f.Last = i
	f.Freed += e.Size[i]
	if why != unknown {
		f.Emptied, f.Certain = why == emptied, true
	}
	if next = following(e, i); next < e.Len() && e.Action[next] == snapshot.OOM {
		f.Wanted = allocator.Unlimited
	}
	return next
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

// hadRoom reports whether what was asked for next would have found room in a segment
// that went back: then it was the program that gave it back, or a CUDA graph's
// capture, whose requests have a pool of their own.
func (f *Flush) hadRoom(e *snapshot.Events) bool {
	next := f.Asked + 1
	for next < e.Len() && (e.Action[next] == snapshot.SnapshotTaken || e.Action[next] == snapshot.Annotate) {
		next++
	}
	if next == e.Len() || e.Action[next] != snapshot.Alloc {
		return false
	}
	need := e.Size[next]
	for i := f.First; i <= f.Last; i++ {
		if e.Action[i] != snapshot.SegmentFree || e.StreamOf(i) != e.StreamOf(next) {
			continue
		}
		if allocator.RoomIn(e.Size[i], need) {
			return true
		}
	}
	return false
}

// cause is what a stack says about memory that went back.
type cause uint8

const (
	unknown  cause = iota
	pressure       // a request could not be met otherwise
	emptied        // the program asked for it
)

// causeOn is what one stack says.
func causeOn(s *snapshot.Snapshot, id snapshot.StackID) (why cause) {
	for _, f := range s.Stack(id) {
		name := s.String(s.Frames[f].Function)
		switch {
		case name == "empty_cache", strings.Contains(name, "::emptyCache("):
			return emptied
		case strings.Contains(name, "CachingAllocator") && strings.Contains(name, "::malloc("):
			why = pressure
		}
	}
	return why
}
