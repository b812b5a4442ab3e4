package phases

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// WeightsAgain finds backward passes that free nothing of what forward saved.
var WeightsAgain = &Signal{
	ID: "weights-again",
	Doc: `While one scalar lives, most of the weights' sizes are allocated again, as their gradients. This finds backward
passes that free nothing of what forward saved, because the graph is retained or the program still holds what was saved.
Weights are what was made before the loop and stays; one of the passes must leave its gradients.`,
	Needs: []Need{NoStacks, Unseen},
	Find:  func(f *facts) found { return found{roots: weightsAgain(f)} },
}

// weightsAgain gives the shortest such lives of scalars.
func weightsAgain(a *facts) []root {
	const most = 1000
	start := a.firstShortLived()
	weights := weightSizes(a, start)
	if len(weights) == 0 {
		return nil
	}
	var out []root
	kept := false                                          // one of the passes leaves gradients
	tried, budget := 0, 32*a.Last                          // events looked at
	for i := a.Last - 1; i >= start && tried < most; i-- { // the later of nested ones is the shorter
		id := a.Timeline.Of[i]
		if a.Events.Action[i] != snapshot.Alloc || a.Timeline.Requested(id) > Scalar {
			continue
		}
		f := a.Freed(id)
		if !livesThroughWork(a, i, f) || len(out) > 0 && f >= out[len(out)-1].first {
			continue
		}
		if tried++; f-i > budget {
			break
		}
		budget -= f - i
		seen, left := madeAgain(a, weights, i, f)
		if seen*10 >= len(weights)*7 {
			out = append(out, root{first: i, end: f, released: int64(seen)})
			kept = kept || left*2 > seen
		}
	}
	if !kept { // as many tokens as a layer is wide: what it computes is as large as its weights
		return nil
	}
	slices.Reverse(out)
	return out
}

// livesThroughWork is true of a life that is long enough for a pass, and in which no optimizer steps.
func livesThroughWork(a *facts, born, freed int) bool {
	return freed < a.Last && freed-born >= shortest && !a.stepsWithin(born, freed)
}

// weightSizes are those of what is made before an event and stays; none where they are few.
func weightSizes(a *facts, start int) map[int64]bool {
	const large = 4096
	weights := map[int64]bool{}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if b := a.Born(id); a.Outlives(id) && (b < 0 || b < start) && a.Timeline.Requested(id) >= large {
			weights[a.Timeline.Requested(id)] = true
		}
	}
	if len(weights) < 3 {
		return nil
	}
	return weights
}

// madeAgain counts the weights' sizes that are made between two events, and those of which something is left.
func madeAgain(a *facts, weights map[int64]bool, from, to int) (seen, left int) {
	stays := map[int64]bool{}
	for k := range a.allocs(from, to) {
		if n := a.Events.Size[k]; weights[n] {
			stays[n] = stays[n] || a.Freed(a.Timeline.Of[k]) > to || a.Covered[k] != 0
		}
	}
	for _, is := range stays {
		left += AsInt(is)
	}
	return len(stays), left
}
