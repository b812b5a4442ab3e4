package passes

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var GradientOfSample = madeIn(rules.Rule{
	ID: "gradient-of-each-sample",
	Doc: `One of as many blocks as there are weights, made in one pass, all of which are there at once and so many times as large
as each weight: gradients of each sample of a batch, as vmap and differential privacy make them. Of more blocks of a size, those
that stay the longest.`,
	Needs: []rules.Need{rules.Sizes},
	Round: 8,
	Begin: func(a *rules.Facts) rules.Says {
		return rules.Among(gradientsOfSamples(a), rules.As(meaning.Gradients, rules.Likely+1))
	},
}, meaning.Backward, meaning.Forward)

// gradientsOfSamples looks at each pass that trains, or may.
func gradientsOfSamples(a *rules.Facts) map[timeline.AllocationID]bool {
	x := samples{a, rules.Sizes.Of(a).WeightSize, 0, 0, 0}
	for n, count := range x.weights {
		x.largest, x.all, x.count = max(x.largest, n), x.all+n*int64(count), x.count+count
	}
	found := map[timeline.AllocationID]bool{}
	for r := range a.Runs {
		of := x.madeIn(&a.Runs[r])
		for _, times := range x.factors(of) {
			for _, id := range x.ofEach(of, times) {
				found[id] = true
			}
		}
	}
	return found
}

// factors are the smallest by which blocks of a pass are larger than the largest weight: a pass may make any number of sizes, and
// each is tried with all weights.
func (x *samples) factors(of map[int64][]timeline.AllocationID) (times []int64) {
	const most = 64
	for n := range of {
		if n > x.largest && n%x.largest == 0 {
			times = append(times, n/x.largest)
		}
	}
	slices.Sort(times)
	return times[:min(most, len(times))]
}

// madeIn are the blocks that a pass leaves which is backward, or may be, by size; none where they are fewer than weights.
func (x *samples) madeIn(run *phases.Run) map[int64][]timeline.AllocationID {
	unseen := run.Phase == meaning.Forward && !x.Trains && x.Updates
	if x.largest <= phases.Scalar || run.Phase != meaning.Backward && !unseen {
		return nil
	}
	of, all := map[int64][]timeline.AllocationID{}, 0
	for i, id := range x.Allocs(run.First, run.End) {
		if n := x.Events.Size[i]; n > phases.Scalar && (unseen || x.Freed(id) >= run.End) {
			of[n], all = append(of[n], id), all+1
		}
	}
	if all*10 < x.count*9 {
		return nil
	}
	return of
}

// samples are a program's weights, by size.
type samples struct {
	*rules.Facts
	weights      map[int64]int
	largest, all int64 // bytes
	count        int   // biases, too: layers alone may be so many times as large as what they make
}

// ofEach are the blocks of a pass that are so many times as large as nearly all weights, of at least a few sizes.
func (x *samples) ofEach(of map[int64][]timeline.AllocationID, times int64) (ids []timeline.AllocationID) {
	const few = 3 // sizes: fewer are so by chance
	var bytes int64
	sizes, made, freed := 0, 0, x.Last
	for n, count := range x.weights {
		blocks := slices.SortedFunc(slices.Values(of[n*times]), func(p, q timeline.AllocationID) int {
			return cmp.Or(cmp.Compare(x.Freed(q), x.Freed(p)), cmp.Compare(p, q))
		})
		if len(blocks) < count {
			continue
		}
		sizes, bytes = sizes+1, bytes+n*int64(count)
		for _, id := range blocks[:count] {
			made, freed = max(made, x.Born(id)), min(freed, x.Freed(id))
		}
		ids = append(ids, blocks[:count]...)
	}
	if sizes < few || bytes*10 < x.all*9 || len(ids)*10 < x.count*9 || freed < made {
		return nil
	}
	return ids
}
