// Package stacks tells what labels, annotated ranges and the frames of an allocation or of
// its free say by themselves.
//
// Those of Python's frames stand in python.go, all others here, in the order in which they are asked. A frame that a
// rule asks for gets a mark in package frames.
package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var ByLabel = &rules.Rule{
	ID: "label",
	Doc: `Somebody who knows said so: a labels file, or the recording's own metadata. Labels are believed
before everything else.`,
	Signal: meaning.ByLabel,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Labels},
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		c := a.Labels[id] // Unknown where there is none
		return rules.When(c != meaning.Unknown, rules.As(c, 100))
	},
}

var GatheredByAnnotation = &rules.Rule{
	ID: "fsdp-range",
	Doc: `Made within a range that FSDP names while it gathers or scatters shards. What such a range in a
backward pass leaves behind are gradients; all else is communication.`,
	Signal: meaning.ByAnnotation,
	Born:   rules.AnyBirth &^ rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Sharing},
	Begin: func(a *rules.Facts) rules.Says {
		sharing := rules.Sharing.Of(a)
		if sharing == nil {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !sharing[a.Born(id)]:
				return rules.Claim{}
			case a.Phase[id] == meaning.Backward && rules.OutlivesPass(a, id):
				return rules.As(meaning.Gradients, rules.Likely)
			}
			return rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
		}
	},
}

var WorkspaceByFrames = &rules.Rule{
	ID: "matrix-workspace",
	Doc: `Made by the C++ code that gives cuBLAS, cuBLASLt or cuDNN room to work in. One stays for each stream
before PyTorch 2.15; later ones live for one operation.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Workspace,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		return rules.When(isNative(a, id), rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Exact))
	},
}

var CastByFrames = &rules.Rule{
	ID: "autocast-cast",
	Doc: `Made by autocast's own cast, and half as large as a weight: the 16-bit copy that autocast keeps until
its range ends. A layer casts its weight first, what it is applied to right after; and a size of which each pass casts more
than there are weights is that of activations.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cast,
	Needs:  []rules.Need{rules.Sizes},
	Proven: 65,
	Begin: func(a *rules.Facts) rules.Says {
		sizes, casts := rules.Sizes.Of(a), castsPerPass(a)
		return func(id timeline.AllocationID) rules.Claim {
			n := a.Timeline.Requested(id)
			of := isNative(a, id) && sizes.WeightHalf[n] && casts[n] <= sizes.WeightSize[2*n]+sizes.WeightSize[2*n+1]
			return rules.When(of, rules.As(meaning.AutocastCopies, rules.Strong))
		}
	},
}

// isNative is true of stacks with C++ frames, which are torch's own.
func isNative(a *rules.Facts, id timeline.AllocationID) bool {
	return a.Birth(id).Marks&frames.Native != 0
}

// castsPerPass counts by size what autocast casts in forward, in the pass that casts least of it.
func castsPerPass(a *rules.Facts) map[int64]int {
	type cast struct {
		bytes int64
		run   int
	}
	sizes := rules.Sizes.Of(a)
	all, least := map[cast]int{}, map[int64]int{}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if n := a.Timeline.Requested(id); a.Phase[id] == meaning.Forward && a.Birth(id).Marks&frames.Cast != 0 &&
			sizes.WeightHalf[n] {
			all[cast{n, a.Run(a.Born(id))}]++
		}
	}
	for c, n := range all {
		if known := least[c.bytes]; known == 0 || n < known {
			least[c.bytes] = n
		}
	}
	return least
}

var HandedToHook = &rules.Rule{
	ID: "recomputed-for-hook",
	Doc: `Made again by checkpointing (use_reentrant=False) for the hook of a saved tensor, and let go by the
autograd node that used it. Without a nested pass, no frame of checkpointing stands in its free.`,
	Signal: meaning.ByFreeStack,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Stacks},
	Death:  frames.Release | frames.Engine,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		d := a.Death(id).Marks
		switch {
		case d&frames.Unpacked != 0: // gone before the hook had what it was made for
			return rules.Silence()
		case d&frames.Release != 0:
			return rules.Claim{}
		case d&(frames.Engine|frames.Rebuild) == frames.Engine &&
			a.Birth(id).Marks&(frames.Unpacked|frames.Nested) == frames.Unpacked && a.Phase[id] == meaning.Backward:
			return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Strong)
		}
		return rules.Silence()
	},
}

var ReleasedByAutograd = &rules.Rule{
	ID: "released-by-autograd",
	Doc: `The stack of its free is autograd releasing a tensor that it had saved for backward. Made in forward it
is a saved activation; made in backward it was made again by checkpointing, or copied back from the host.`,
	Signal: meaning.ByFreeStack,
	Born:   rules.AnyTime,
	Death:  frames.Release,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		if a.Born(id) < 0 && a.Timeline.Stack(id) == 0 {
			return rules.As(meaning.Activations, rules.Likely) // or logits, which are saved, too
		}
		switch marks := a.Birth(id).Marks; a.Phase[id] {
		case meaning.Backward:
			switch {
			case marks&frames.Restore != 0:
				return rules.KindOf(meaning.Activations, meaning.Restored, rules.Strong)
			case marks&frames.Rebuild != 0:
				return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Strong)
			}
			return rules.As(meaning.Activations, rules.Likely)
		case meaning.Forward, meaning.OtherPhase, meaning.Generate:
			return rules.As(meaning.Activations, rules.Strong-2)
		}
		return rules.Claim{}
	},
}

var WorkspaceBySize = &rules.Rule{
	ID: "matrix-workspace-by-size",
	Doc: `As large as the workspace that PyTorch gives cuBLAS or cuBLASLt by default, and gone at once, in a
recording whose frames don't name it. Less sure of one that stays, as before PyTorch 2.15: one or two that passes make, where
setup leaves nothing of their size.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Recorded.Native {
			return nil
		}
		stays := lastingWorkspaces(a)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.IsWorkspaceBySize(id):
				return rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Strong+1)
			case stays[a.Timeline.Requested(id)] && staysForGood(a, id):
				return rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Likely+1) // no graph keeps it that long
			}
			return rules.Claim{}
		}
	},
}

// lastingWorkspaces are the sizes of workspaces of which the first passes make no more than threads have, forward's and the
// engine's, later ones none, and which nothing frees.
func lastingWorkspaces(a *rules.Facts) map[int64]bool {
	const threads, shared, soon = 2, 1 << 20, 2 // shared: bytes of cuBLASLt's, which a call makes and frees; soon: passes
	count, first, stays := map[int64]int{}, map[int64]int{}, map[int64]bool{}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n := a.Timeline.Requested(id)
		if n <= shared || !phases.CublasSize(n) || rules.Sizes.Of(a).WeightSize[n] > 0 || a.Born(id) < 0 ||
			a.Timeline.FreeRequested[id] != timeline.Never {
			continue
		}
		if count[n]++; count[n] == 1 {
			first[n] = a.Run(a.Born(id))
		} else if a.Run(a.Born(id)) > first[n]+soon {
			count[n] += threads
		}
		stays[n] = count[n] <= threads
	}
	return stays
}

// staysForGood is true of what a pass makes that others follow, and nothing frees, not at the program's end either.
func staysForGood(a *rules.Facts, id timeline.AllocationID) bool {
	const passes = 6 // after it: two steps of three phases
	b := a.Born(id)
	return b >= 0 && a.Timeline.FreeRequested[id] == timeline.Never && (a.Over || a.Run(b)+passes < len(a.Runs)) &&
		meaning.HintOf(a.Phase[id]).Is(meaning.Forward, meaning.Generate, meaning.Backward)
}
