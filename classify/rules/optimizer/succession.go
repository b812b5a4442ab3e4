package optimizer

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// succession is what one step of an optimizer makes and leaves of one size, and
// what it drops, both in the order of events. Gradients are dropped, too, but
// nothing takes their place.
type succession struct{ made, gone []timeline.AllocationID }

// successions pair what an optimizer's step makes and leaves with what it drops of
// the same size: by allocation, the one before it.
//
// complexity: a scan of each step, with a case for each kind of event.
func successions(a *rules.Facts) map[timeline.AllocationID]timeline.AllocationID {
	before := map[timeline.AllocationID]timeline.AllocationID{}
	lines := innermost(a)
	takes := map[line]line{} // by the line that lets go, the one that makes what takes the place
	for _, r := range a.Runs {
		if r.Phase != meaning.Optimizer {
			continue
		}
		bySize := map[int64]*succession{}
		for i := r.First; i < r.End; i++ {
			id := a.Timeline.Of[i]
			if id == timeline.NoAllocation || a.Timeline.Requested(id) <= phases.Scalar {
				continue
			}
			n := a.Timeline.Requested(id)
			s := bySize[n]
			if s == nil {
				s = &succession{}
				bySize[n] = s
			}
			switch b := a.Born(id); {
			case b == i && a.Freed(id) >= r.End:
				s.made = append(s.made, id)
			case b < r.First && a.Freed(id) == i && (early(a, id) || a.Phase[id] == meaning.Optimizer):
				s.gone = append(s.gone, id)
			}
		}
		var rest []*succession
		for _, n := range slices.Sorted(maps.Keys(bySize)) {
			if s := bySize[n]; !succeedByLine(a, s, before, lines, takes) {
				rest = append(rest, s)
			}
		}
		for _, s := range rest {
			if !succeedAsOthers(a, s, before, lines, takes) {
				succeedByOrder(a, s, before)
			}
		}
	}
	return before
}

// succeedByOrder pairs what goes with what was made last and waits for a place.
func succeedByOrder(a *rules.Facts, s *succession, before map[timeline.AllocationID]timeline.AllocationID) {
	var waiting []timeline.AllocationID
	k := 0
	for _, old := range s.gone {
		for k < len(s.made) && a.Born(s.made[k]) < a.Freed(old) {
			waiting = append(waiting, s.made[k])
			k++
		}
		if w := len(waiting); w > 0 {
			before[waiting[w-1]] = old
			waiting = waiting[:w-1]
		}
	}
}

// succeedByLine pairs what goes with what the same line makes, or, where another
// one made it, by the lines that let go and those that make: an optimizer has its
// moments and weights in one order. It is false where lines don't tell.
//
// complexity: each condition is a reason not to pair by lines.
func succeedByLine(a *rules.Facts, s *succession, before map[timeline.AllocationID]timeline.AllocationID,
	lines func(snapshot.StackID) line, takes map[line]line) bool {
	if len(s.made) < 2 || len(s.gone) == 0 {
		return false
	}
	made, gone := map[line][]timeline.AllocationID{}, map[line][]timeline.AllocationID{}
	for _, id := range s.made {
		at := lines(a.Timeline.Stack(id))
		made[at] = append(made[at], id)
	}
	if len(made) < 2 || len(made[line{}]) > 0 {
		return false
	}
	pairs := map[timeline.AllocationID]timeline.AllocationID{}
	for _, id := range s.gone {
		at := lines(a.Timeline.Stack(id))
		if young := made[at]; a.Phase[id] == meaning.Optimizer && len(young) > 0 {
			pairs[young[0]], made[at] = id, young[1:]
			continue
		}
		at = lines(a.Events.StackOf(a.Freed(id)))
		gone[at] = append(gone[at], id)
	}
	for at, young := range made {
		if len(young) == 0 {
			delete(made, at)
		}
	}
	makers, droppers := sortedLines(made), sortedLines(gone)
	if len(makers) != len(droppers) {
		return false
	}
	for i, at := range makers {
		if from := droppers[i]; at.function != from.function || at.file != from.file || len(made[at]) != len(gone[from]) {
			return false
		}
	}
	for i, at := range makers {
		takes[droppers[i]] = at
		for k, young := range made[at] {
			pairs[young] = gone[droppers[i]][k]
		}
	}
	maps.Copy(before, pairs)
	return true
}

// succeedAsOthers does it by the lines that told of other sizes: of the last
// parameter variables let go elsewhere.
func succeedAsOthers(a *rules.Facts, s *succession, before map[timeline.AllocationID]timeline.AllocationID,
	lines func(snapshot.StackID) line, takes map[line]line) bool {
	waiting := map[line][]timeline.AllocationID{}
	var others []timeline.AllocationID
	for _, id := range s.gone {
		if at, ok := takes[lines(a.Events.StackOf(a.Freed(id)))]; ok {
			waiting[at] = append(waiting[at], id)
		} else {
			others = append(others, id)
		}
	}
	if len(waiting) == 0 {
		return false
	}
	for _, id := range s.made {
		at := lines(a.Timeline.Stack(id))
		switch old := waiting[at]; {
		case len(old) > 0:
			before[id], waiting[at] = old[0], old[1:]
		case len(others) > 0: // any of these: what the line makes is known from the others
			before[id], others = others[0], others[1:]
		}
	}
	return true
}

// line is a place in a Python program, by the snapshot's strings; the zero one is none.
type line struct {
	file, function snapshot.StringID
	number         int
}

func sortedLines(m map[line][]timeline.AllocationID) []line {
	var out []line
	for at := range m {
		out = append(out, at)
	}
	slices.SortFunc(out, func(x, y line) int {
		return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.function, y.function), cmp.Compare(x.number, y.number))
	})
	return out
}

// innermost finds the innermost Python line of a stack.
func innermost(a *rules.Facts) func(snapshot.StackID) line {
	if !a.Recorded.Allocs {
		return func(snapshot.StackID) line { return line{} }
	}
	s := a.Timeline.Snapshot
	view := sync.OnceValue(func() *frames.View { return frames.New(s) }) // few recordings need it
	return func(id snapshot.StackID) line {
		for _, f := range s.Stack(id) {
			if view().Language(f) == frames.Python {
				x := &s.Frames[f]
				return line{x.File, x.Function, int(x.Line)}
			}
		}
		return line{}
	}
}
