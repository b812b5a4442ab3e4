// Package passes tells what forward and backward passes and the loading of batches make,
// by the phases in which an allocation is made and freed.
//
// Those of one phase stand in one file, as classify's registry asks them: from the most special one to the most general.
package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// madeIn is a rule of what is made in some phases, by those in which it is made and freed.
func madeIn(r rules.Rule, in ...meaning.Phase) *rules.Rule {
	r.Signal, r.Born = meaning.ByLife, rules.BornIn(in...)
	return &r
}

func inForward(r rules.Rule) *rules.Rule  { return madeIn(r, meaning.Forward, meaning.Generate) }
func inBackward(r rules.Rule) *rules.Rule { return madeIn(r, meaning.Backward) }

// byLifeAlone is how sure a life is that only one thing has, where no frame says so.
const byLifeAlone = rules.Strong - 3

var BatchByLife = madeIn(rules.Rule{
	ID: "batch",
	Doc: `Made between two passes, where batches are loaded, and used by the next pass. Less sure where the
recording began within a step; zeros that outlive their step are the program's own.`,
	Begin: func(a *rules.Facts) rules.Says {
		sure := uint8(rules.Likely)                      // or what results are collected in
		if a.Recorded.Allocs && a.Timeline.Older() > 0 { // or what is kept of a step, in a recording that begins in one
			sure = rules.Plausible
		}
		return func(id timeline.AllocationID) rules.Claim {
			n := int(a.Step[id])
			if a.Birth(id).Marks&frames.Filled != 0 && n >= 0 && n < len(a.Steps) && a.Freed(id) > a.Steps[n].LastEvent {
				return rules.As(meaning.Temporary, rules.Guess) // zeros, which later steps are written into
			}
			return rules.As(meaning.Inputs, sure)
		}
	},
}, meaning.Data)

var TemporaryElsewhere = madeIn(rules.Rule{
	ID: "temporary-elsewhere",
	Doc: `Made outside of passes and steps, or made and freed in setup: temporary. A guess where it is as large as a weight and
stays, since it may be a copy of one; what the program's own code makes there for a whole training pass is a batch, by guess.`,
	Needs:  []rules.Need{rules.Sizes},
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			pass := a.BackwardAfter(a.Run(a.Born(id)))
			switch own := a.Birth(id).Marks&(frames.UserInner|frames.InModule) == frames.UserInner; {
			case own && pass != nil && pass.End <= a.Freed(id) && a.Freed(id) < a.Last &&
				sizes.WeightSize[a.Timeline.Requested(id)] == 0:
				return rules.As(meaning.Inputs, rules.Guess) // what the program picks for several passes
			case a.Outlives(id) && rules.WeightSized(a, id):
				return rules.As(meaning.Temporary, rules.Guess) // or a copy of a weight
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}, meaning.Setup, meaning.ZeroGrad, meaning.OtherPhase)
