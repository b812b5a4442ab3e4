package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var MaskInForward = inForward(rules.Rule{
	ID: "attention-mask",
	Doc: `Made by code of attention masks and there until a failure or the end of the recording: a mask that a
variable holds through the pass. It is as temporary as the pass.`,
	Birth: frames.Mask,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		f := a.Freed(id)
		return rules.When(f >= a.Last || a.FailedBetween(a.Born(id), f), rules.As(meaning.Temporary, rules.Guess))
	},
})

var KeptWithoutGraph = inForward(rules.Rule{
	ID: "kept-without-graph",
	Doc: `Made by a forward pass of a program that neither trains nor keeps graphs, and still there at the end: a
result that the program holds.`,
	Needs:  []rules.Need{rules.Saved},
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		if a.Trains || rules.Saved.Of(a).Saves {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			return rules.When(a.Freed(id) >= a.Last, rules.As(meaning.Temporary, rules.Guess))
		}
	},
})

var FreedWithGraph = inForward(rules.Rule{
	ID: "freed-with-graph",
	Doc: `Made in a forward pass that no backward pass used, and gone together with many others, as an autograd
graph goes when nobody refers to it any more: saved activations. Less sure where a failure cut the pass short.`,
	Needs: []rules.Need{rules.Saved, Recomputation},
	Begin: func(a *rules.Facts) rules.Says {
		saved, again := rules.Saved.Of(a), Recomputation.Of(a)
		if !a.Trains && !saved.Saves || !slices.Contains(saved.InBulk, true) {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			marked := saved.InBulk[id] && !again.Through[id] && rules.BeforeBackward(a, id)
			if !a.Trains && a.FailedBetween(a.Born(id), a.Freed(id)) { // but for what the request that failed was made with
				return rules.When(marked, rules.As(meaning.Activations, rules.Plausible))
			}
			return rules.When(marked, rules.As(meaning.Activations, rules.Likely))
		}
	},
})

var HeldAtEnd = inForward(rules.Rule{
	ID: "forward-at-end",
	Doc: `Made in a forward pass, and the recording ends before a backward pass or a free says what it is: an
activation, by guess, or, in passes that keep no graph, a result that the program collects.`,
	Proven: 85,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		switch {
		case a.Freed(id) < a.Last || !rules.BeforeBackward(a, id):
			return rules.Claim{}
		case a.UntrainedAt(a.Born(id)) != nil: // collected, in passes that keep no graph
			return rules.As(meaning.Temporary, rules.Guess)
		}
		return rules.As(meaning.Activations, rules.Guess-10)
	},
})

var CutByFailure = madeIn(rules.Rule{
	ID: "cut-by-failure",
	Doc: `Made in a forward pass that a failed request cut short, and gone with it: an activation, by guess, since
the backward pass that would tell never came.`,
	Begin: func(a *rules.Facts) rules.Says {
		if len(a.OOMs) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			cut := rules.BeforeBackward(a, id) && a.FailedBetween(a.Born(id), a.Freed(id))
			return rules.When(cut, rules.As(meaning.Activations, rules.Guess))
		}
	},
}, meaning.Forward)

var ResultOfPass = inForward(rules.Rule{
	ID: "result-of-pass",
	Doc: `Made in a forward pass that nothing trains, and there for a good part of its step or beyond its
validation: a result that the program holds until the next; without stacks, what a step begins with is a batch, by guess.`,
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		spans := !a.Trains && !a.Recorded.Allocs
		if !spans && len(a.Untrained) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			spansIt := spans && spansStep(a, id, f-b)
			switch {
			case spansIt && a.Timeline.Older() == 0 && b == a.Steps[a.Step[id]].FirstEvent:
				return rules.As(meaning.Inputs, rules.Guess)
			case rules.BeforeBackward(a, id) && (spansIt || f > a.UntrainedEnd(b)):
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
})

// spansStep is true of a number of events that are a good part of the step in which
// an allocation was made.
func spansStep(a *rules.Facts, id timeline.AllocationID, events int) bool {
	n := a.Step[id]
	return n >= 0 && events*3 > a.Steps[n].LastEvent-a.Steps[n].FirstEvent
}

var TemporaryInForward = inForward(rules.Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only run forward
where it was there for a good part of the program, and without stacks where it is as large as a weight and lived for a while.
Less sure where it goes together with many others, as a graph does that nobody trains on.`,
	Needs: []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) rules.Says {
		const awhile, many = 64, 16 // events; frees in a row, of which each may be two events
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.BeforeBackward(a, id):
				return rules.Claim{}
			case !a.Trains && a.Freed(id) >= a.Stop && (a.Stop-a.Born(id))*4 > a.Stop:
				return rules.As(meaning.Temporary, rules.Guess) // weights, or a graph
			case !a.Recorded.Allocs && a.Freed(id)-a.Born(id) > awhile && rules.WeightSized(a, id):
				return rules.As(meaning.Temporary, rules.Guess) // or saved in a pass that isn't seen as one
			case a.Trains && inARow(a, a.Freed(id), many):
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.As(meaning.Temporary, byLifeAlone)
		}
	},
})

// inARow reports whether a free is one of so many events without an allocation in between.
func inARow(a *rules.Facts, freed, many int) bool {
	first, end := freed, freed
	for first > 0 && end-first < many && a.Events.Action[first-1] != snapshot.Alloc {
		first--
	}
	for end < a.Last && end-first < many && a.Events.Action[end] != snapshot.Alloc {
		end++
	}
	return end-first >= many
}

var SavedForBackward = madeIn(rules.Rule{
	ID: "saved-for-backward",
	Doc: `Made in a forward pass, or by the program outside of passes, and freed by the backward pass that follows: saved for
backward. Less sure outside of passes. A scalar that goes with the end of the pass is temporary; compiled code doesn't tell a cast
weight from an activation.`,
	Needs: []rules.Need{rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) rules.Says {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Last || a.Phases[f] != meaning.Backward || rules.BeforeBackward(a, id) {
				return rules.Claim{}
			}
			n, end := a.Timeline.Requested(id), a.BackwardAfter(a.Run(a.Born(id))).End
			switch {
			case f < end && end-f < 3 && n <= phases.Scalar:
				return rules.As(meaning.Temporary, rules.Guess)
			case a.Birth(id).Marks&frames.Inductor != 0 && sizes.WeightHalf[n], a.Phase[id] == meaning.OtherPhase:
				return rules.As(meaning.Activations, rules.Likely) // or a cast weight, or what gradients are worked out from
			}
			return rules.As(meaning.Activations, byLifeAlone)
		}
	},
}, meaning.Forward, meaning.Generate, meaning.OtherPhase)

var OutlivesBackward = inForward(rules.Rule{
	ID: "outlives-backward",
	Doc: `Made in a forward pass and still there after its backward pass. Where the pass was cut off or its graph is
kept, or goes later from its end, it is an activation; else a result. A guess either way. A line that loads batches makes
inputs.`,
	Needs:  []rules.Need{rules.Training, rules.Retention},
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		retained := rules.Retention.Of(a).Retained
		return func(id timeline.AllocationID) rules.Claim {
			switch r := a.Run(a.Born(id)); {
			case rules.BeforeBackward(a, id):
				return rules.Claim{}
			case a.Loads[a.Timeline.Stack(id)]:
				return rules.As(meaning.Inputs, rules.Plausible)
			case rules.IsCut(a, a.BackwardAfter(r)) || retained[r] || a.FromItsEnd(a.Freed(id)):
				return rules.As(meaning.Activations, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
})
