// Package rules is what all reasons to say what an allocation holds have in common: the
// form of a rule, what rules claim, and the facts of a recording that they share.
//
// A rule lives in the package below that has its evidence, and in classify's registry.
// What only one rule looks up belongs into its Begin; what several read is a fact here.
package rules

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/timeline"
)

// Facts are what rules share while they look at one device. Rules only read them.
type Facts struct {
	*phases.Program
	SizeIndex
	RowIndex
	RunIndex
	LogitsMarks
	SavedMarks
	Labels map[timeline.AllocationID]meaning.Category
}

// SizeIndex counts allocations by requested bytes, as far as they look like weights, or
// like what comes of weights.
type SizeIndex struct {
	WeightSize   map[int64]int  // what looks like weights
	WeightHalf   map[int64]bool // half of them
	StateSize    map[int64]bool // what an optimizer makes and keeps
	GradientSize map[int64]int  // gradients that one step makes, on average
	WholeStep    map[int64]int  // those of a whole step where two in a row make the most; nil: there are none

	Beside map[timeline.AllocationID]Claim // what setup leaves beside weights: moments from a checkpoint, and the like
}

// RowIndex are rows of equal blocks, one or two for each layer: keys and values.
type RowIndex struct {
	Rows    []*rows.Row
	Kept    []bool        // by allocation: of a row that outlives passes
	Growing []bool        // by allocation: of a cache that grows; nil: there is none
	Chains  [][]*rows.Row // a growing cache in every pass of one request
}

// RunIndex are repeated runs of events, and the runs after which nothing changes.
type RunIndex struct {
	Recomputed []bool // by allocation: made again inside backward, as runs of sizes tell
	Elsewhere  bool   // forward keeps little, and nothing shows that it is made again: the host may have it
	// events: from which blocks older than the trace last; the last that makes something
	Settled, Made int
}

// LogitsMarks mark logits and what may be logits.
type LogitsMarks struct {
	Logits []meaning.Detail               // by allocation; NoDetail for anything else
	Widest map[timeline.AllocationID]bool // may be logits, though no loss shows
	Chunks map[timeline.AllocationID]bool // of a part of the tokens, of a loss that is worked out in parts
	Heads  []bool                         // by StackID: of the last linear map of the model
}

// SavedMarks tell what forward passes save for backward, and whose graph outlives it.
type SavedMarks struct {
	Saves    bool   // forward saves what a backward pass would need, in programs without one
	InBulk   []bool // by allocation: freed together with many others
	Copies   []bool // by allocation: casts of autocast, by size, in programs that train nothing
	Retained []bool // by run: a forward whose graph outlives its backward
	Retains  bool   // most of them
}
