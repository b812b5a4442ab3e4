package classify

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// withdraw takes back what breaks a bound, whoever claimed it, and asks about it again.
func withdraw(a *rules.Facts, p rules.Panel) {
	for _, broken := range [...]func(*rules.Facts) []timeline.AllocationID{goneBeforeStep, ofNoWeight, unlikeTheirSite} {
		for _, id := range broken(a) {
			before := a.Category[id]
			joinOne(a, p[bornIn(a, id)], id, nil, before)
			if a.Category[id] == meaning.Unknown {
				a.Category[id], a.Confidence[id] = meaning.Temporary, rules.Guess
			}
		}
	}
}

// goneBeforeStep are gradients of weights' sizes, of passes that leave their graph, which go before an optimizer steps: what is
// differentiated once more, or weights are worked out from (create_graph), never becomes a weight's gradient.
func goneBeforeStep(a *rules.Facts) (out []timeline.AllocationID) {
	const least = 3 // of a pass: one or two are no model's
	if !a.Trains {
		return nil
	}
	leaves := map[int]bool{}
	for r, whole := range rules.Retention.Of(a).Whole {
		if whole && a.Runs[r].Phase == meaning.Forward {
			leaves[int(a.NextBackward[r])] = true
		}
	}
	sizes, gone := rules.Sizes.Of(a).WeightSize, map[int][]timeline.AllocationID{}
	for i, c := range a.Category {
		id := timeline.AllocationID(i)
		if c != meaning.Gradients || a.Signal[i] != meaning.ByLife || a.Born(id) < 0 || sizes[a.Timeline.Requested(id)] == 0 {
			continue
		}
		if r := a.Run(a.Born(id)); leaves[r] && beforeStep(a, r, a.Freed(id)) {
			gone[r] = append(gone[r], id)
		}
	}
	for _, ids := range gone {
		if len(ids) >= least {
			out = append(out, ids...)
		}
	}
	return out
}

// ofNoWeight are gradients of which no weight has the size, in any precision, where more others have one: there are no more
// gradients of a size than weights.
func ofNoWeight(a *rules.Facts) (out []timeline.AllocationID) {
	weights, others := maps.Clone(rules.Sizes.Of(a).WeightSize), 0
	for i, c := range a.Category {
		if c == meaning.Weights || a.Phase[i] == meaning.Setup { // of a whole one, too, that was cut into shards
			weights[a.Timeline.Requested(timeline.AllocationID(i))]++
		}
	}
	for i, c := range a.Category {
		id := timeline.AllocationID(i)
		n := a.Timeline.Requested(id)
		switch {
		case c != meaning.Gradients || a.Signal[i] != meaning.ByLife || n <= phases.Scalar:
		case weights[n]+weights[2*n]+weights[n/2] > 0:
			others++
		default:
			out = append(out, id)
		}
	}
	if a.Timeline.Older() > 0 || others <= len(out) {
		return nil // not all weights are known
	}
	return out
}

// beforeStep is true of a free before the optimizer's step that follows a run, which clears no gradients.
func beforeStep(a *rules.Facts, r, freed int) bool {
	step := int(a.NextOptimizer[r])
	return freed < a.Last && step < len(a.Runs) && freed < a.Runs[step].First && a.Phases[freed] != meaning.ZeroGrad
}

// unlikeTheirSite is what setup leaves where nothing trains, and is told for data though the line that made it makes weights.
func unlikeTheirSite(a *rules.Facts) (out []timeline.AllocationID) {
	if a.Trains || !a.Recorded.Allocs {
		return nil
	}
	const few = 4 // weights of a line
	view, weights := frames.New(a.Timeline.Snapshot), map[snapshot.FrameID]int{}
	site := func(id timeline.AllocationID) (snapshot.FrameID, bool) {
		stack := a.Timeline.Snapshot.Stack(a.Timeline.Stack(id))
		i := slices.IndexFunc(stack, func(f snapshot.FrameID) bool { return view.Owner(f) == frames.User })
		return stack[max(0, i)], i >= 0
	}
	var data []timeline.AllocationID
	for i, c := range a.Category {
		id := timeline.AllocationID(i)
		switch {
		case a.Phase[i] != meaning.Setup || a.Timeline.Stack(id) == 0:
		case c == meaning.Weights:
			if f, known := site(id); known {
				weights[f]++
			}
		case c == meaning.Inputs:
			data = append(data, id)
		}
	}
	for _, id := range data {
		if f, known := site(id); known && weights[f] >= few {
			out = append(out, id)
		}
	}
	return out
}
