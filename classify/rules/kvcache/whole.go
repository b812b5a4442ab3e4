package kvcache

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var CacheRow = &rules.Rule{
	ID: "kv-cache-row",
	Doc: `One of a row of equal blocks, one or two for each of the model's layers or its decoder's, that stay from pass to pass
while all else goes: keys and values of a cache that is made whole, or that training passes keep (use_cache). So is what
setup leaves by a function of the program's own that says so (cache, kv, past, slots), and pairs of large buffers that come with
a module to the device, unless a small one, as of frequencies, comes right before each. Less sure, for data may look so: two equal
blocks that setup makes last beside a model of layers, each larger than any weight, and zeros of which setup can't make one
more.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup, meaning.Data, meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{Kept, Whole},
	Begin: func(a *rules.Facts) rules.Says {
		sure := uint8(rules.Likely)
		if list := Whole.Of(a); len(list) > 0 && list[0].Unsure {
			sure = rules.Plausible - 1
		}
		return rules.Marked(Kept.Of(a), rules.As(meaning.KVCache, sure))
	},
}

// Whole are caches of full length in programs that only run forward.
var Whole = rules.Named("caches of full length", findWhole)

// Kept marks the allocations of rows that outlive passes.
var Kept = rules.Named("rows of equal blocks that outlive passes", findRows)

func findRows(a *rules.Facts) []bool {
	list := Whole.Of(a)
	if a.Trains {
		list = findKept(a)
	}
	marks := pages.Make[bool](len(a.Category))
	for _, r := range list {
		for _, id := range r.IDs {
			marks[id] = true
		}
	}
	return marks
}

// findWhole finds what a server's setup makes last, and what is there for the passes that
// follow. Models fill a cache in training, too: a pass that keeps what backward would need,
// and no cache grows, is the first of one that failed.
func findWhole(a *rules.Facts) (found []*rows.Row) {
	const looks = 8 // times that an event is looked at, on average
	grown := Growth.Of(a)
	if a.Trains || rules.Saved.Of(a).Saves && len(grown.Chains) == 0 {
		return nil
	}
	f := whole{a, grown, rules.Sizes.Of(a), map[int]int{}, looks * (a.Last - a.Loop), map[kind]bool{}}
	for _, chain := range grown.Chains {
		f.requests[len(chain[0].IDs)]++
	}
	for _, r := range Rows.Of(a) {
		if f.isPool(r) || f.isCache(r) {
			found = append(found, r)
		}
	}
	for k, ids := range [...][]timeline.AllocationID{namedCaches(a), f.lastPair(), f.cutShort()} {
		if len(ids) > 0 && len(found) == 0 {
			found = append(found, &rows.Row{IDs: ids, Unsure: k > 0})
		}
	}
	return found
}

// namedCaches are the large blocks that setup leaves and the program's own code makes in functions that say so.
func namedCaches(a *rules.Facts) (out []timeline.AllocationID) {
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len() && a.All&frames.OwnCache != 0; id++ {
		m := a.Birth(id).Marks
		if a.Phase[id] == meaning.Setup && m&frames.OwnCache != 0 && m&frames.UserInner != 0 &&
			m&(frames.Weight|frames.InModule) == 0 && a.Timeline.Requested(id) >= large && a.Outlives(id) {
			out = append(out, id)
		}
	}
	return out
}

// lastPair are two equal blocks that setup makes last beside a model of layers, each larger than any weight: the keys and the
// values of all layers.
func (f *whole) lastPair() []timeline.AllocationID {
	first := timeline.AllocationID(f.Timeline.Older())
	last := first
	for id := first; int(id) < f.Timeline.Len() && f.Phase[id] == meaning.Setup; id++ {
		if f.Outlives(id) && f.Timeline.Requested(id) >= large {
			last = id
		}
	}
	pair := []timeline.AllocationID{max(last, 1) - 1, last}
	if last == first || f.Loop == f.Last || !f.isOwn(&rows.Row{IDs: pair}) || !f.LayersOfModel().Most {
		return nil
	}
	size := f.Timeline.Requested(last)
	if f.Timeline.Requested(pair[0]) != size || f.WeightSize[size] != len(pair) ||
		slices.Max(slices.Collect(maps.Keys(f.WeightSize))) > size {
		return nil
	}
	return pair
}

// cutShort are equal blocks of zeros, fewer than keys and values of a model's layers, of which setup can't make one more.
func (f *whole) cutShort() (ids []timeline.AllocationID) {
	if len(f.OOMs) != 1 || f.Loop < f.Last {
		return nil
	}
	failed := f.OOMs[0]
	for i := f.Timeline.Len() - 1; i >= f.Timeline.Older(); i-- {
		id := timeline.AllocationID(i)
		m := f.Birth(id).Marks
		if f.Timeline.Requested(id) != f.Events.Size[failed] || f.Freed(id) < failed ||
			m&(frames.Weight|frames.InModule|frames.Filled) != frames.Filled {
			break
		}
		ids = append(ids, id)
	}
	if f.Events.Size[failed] < large || !rows.Part(f.WeightSize, f.Events.Size[failed], len(ids)) {
		return nil
	}
	return ids
}

// large are bytes that masks and most tables of positions don't have.
const large = 1 << 20

// whole tells caches of full length.
type whole struct {
	*rules.Facts
	*Grown
	*rules.SizeIndex
	requests map[int]int   // by blocks of the cache that grows in one
	budget   int           // events that may still be looked at
	known    map[kind]bool // rows that are caches
}

// kind are rows that a line makes, of any size, or of one size where there are no stacks.
type kind struct {
	stack snapshot.StackID
	size  int64
	count int
}

// isPool is true of the last blocks that setup leaves, at once and of a size of their own,
// with one or two for each layer.
func (f *whole) isPool(r *rows.Row) bool {
	if f.Phase[r.IDs[0]] == meaning.Setup && r.Fits && f.WeightSize[r.Size] == len(r.IDs) && f.areBuffers(r) {
		return true
	}
	if f.Phase[r.IDs[0]] != meaning.Setup || !r.Fits || !r.AtOnce() || f.WeightSize[r.Size] > len(r.IDs) || !f.isOwn(r) {
		return false
	}
	const part = 16 // what is so many times less may be what a graph is captured with
	for id := r.IDs[len(r.IDs)-1] + 1; int(id) < f.Timeline.Len() && f.Phase[id] == meaning.Setup; id++ {
		if f.Outlives(id) && f.Timeline.Requested(id)*part > r.Size {
			return false
		}
	}
	return true
}

// areBuffers is true of pairs of large buffers that come with a module to the device: keys and values. Sines and cosines of
// positions come after their frequencies.
func (f *whole) areBuffers(r *rows.Row) bool {
	const few = 4 << 10 // bytes of frequencies
	for k, id := range r.IDs {
		if f.Birth(id).Marks&frames.Buffer == 0 || k%2 == 1 && id != r.IDs[k-1]+1 {
			return false
		}
		if k%2 == 0 && id > 0 && f.Birth(id-1).Marks&frames.Buffer != 0 && f.Timeline.Requested(id-1) <= few {
			return false
		}
	}
	return r.Size >= large
}

// isCache is true of rows that are there for passes: with one or two blocks for each layer,
// which the program makes at once or its layers two by two, or which are there for several times as long as it took to make
// them; or, beside a cache that grows,
// with as many as that has or half as many, which layers keep of an encoder's result or of a
// prefix that requests share.
func (f *whole) isCache(r *rows.Row) bool {
	if f.Phase[r.IDs[0]] == meaning.Setup {
		return false
	}
	fits := r.Fits && (r.AtOnce() || r.Paired(f.Program) || r.Stays()) && f.isOwn(r)
	if len(f.Chains) > 0 {
		fits = f.isBeside(r)
	}
	return fits && f.WeightSize[r.Size] == 0 && f.lasts(r)
}

// isBeside is true of rows of as many blocks as the growing caches of some requests have, or half as many.
func (f *whole) isBeside(r *rows.Row) bool {
	for n, times := range f.requests {
		if 2*len(r.IDs)%n == 0 && len(r.IDs) <= n*times && !f.Growing[r.IDs[0]] {
			return true
		}
	}
	return false
}

// isOwn is true of what no module's operators make, as far as stacks show, and of what layers make and that stays.
func (f *whole) isOwn(r *rows.Row) bool {
	not := frames.Weight | frames.Input
	if r.AtOnce() {
		not |= frames.InModule
	}
	return !slices.ContainsFunc(r.IDs, func(id timeline.AllocationID) bool {
		m := f.Birth(id).Marks
		return m&not != 0 || f.Recorded.Allocs && m&frames.UserInner == 0 && (r.AtOnce() || !r.Stays())
	})
}

// lasts is true of rows that are there for several passes after the one that made them, or
// that are like one which was: the first pass of a request may be its last, or fail.
func (f *whole) lasts(r *rows.Row) bool {
	const passes = 3
	k := kind{f.Timeline.Stack(r.IDs[0]), 0, len(r.IDs)}
	if k.stack == 0 {
		k.size = r.Size
	}
	if f.known[k] {
		return true
	}
	from := r.Last + 1
	if f.budget -= r.MinFreed - from; r.MinFreed <= from || f.budget < 0 {
		return false
	}
	f.known[k] = len(f.AnchoredIn(from, r.MinFreed, &phases.Layers{})) >= passes
	return f.known[k]
}

// findKept finds keys and values that a model keeps in training because its cache is on, in
// recordings without stacks: two by two for each layer, they outlive the backward pass, and
// then go at once.
func findKept(a *rules.Facts) (found []*rows.Row) {
	if a.Recorded.Allocs {
		return nil
	}
	retained := rules.Retention.Of(a).Retained
	for _, r := range Rows.Of(a) {
		if !retained[a.Run(r.First)] && outlivesBackward(a, r, len(found) > 0) && r.Paired(a.Program) && r.GoTogether(a.Program) {
			found = append(found, r)
		}
	}
	return found
}

// outlivesBackward is true of rows that a forward pass makes and the backward pass leaves,
// which frees nearly all else, until the next pass replaces them. A pass that comes to no
// end, or that no other one follows, shows that only where others did before.
func outlivesBackward(a *rules.Facts, r *rows.Row, others bool) bool {
	run := a.Run(r.First)
	pass := a.BackwardAfter(run)
	if pass == nil || a.Phase[r.IDs[0]] != meaning.Forward || r.MinFreed < pass.End {
		return false
	}
	if a.BackwardAfter(a.Run(pass.End)) == nil {
		return others
	}
	return r.MaxFreed < a.Last && (others || !rules.IsCut(a, pass))
}
