package phases

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// ForwardLoops tells where iterations begin that only run forward.
var ForwardLoops = &Signal{
	ID: "forward-loops",
	Doc: `A step of a loop that only runs forward begins where a batch is loaded after the one before was used, else where what
happens once in each comes back. That is the first line of a pass, or without stacks a run of sizes or of lives. Of what
recurs, that which lies farthest and most evenly apart counts. The layers of a single pass
recur, too: they are no steps where only deeper modules recur or, without stacks, where they keep what they made or nothing
comes back within each.`,
	Tells: Steps,
	Find: func(f *facts) (x found) {
		used := true // by a forward pass: what is loaded in pieces is one batch
		for i := f.Loop; i < f.Last; i++ {
			switch f.Phases[i] {
			case meaning.Forward, meaning.Generate:
				used = true
			case meaning.Data:
				if used && (i == f.Loop || f.Phases[i-1] != meaning.Data) && f.Events.Action[i] == snapshot.Alloc {
					x.starts = append(x.starts, i)
					used = false
				}
			}
		}
		if len(x.starts) > 1 {
			return x
		}
		var l Layers
		if !f.Recorded.Allocs {
			l = f.LayersOfModel()
		}
		return found{starts: f.AnchoredIn(f.Loop, f.Last, &l), checkpointed: l.checkpointed}
	},
}

// AnchoredIn finds iterations between two events; none where nothing recurs.
func (a *Program) AnchoredIn(from, to int, l *Layers) (starts []int) {
	allocs := slices.AppendSeq(pages.Make[int](min(to-from, a.Timeline.Len()))[:0], a.allocs(from, to))
	if a.Recorded.Allocs {
		keys := pages.Make[uint32](len(allocs))
		for k, i := range allocs {
			keys[k] = uint32(a.Events.StackOf(i))
		}
		starts = recurring(allocs, keys, len(a.Stacks))
		if len(starts) == 0 { // every line asks for several
			starts = RecurringRuns(allocs, keys)
		}
		if len(starts) > 0 && !loops(a, allocs, starts) {
			return nil
		}
		return starts
	}
	const most = 4 // sizes that take turns
	sizes, made := pages.Make[int64](len(allocs)), pages.Make[int64](len(allocs))
	for k, i := range allocs {
		sizes[k], made[k] = a.Events.Size[i], -1
		if f := a.Freed(a.Timeline.Of[i]); f < a.Last { // the same for batches of any size
			made[k] = int64(sort.SearchInts(allocs, f) - k)
		}
	}
	starts = RecurringRuns(allocs, sizes)
	lives := RecurringRuns(allocs, made)
	if n := len(starts); n == 0 || len(lives) <= most*n && len(lives)*2 >= n*3 {
		starts = lives
	}
	if layersOfOne(a, starts, l) {
		return nil
	}
	return starts
}

// recurring finds those allocations whose key, one of n, has the occurrences that lie farthest and most evenly apart. The
// last allocations may have no key.
func recurring(allocs []int, keys []uint32, n int) []int {
	var best *timeline.Places
	places := timeline.PlacesOf(keys, n)
	for i := range places {
		p := &places[i]
		even := p.Count >= 3 && p.Widest <= p.Narrowest+p.Narrowest/4 && (p.Last-p.First)*2 >= len(allocs)
		if even && (best == nil || p.Narrowest > best.Narrowest || p.Narrowest == best.Narrowest && p.First < best.First) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	var starts []int
	for k, key := range keys {
		if key == keys[best.First] {
			starts = append(starts, allocs[k])
		}
	}
	return starts
}

// loops tells a loop from the layers of a single pass: what happens outside all modules, or right below the model, comes back
// as often. Right below a model that makes nothing itself are its layers, which keep what a backward pass needs.
func loops(a *Program, allocs, starts []int) bool {
	count := len(starts)
	shallow := uint8(255)
	tally := make([]int, len(a.Stacks))
	for _, i := range allocs {
		id := a.Events.StackOf(i)
		if tally[id]++; tally[id] == 1 && a.Stacks[id].Depth > 0 {
			shallow = min(shallow, a.Stacks[id].Depth)
		}
	}
	if shallow == 255 {
		return true
	}
	if shallow > 1 && keepForBackward(a, starts) {
		shallow = 0
	}
	recurring, outside := 0, 0
	for id, n := range tally {
		if n > 0 && a.Stacks[id].Depth <= shallow {
			outside, recurring = outside+1, recurring+AsInt(n+1 >= count)
		}
	}
	return recurring > 0 && recurring*3 >= outside // the first pass may be called from another line
}

// RecurringRuns are the recurring allocations by the values that they and the next few have.
func RecurringRuns[K comparable](allocs []int, values []K) []int {
	runs := timeline.NewRuns(values, runLength)
	return recurring(allocs, runs.At, runs.Len())
}

// runLength is how many values in a row are compared.
const runLength = 5

// layersOfOne tells the layers of a single pass, as of a training that fails in its first, from iterations: nothing comes
// back within each, though the model's weights do; or each keeps most of what it took for a backward pass, and makes little.
func layersOfOne(a *Program, starts []int, l *Layers) bool {
	const most, few = 256, 64 // layers of a model; allocations of a layer
	n := len(starts)
	if n < 3 || n > most {
		return false
	}
	unlike := l.groups > 0 && n <= l.groups+1 // any iteration through such a model
	last, keeping, ones := starts[n-1], 0, 0
	for k := range n - 1 {
		x := a.takenIn(starts[k], starts[k+1], last)
		if len(x.allocs) > few && !unlike {
			return false
		}
		if k == n/2 && (len(RecurringRuns(x.allocs, x.sizes)) > 2 || unlike && comesBack(x.sizes, max(3, l.groups))) {
			return false
		}
		blocks := 0
		for _, id := range x.stays {
			blocks += AsInt(a.Timeline.Requested(id) > Scalar && !l.weights[2*a.Timeline.Requested(id)]) // no cast
		}
		keeping, ones = keeping+AsInt(x.stay(2)), ones+AsInt(blocks == 1)
	}
	l.checkpointed = unlike && ones*5 >= (n-1)*4
	return unlike || keeping*5 >= (n-1)*4
}

// taken is what a stretch of events took.
type taken struct {
	allocs     []int // events
	sizes      []int64
	stays      []timeline.AllocationID // until a later event
	peak, kept int64                   // beyond what was there when it began
}

// stay reports whether at least one part in so many of that stays.
func (x *taken) stay(parts int64) bool { return x.kept*parts >= x.peak && x.kept > 0 }

// takenIn is what the events of a stretch took, and what of that stays until another.
func (a *Program) takenIn(from, to, last int) (x taken) {
	var live int64
	for i := from; i < to; i++ {
		id := a.Timeline.Of[i]
		switch a.Events.Action[i] {
		case snapshot.Alloc:
			x.sizes, x.allocs = append(x.sizes, a.Events.Size[i]), append(x.allocs, i)
			live += a.Timeline.Requested(id)
			if x.peak = max(x.peak, live); a.Freed(id) >= last {
				x.stays, x.kept = append(x.stays, id), x.kept+a.Timeline.Requested(id)
			}
		case snapshot.FreeRequested:
			if id != timeline.NoAllocation && a.Born(id) >= from {
				live -= a.Timeline.Requested(id)
			}
		}
	}
	return x
}

// keepForBackward reports whether nearly all of some stretches that follow each other keep more of what they took than the caches
// of a generation.
func keepForBackward(a *Program, starts []int) bool {
	const parts = 4
	n, keeping := len(starts), 0
	for k := range n - 1 {
		x := a.takenIn(starts[k], starts[k+1], starts[n-1])
		keeping += AsInt(x.stay(parts))
	}
	return n > 1 && keeping*5 >= (n-1)*4
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
