package phases

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// layersOfOne tells the layers of a single pass, as of a training that fails in its first, from iterations: nothing comes
// back within each, though the model's weights do; or each keeps most of what it took for a backward pass, and makes little.
//
// complexity: one walk over the events of each supposed pass counts all that is compared
func layersOfOne(a *Program, starts []int, l *Layers) bool {
	const most, few = 256, 64 // layers of a model; allocations of a layer
	n := len(starts)
	if n < 3 || n > most {
		return false
	}
	unlike := l.groups > 0 && n <= l.groups+1 // any iteration through such a model
	last, keeping, ones := starts[n-1], 0, 0
	for k := range n - 1 {
		var sizes []int64
		var allocs []int
		var live, peak, kept int64 // beyond what was there when it began
		blocks := 0
		for i := starts[k]; i < starts[k+1]; i++ {
			id := a.Timeline.Of[i]
			switch a.Events.Action[i] {
			case snapshot.Alloc:
				sizes, allocs = append(sizes, a.Events.Size[i]), append(allocs, i)
				live += a.Timeline.Requested(id)
				peak = max(peak, live)
				if a.Freed(id) >= last {
					kept += a.Timeline.Requested(id)
					blocks += AsInt(a.Timeline.Requested(id) > Scalar && !l.weights[2*a.Timeline.Requested(id)]) // no cast
				}
			case snapshot.FreeRequested:
				if id != timeline.NoAllocation && a.Born(id) >= starts[k] {
					live -= a.Timeline.Requested(id)
				}
			}
		}
		if len(allocs) > few && !unlike {
			return false
		}
		if k == n/2 && (len(RecurringRuns(allocs, sizes)) > 2 || unlike && comesBack(sizes, max(3, l.groups))) {
			return false
		}
		keeping, ones = keeping+AsInt(kept*2 >= peak && kept > 0), ones+AsInt(blocks == 1)
	}
	l.checkpointed = unlike && ones*5 >= (n-1)*4
	return unlike || keeping*5 >= (n-1)*4
}

// comesBack reports whether a run of values is there so many times, over a third of all.
func comesBack(values []int64, times int) bool {
	type seen struct{ first, times int }
	runs := timeline.NewRuns(values, runLength)
	tally := make([]seen, runs.Len())
	for k, run := range runs.At {
		s := &tally[run]
		if s.times == 0 {
			s.first = k
		}
		if s.times++; s.times >= times && (k-s.first)*3 >= len(values) {
			return true
		}
	}
	return false
}

// Layers is what is known of a model's layers without stacks.
type Layers struct {
	groups       int            // how often a run of sizes comes back in the weights
	weights      map[int64]bool // those sizes
	Most         bool           // of what is there are such layers
	checkpointed bool           // they were taken for steps, and keep one block each
}

// LayersOfModel looks at what is there before the loop and stays.
func (a *Program) LayersOfModel() (l Layers) {
	var allocs []int
	var sizes []int64
	l.weights = map[int64]bool{}
	for i := range a.allocs(0, a.Loop) {
		if a.Outlives(a.Timeline.Of[i]) {
			allocs, sizes = append(allocs, i), append(sizes, a.Events.Size[i])
			l.weights[a.Events.Size[i]] = true
		}
	}
	groups := RecurringRuns(allocs, sizes)
	l.groups, l.Most = len(groups), mostWithin(allocs, groups)
	return l
}

// mostWithin reports whether most of an ascending list lies in groups that begin at some events, the last one as long as the
// one before.
func mostWithin(events, groups []int) bool {
	n := len(groups)
	if n < 2 {
		return false
	}
	from, _ := slices.BinarySearch(events, groups[0])
	to, _ := slices.BinarySearch(events, 2*groups[n-1]-groups[n-2])
	return (to-from)*3 >= len(events)*2
}

func AsInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
