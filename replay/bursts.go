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
}

// findBursts finds where memory went back to the driver, and why: by the
// stack, where there is one; else by what follows. Under pressure a request of
// the driver follows that had not fitted into what was free; and what is
// beyond the capacity once is never within it later.
func findBursts(t *timeline.Timeline) []burst {
	e := &t.Device.Events
	var list []burst
	causes := stackCauses(t.Snapshot)
	var peak int64
	open := false
	var before int64
	t.Walk(func(i int, now timeline.Levels) {
		switch e.Action[i] {
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			if !open {
				list = append(list, burst{first: i, reserved: before})
				open = true
			}
			b := &list[len(list)-1]
			b.last = i
			b.freed += e.Size[i]
			if c, ok := causes[e.StackOf(i)]; ok {
				b.cause, b.certain = c, true
			}
		case snapshot.FreeCompleted, snapshot.SnapshotTaken, snapshot.Annotate:
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			if open {
				b := &list[len(list)-1]
				b.want, b.asked = e.Size[i], i
			}
			open = false
		case snapshot.OOM:
			if open {
				list[len(list)-1].want = unlimited
			}
			open = false
		default:
			open = false
		}
		peak = max(peak, now.Reserved)
		before = now.Reserved
	})
	for i := range list {
		b := &list[i]
		if !b.certain && (b.want == 0 || b.want < unlimited && (b.reserved+b.want <= peak || b.hadRoom(e))) {
			b.cause = byEmptyCache
		}
	}
	return list
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

// stackCauses finds the stacks that tell why memory went back.
func stackCauses(s *snapshot.Snapshot) map[snapshot.StackID]cause {
	const (
		emptied = 1 << iota
		pressed
	)
	marks := make([]uint8, len(s.Frames))
	for i, f := range s.Frames {
		name := s.String(f.Function)
		switch {
		case name == "empty_cache", strings.Contains(name, "::emptyCache("):
			marks[i] = emptied
		case strings.Contains(name, "CachingAllocator") && strings.Contains(name, "::malloc("):
			marks[i] = pressed
		}
	}
	causes := map[snapshot.StackID]cause{}
	for id := 1; id < s.NumStacks(); id++ {
		var all uint8
		for _, f := range s.Stack(snapshot.StackID(id)) {
			all |= marks[f]
		}
		switch {
		case all&emptied != 0:
			causes[snapshot.StackID(id)] = byEmptyCache
		case all&pressed != 0:
			causes[snapshot.StackID(id)] = byPressure
		}
	}
	return causes
}
