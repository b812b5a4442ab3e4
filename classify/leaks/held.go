package leaks

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// fewHeld is how many blocks a variable that grows holds at least.
const fewHeld = 6

// gathered is all that was recorded, as what variables may gather.
type gathered struct{ *loop }

// heldLeaks are variables in which each look found more than the one before, and into which as much went until the
// recording's end: that shows a leak where no steps were recognised, too.
func heldLeaks(c *meaning.Result, view *frames.View, holders []names.Holder) (found []Leak) {
	const most = 16 // variables, those with the most allocations
	grown := slices.DeleteFunc(slices.Clone(holders), func(h names.Holder) bool {
		return !h.Grew || h.Bound > 0 && h.Elements == h.Bound
	})
	if len(grown) == 0 {
		return nil
	}
	slices.SortStableFunc(grown, func(a, b names.Holder) int {
		return len(b.Tensors) + len(b.Graph) - len(a.Tensors) - len(a.Graph)
	})
	l := gathered{loopOf(c, view, wholeWindow(c))}
	for i := range grown[:min(len(grown), most)] {
		kept := l.keptIn(&grown[i])
		leak := Leak{Kind: GrowingList}
		inStep := map[int32]int64{} // bytes
		for _, s := range kept {
			leak.TotalBytes += l.bytes(s.id)
			inStep[c.Step[s.id]] += l.bytes(s.id)
		}
		if len(kept) < fewHeld || !l.works(kept) || leak.TotalBytes < smallTotal ||
			leak.TotalBytes*100 < smallPart*l.t.Peaks.Allocated.Bytes {
			continue
		}
		delete(inStep, -1)
		left := slices.Sorted(maps.Values(inStep))
		if n := len(left); n > 4 && 2*left[1] >= left[n-2] && n*4 >= len(c.Steps)*3 {
			leak.Steps, leak.BytesPerStep = n, left[n/2]
		}
		l.describe(&leak, kept)
		leak.Site, leak.stack = l.keeper(GrowingList, pace{alive: kept})
		leak.Confidence = confidence(len(kept), 1, leak.File != "")
		l.judge(&leak)
		leak.Suspected, leak.Defect = leak.Confidence < 0.9, true
		found = append(found, leak)
	}
	return found
}

// keptIn is what was put into a variable, by what looks found there, and what was made after the last of them as that
// was; none unless all that stays to the last request, and some of it comes in each third of the time since the first.
func (l gathered) keptIn(h *names.Holder) (kept []survivor) {
	request := l.lastRequest()
	ids := slices.Sorted(slices.Values(slices.Concat(h.Tensors, h.Graph)))
	like := map[place]bool{}
	for _, id := range ids {
		if like[placeOf(l.loop, id)] = true; l.stays(id, request) {
			kept = append(kept, survivor{id, 0, 1})
		}
	}
	if len(kept) == 0 || len(kept)*10 < len(ids)*9 { // one that lets go of old elements
		return nil
	}
	for id := ids[len(ids)-1] + 1; int(id) < l.t.Len(); id++ {
		if like[placeOf(l.loop, id)] && l.stays(id, request) {
			kept = append(kept, survivor{id, 0, 1})
		}
	}
	var thirds [3]int
	from := kept[0].id
	for _, s := range kept {
		thirds[3*int(s.id-from)/(l.t.Len()-int(from))]++
	}
	if slices.Min(thirds[:])*6 < len(kept) {
		return nil
	}
	return kept
}

// works reports whether the program did more than fill a variable, as it does with data that is loaded: half as many blocks
// have come and gone since.
func (l gathered) works(kept []survivor) bool {
	gone := 0
	for id := kept[0].id; int(id) < l.t.Len() && gone < len(kept); id++ {
		if freed := l.t.FreeRequested[id]; freed != timeline.Never && freed != timeline.Before {
			gone++
		}
	}
	return 2*gone >= len(kept)
}

// stays reports whether an allocation is still there when the last one is made.
func (l gathered) stays(id timeline.AllocationID, request uint32) bool {
	freed := l.t.FreeRequested[id]
	return freed == timeline.Never || freed != timeline.Before && freed > request
}

// letsGo reports whether what seems to pile up, by its sizes alone, lies in a variable that has let go of most that looks
// found there: a window of the newest.
func letsGo(c *meaning.Result, leak *Leak, holders []names.Holder) bool {
	if leak.Kind != GrowingList || leak.File != "" || len(holders) == 0 {
		return false
	}
	l := gathered{&loop{c: c, t: c.Timeline}}
	request, kept := l.lastRequest(), map[timeline.AllocationID]bool{}
	for _, id := range leak.Allocations {
		kept[id] = true
	}
	most, gone := 0, false
	for i := range holders {
		inside, left, all := 0, 0, 0
		for _, id := range slices.Concat(holders[i].Tensors, holders[i].Graph) {
			all++
			if kept[id] {
				inside++
			}
			if l.stays(id, request) {
				left++
			}
		}
		if inside > most {
			most, gone = inside, 2*left < all
		}
	}
	return gone
}
