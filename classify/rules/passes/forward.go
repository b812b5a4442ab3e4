package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var MaskInForward = &rules.Rule{
	ID: "attention-mask",
	Doc: `Made by code of attention masks and there until a failure or the end of the recording: a mask that a
variable holds through the pass. It is as temporary as the pass.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Birth:  frames.Mask,
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if f := a.Freed(id); f >= a.Last || a.FailedBetween(a.Born(id), f) {
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}

var KeptWithoutGraph = &rules.Rule{
	ID: "kept-without-graph",
	Doc: `Made by a forward pass of a program that neither trains nor keeps graphs, and still there at the end: a
result that the program holds.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Trains || a.Saves {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id) < a.Last {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

// beforeBackward is true of what goes, if at all, before a backward pass could see it.
func beforeBackward(a *rules.Facts, id timeline.AllocationID) bool {
	pass := a.BackwardAfter(a.Run(a.Born(id)))
	return pass == nil || a.Freed(id) < pass.First
}

var FreedWithGraph = &rules.Rule{
	ID: "freed-with-graph",
	Doc: `Made in a forward pass that no backward pass used, and gone together with many others, as an autograd
graph goes when nobody refers to it any more: saved activations. Less sure where a failure cut the pass short.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives, rules.Releases},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !a.InBulk[id] || !beforeBackward(a, id):
			case a.Trains:
				return rules.As(meaning.Activations, rules.Likely)
			case !a.Saves:
			case a.FailedBetween(a.Born(id), a.Freed(id)): // but for what the request that failed was made with
				return rules.As(meaning.Activations, rules.Plausible)
			default:
				return rules.As(meaning.Activations, rules.Likely)
			}
			return rules.Claim{}
		}
	},
}

var HeldAtEnd = &rules.Rule{
	ID: "forward-at-end",
	Doc: `Made in a forward pass, and the recording ends before a backward pass or a free says what it is: an
activation, by guess, or, in passes that keep no graph, a result that the program collects.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.Freed(id) < a.Last || !beforeBackward(a, id):
				return rules.Claim{}
			case a.UntrainedAt(a.Born(id)) != nil: // collected, in passes that keep no graph
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.As(meaning.Activations, rules.Guess-10)
		}
	},
}

var CutByFailure = &rules.Rule{
	ID: "cut-by-failure",
	Doc: `Made in a forward pass that a failed request cut short, and gone with it: an activation, by guess, since
the backward pass that would tell never came.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.OOMs) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !beforeBackward(a, id) || !a.FailedBetween(a.Born(id), a.Freed(id)) {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Guess)
		}
	},
}

var WeightSizedInForward = &rules.Rule{
	ID: "weight-sized-in-forward",
	Doc: `Made where a forward pass is expected, without stacks, as large as a weight and gone before backward:
temporary, or the copy of a gradient that an optimizer makes which nothing shows.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) <= 64 || !rules.WeightSized(a, id) || !beforeBackward(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

var UnseenBackward = &rules.Rule{
	ID: "backward-not-seen",
	Doc: `Made in a forward pass of a program whose optimizer steps though no backward pass could be seen, and
there for a while: an activation, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Trains || !a.Updates {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) <= 16 {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Guess)
		}
	},
}

var ResultOfPass = &rules.Rule{
	ID: "result-of-pass",
	Doc: `Made in a forward pass that nothing trains, and there for a good part of its step or beyond its
validation: a batch or a result that the program holds until the next.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		spans := !a.Trains && !a.Recorded.Allocs
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			if beforeBackward(a, id) && (spans && spansStep(a, id, f-b) || f > a.UntrainedEnd(b)) {
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}

// spansStep is true of a number of events that are a good part of the step in which
// an allocation was made.
func spansStep(a *rules.Facts, id timeline.AllocationID, events int) bool {
	n := a.Step[id]
	return n >= 0 && events*3 > a.Steps[n].LastEvent-a.Steps[n].FirstEvent
}

var TemporaryInForward = &rules.Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only
run forward where it was there for a good part of the program.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !beforeBackward(a, id):
				return rules.Claim{}
			case !a.Trains && a.Freed(id) >= a.Stop && (a.Stop-a.Born(id))*4 > a.Stop:
				return rules.As(meaning.Temporary, rules.Guess) // weights, or a graph
			}
			return rules.As(meaning.Temporary, rules.Strong-3)
		}
	},
}

var SavedForBackward = &rules.Rule{
	ID: "saved-for-backward",
	Doc: `Made in a forward pass and freed by the backward pass that follows: saved for backward. A scalar that
goes with the end of the pass is temporary; compiled code doesn't tell a cast weight from an activation.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Last || a.Phases[f] != meaning.Backward || beforeBackward(a, id) {
				return rules.Claim{}
			}
			n, end := a.Timeline.Requested(id), a.BackwardAfter(a.Run(a.Born(id))).End
			switch {
			case f < end && end-f < 3 && n <= phases.Scalar:
				return rules.As(meaning.Temporary, rules.Guess)
			case a.Birth(id).Marks&frames.Inductor != 0 && a.WeightHalf[n]:
				return rules.As(meaning.Activations, rules.Likely) // or a cast weight: compiled code doesn't say
			}
			return rules.As(meaning.Activations, rules.Strong-3)
		}
	},
}

var ScalarBeyondBackward = &rules.Rule{
	ID:     "scalar-of-pass",
	Doc:    `A scalar that a forward pass made and that is there after its backward pass: a loss or a metric.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) > phases.Scalar || beforeBackward(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Likely)
		}
	},
}

var OutlivesBackward = &rules.Rule{
	ID: "outlives-backward",
	Doc: `Made in a forward pass and still there after its backward pass. Where the pass was cut off, its graph is
kept, or a module holds it until it is made again, it is an activation; else a result. A guess either way.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Lives, rules.Releases},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if beforeBackward(a, id) {
				return rules.Claim{}
			}
			r := a.Run(a.Born(id))
			if rules.IsCut(a, a.BackwardAfter(r)) || a.Retained[r] || heldByModule(a, id) {
				return rules.As(meaning.Activations, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

// heldByModule is true of what outlives its backward pass, was made by a layer, and
// goes when that layer makes it again: an attribute or a hook holds it, and what
// follows in the model has saved it, most likely.
func heldByModule(a *rules.Facts, id timeline.AllocationID) bool {
	n := int(a.Step[id])
	if a.Birth(id).Depth < 2 || n < 0 || n+1 >= len(a.Steps) || a.Freed(id) > a.Steps[n+1].LastEvent {
		return false
	}
	b := a.Born(id)
	r := a.Runs[a.Run(b)]
	made, all := (b-r.First)*20, r.End-r.First
	return made > all && made < all*18 // the first ones are masks and tables, the last what the model returns
}
