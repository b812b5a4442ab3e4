package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var OwnWeights = &rules.Rule{
	ID: "own-weight",
	Doc: `Left by setup, made by the program's own code outside of all modules, and as large as other weights or
as the state that an optimizer makes for it, or by a function whose name says that it makes weights.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Stacks, rules.Sizes, untrainedOfSetup},
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		sizes, data, modules := rules.Sizes.Of(a), untrainedOfSetup.Of(a).data, sizesOfModules(a)
		untrained := len(sizes.StateSize) == 0
		return func(id timeline.AllocationID) rules.Claim {
			if data[id] || !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return rules.Claim{}
			}
			named := a.Birth(id).Marks&frames.Named != 0
			switch n := a.Timeline.Requested(id); {
			case sizes.WeightSize[n] > 1 && (sizes.StateSize[n] || named || untrained && (modules == nil || modules[n])):
				return rules.As(meaning.Weights, rules.Plausible)
			case n > phases.Scalar && sizes.StateSize[n]: // an optimizer trains it
				return rules.As(meaning.Weights, rules.Likely)
			case named:
				return rules.As(meaning.Weights, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}

// sizesOfModules are the bytes of what modules own when setup is through, nil for a few: where they hold the weights, tensors
// that are only as large as each other are data.
func sizesOfModules(a *rules.Facts) map[int64]bool {
	const few = 4
	sizes, n := map[int64]bool{}, 0
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[i] == meaning.Setup && a.Birth(id).Marks&frames.Weight != 0 && outlivesSetup(a, id) {
			sizes[a.Timeline.Requested(id)] = true
			n++
		}
	}
	if n < few {
		return nil
	}
	return sizes
}
