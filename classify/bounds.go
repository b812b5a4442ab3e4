package classify

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/passes"
	"github.com/vramscope/vramscope/classify/rules/weights"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// withdraw takes back what breaks a bound, whoever claimed it, and asks about it again, or says what else it is.
func withdraw(a *rules.Facts, p rules.Panel) {
	for id, d := range moreThanTrained(a) {
		a.Category[id], a.Detail[id], a.Signal[id] = meaning.OptimizerState, d, meaning.ByLife
		a.Confidence[id], a.Rule[id] = rules.Plausible, uint8(slices.Index(registry, weights.ResumedState)+1)
	}
	for _, broken := range [...]func(*rules.Facts) []timeline.AllocationID{ofNoWeight, unlikeTheirSite} {
		for _, id := range broken(a) {
			before := a.Category[id]
			joinOne(a, p[bornIn(a, id)], id, nil, before)
			if a.Category[id] == meaning.Unknown {
				a.Category[id], a.Confidence[id], a.Signal[id] = meaning.Temporary, rules.Guess, meaning.ByLife
			}
		}
	}
}

// moreThanTrained are the optimizer's state among what setup leaves, and no module was seen to make, with what each is: of a size
// there are as many weights as a pass leaves gradients. Whole sets beside them are state, if no step makes any, where they are
// two or begin as zeros, and where they have twice the bytes: weights in 32 bits and their moments.
func moreThanTrained(a *rules.Facts) map[timeline.AllocationID]meaning.Detail {
	if !a.Trains {
		return nil
	}
	gradients, left := weights.OfPass(a), map[int64][]timeline.AllocationID{} // by size
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n := a.Timeline.Requested(id)
		if a.Phase[id] == meaning.Setup && (gradients[n] > 0 || n%2 == 0 && gradients[n/2] > 0) && a.Outlives(id) {
			left[n] = append(left[n], id)
		}
	}
	filled := func(id timeline.AllocationID) bool { return a.Birth(id).Marks&frames.Filled != 0 }
	own, double := sets{each: gradients}, sets{each: gradients}
	for n, each := range gradients {
		beside := left[n][min(each, len(left[n])):]
		bare := func(id timeline.AllocationID) bool { return !filled(id) }
		if rules.Sizes.Of(a).StateSize[n] || len(beside) != 2*each && slices.ContainsFunc(beside, bare) {
			beside = nil
		}
		own.add(n, beside)
		if gradients[2*n] == 0 {
			double.add(n, left[2*n])
		}
	}
	state := map[timeline.AllocationID]meaning.Detail{}
	own.tell(state, meaning.Moment1, meaning.Moment2)
	double.tell(state, meaning.MasterWeights, meaning.Moment1, meaning.Moment2)
	maps.DeleteFunc(state, func(id timeline.AllocationID, _ meaning.Detail) bool {
		c := a.Category[id]
		return a.Signal[id] <= meaning.ByPythonStack || c != meaning.Weights && c != meaning.Inputs
	})
	return state
}

// sets are what lies beside weights, by their size, as many for each.
type sets struct {
	each  map[int64]int // weights of a size
	of    map[int64][]timeline.AllocationID
	bytes [5]int64 // of weights that have so many beside each
	all   int64    // of all weights
}

// add puts blocks beside the weights of a size.
func (s *sets) add(size int64, ids []timeline.AllocationID) {
	if s.of == nil {
		s.of = map[int64][]timeline.AllocationID{}
	}
	each := s.each[size]
	s.all += size * int64(each)
	if times := len(ids) / each; len(ids)%each == 0 && times < len(s.bytes) {
		s.of[size] = ids
		s.bytes[times] += size * int64(each)
	}
}

// tell says what whole sets are, if nearly all weights have as many, in the order in which they were made.
func (s *sets) tell(found map[timeline.AllocationID]meaning.Detail, kinds ...meaning.Detail) {
	const large = 1 << 16 // bytes: biases and norms are as large as each other
	for size, ids := range s.of {
		each := s.each[size]
		if b := s.bytes[len(ids)/each]; len(ids) == 0 || s.all < large || b*10 < s.all*9 {
			continue
		}
		for k, id := range ids {
			nth := k / each
			if len(ids) == 2*each && ids[0]+1 == ids[1] { // a weight's own follow each other
				nth = k % 2
			}
			found[id] = kinds[min(nth, len(kinds)-1)]
		}
	}
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
		case c != meaning.Gradients || a.Signal[i] != meaning.ByLife || n <= phases.Scalar,
			registry[a.Rule[i]-1] == passes.GradientOfSample:
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
