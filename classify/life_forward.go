package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var maskInForward = &Rule{
	ID: "attention-mask",
	Doc: `Made by code of attention masks and there until a failure or the end of the recording: a mask that a
variable holds through the pass. It is as temporary as the pass.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Birth:  frames.Mask,
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if f := a.freed(id); f >= a.last || a.failedBetween(a.born(id), f) {
				return as(Temporary, guess)
			}
			return claim{}
		}
	},
}

var keptWithoutGraph = &Rule{
	ID: "kept-without-graph",
	Doc: `Made by a forward pass of a program that neither trains nor keeps graphs, and still there at the end: a
result that the program holds.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if a.trains || a.saves {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if a.freed(id) < a.last {
				return claim{}
			}
			return as(Temporary, guess)
		}
	},
}

// beforeBackward is true of what goes, if at all, before a backward pass could see it.
func beforeBackward(a *analysis, id timeline.AllocationID) bool {
	pass := a.backwardAfter(a.run(a.born(id)))
	return pass == nil || a.freed(id) < pass.first
}

var freedWithGraph = &Rule{
	ID: "freed-with-graph",
	Doc: `Made in a forward pass that no backward pass used, and gone together with many others, as an autograd
graph goes when nobody refers to it any more: saved activations. Less sure where a failure cut the pass short.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives, Releases},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch {
			case !a.inBulk[id] || !beforeBackward(a, id):
			case a.trains:
				return as(Activations, likely)
			case !a.saves:
			case a.failedBetween(a.born(id), a.freed(id)): // but for what the request that failed was made with
				return as(Activations, plausible)
			default:
				return as(Activations, likely)
			}
			return claim{}
		}
	},
}

var heldAtEnd = &Rule{
	ID: "forward-at-end",
	Doc: `Made in a forward pass, and the recording ends before a backward pass or a free says what it is: an
activation, by guess, or, in passes that keep no graph, a result that the program collects.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch {
			case a.freed(id) < a.last || !beforeBackward(a, id):
				return claim{}
			case a.UntrainedAt(a.born(id)) != nil: // collected, in passes that keep no graph
				return as(Temporary, guess)
			}
			return as(Activations, guess-10)
		}
	},
}

var cutByFailure = &Rule{
	ID: "cut-by-failure",
	Doc: `Made in a forward pass that a failed request cut short, and gone with it: an activation, by guess, since
the backward pass that would tell never came.`,
	Signal: ByLife,
	Born:   bornIn(Forward),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.ooms) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !beforeBackward(a, id) || !a.failedBetween(a.born(id), a.freed(id)) {
				return claim{}
			}
			return as(Activations, guess)
		}
	},
}

var weightSizedInForward = &Rule{
	ID: "weight-sized-in-forward",
	Doc: `Made where a forward pass is expected, without stacks, as large as a weight and gone before backward:
temporary, or the copy of a gradient that an optimizer makes which nothing shows.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{NoStacks, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.freed(id)-a.born(id) <= 64 || !weightSized(a, id) || !beforeBackward(a, id) {
				return claim{}
			}
			return as(Temporary, guess)
		}
	},
}

var unseenBackward = &Rule{
	ID: "backward-not-seen",
	Doc: `Made in a forward pass of a program whose optimizer steps though no backward pass could be seen, and
there for a while: an activation, by guess.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if a.trains || !a.updates {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if a.freed(id)-a.born(id) <= 16 {
				return claim{}
			}
			return as(Activations, guess)
		}
	},
}

var resultOfPass = &Rule{
	ID: "result-of-pass",
	Doc: `Made in a forward pass that nothing trains, and there for a good part of its step or beyond its
validation: a batch or a result that the program holds until the next.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		spans := !a.trains && !a.recorded.allocs
		return func(id timeline.AllocationID) claim {
			b, f := a.born(id), a.freed(id)
			if beforeBackward(a, id) && (spans && spansStep(a, id, f-b) || f > a.untrainedEnd(b)) {
				return as(Temporary, plausible)
			}
			return claim{}
		}
	},
}

// spansStep is true of a number of events that are a good part of the step in which
// an allocation was made.
func spansStep(a *analysis, id timeline.AllocationID, events int) bool {
	n := a.Step[id]
	return n >= 0 && events*3 > a.Steps[n].LastEvent-a.Steps[n].FirstEvent
}

var temporaryInForward = &Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only
run forward where it was there for a good part of the program.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch {
			case !beforeBackward(a, id):
				return claim{}
			case !a.trains && a.freed(id) >= a.stop && (a.stop-a.born(id))*4 > a.stop:
				return as(Temporary, guess) // weights, or a graph
			}
			return as(Temporary, strong-3)
		}
	},
}

var savedForBackward = &Rule{
	ID: "saved-for-backward",
	Doc: `Made in a forward pass and freed by the backward pass that follows: saved for backward. A scalar that
goes with the end of the pass is temporary; compiled code doesn't tell a cast weight from an activation.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Training, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			f := a.freed(id)
			if f >= a.last || a.phases[f] != Backward {
				return claim{}
			}
			n, end := a.t.Requested(id), a.backwardAfter(a.run(a.born(id))).end
			switch {
			case f < end && end-f < 3 && n <= scalar:
				return as(Temporary, guess)
			case a.birth(id).Marks&frames.Inductor != 0 && a.weightHalf[n]:
				return as(Activations, likely) // or a cast weight: compiled code doesn't say
			}
			return as(Activations, strong-3)
		}
	},
}

var scalarBeyondBackward = &Rule{
	ID:     "scalar-of-pass",
	Doc:    `A scalar that a forward pass made and that is there after its backward pass: a loss or a metric.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Training, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.t.Requested(id) > scalar {
				return claim{}
			}
			return as(Temporary, likely)
		}
	},
}

var outlivesBackward = &Rule{
	ID: "outlives-backward",
	Doc: `Made in a forward pass and still there after its backward pass. Where the pass was cut off, its graph is
kept, or a module holds it until it is made again, it is an activation; else a result. A guess either way.`,
	Signal: ByLife,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Training, Lives, Releases},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			r := a.run(a.born(id))
			if isCut(a, a.backwardAfter(r)) || a.retained[r] || heldByModule(a, id) {
				return as(Activations, guess)
			}
			return as(Temporary, guess)
		}
	},
}

// heldByModule is true of what outlives its backward pass, was made by a layer, and
// goes when that layer makes it again: an attribute or a hook holds it, and what
// follows in the model has saved it, most likely.
func heldByModule(a *analysis, id timeline.AllocationID) bool {
	n := int(a.Step[id])
	if a.birth(id).depth < 2 || n < 0 || n+1 >= len(a.Steps) || a.freed(id) > a.Steps[n+1].LastEvent {
		return false
	}
	b := a.born(id)
	r := a.runs[a.run(b)]
	made, all := (b-r.first)*20, r.end-r.first
	return made > all && made < all*18 // the first ones are masks and tables, the last what the model returns
}
