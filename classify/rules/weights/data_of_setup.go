package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var OwnInputs = &rules.Rule{
	ID: "data-of-setup",
	Doc: `Left by setup and made by the program's own code outside of all modules, of a size that nothing trains:
a data set or a table on the GPU. So are, where something trains, the few large blocks that no stack shows a module for and
that have neither gradients nor state of their size.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{untrainedOfSetup},
	Begin: func(a *rules.Facts) rules.Says {
		data := untrainedOfSetup.Of(a).data
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case data[id], a.Recorded.Allocs && outlivesSetup(a, id) && madeByProgram(a, id):
				return rules.As(meaning.Inputs, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}

// untrained is what setup leaves that nothing trains: data, or what is as likely a weight that is frozen.
type untrained struct {
	data, doubtful map[timeline.AllocationID]bool
}

// untrainedOfSetup is little, or it is a model that is frozen. It is data where there is less of it than of what is trained, that
// has gradients or state of its size, unless some layers are trained and others aren't.
var untrainedOfSetup = rules.Named("what setup leaves that nothing trains", func(a *rules.Facts) untrained {
	const large, few = 64 << 10, 8 // bytes; blocks
	if !a.Trains {
		return untrained{}
	}
	sizes, gradients, each := rules.Sizes.Of(a), leftByPasses.Of(a).most, older.Gradients.Of(a).GradientSize
	data, trained, frozen, small := map[timeline.AllocationID]bool{}, 0, 0, 0
	for n, count := range each {
		if rest := sizes.WeightSize[n] - count; rest > count || n >= large && rest == count { // running statistics
			frozen += rest
		}
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n := a.Timeline.Requested(id)
		if a.Phase[id] != meaning.Setup || n <= phases.Scalar || !outlivesSetup(a, id) {
			continue
		}
		switch {
		case gradients[n]+gradients[2*n]+gradients[n/2]+each[n] > 0 || sizes.StateSize[n]:
			if n >= large {
				trained++
			}
		case n < large:
			small++
		case a.Birth(id).Marks&(frames.Weight|frames.InModule) == 0:
			data[id] = true
		}
	}
	switch {
	case len(data) > few:
		return untrained{}
	case len(data) > trained && small > 0 || !a.Recorded.Allocs && frozen*4 > trained:
		return untrained{doubtful: data}
	}
	return untrained{data: data}
})
