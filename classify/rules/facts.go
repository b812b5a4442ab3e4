package rules

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/timeline"
)

// Facts is what the signals share while they look at one device.
type Facts struct {
	*phases.Program
	Sites siteIndex

	Saves      bool                                     // forward keeps what a backward pass would need
	InBulk     []bool                                   // by allocation: freed together with many others
	WeightSize map[int64]int                            // requested bytes of what looks like weights
	WeightHalf map[int64]bool                           // half of them
	StateSize  map[int64]bool                           // requested bytes of what an optimizer makes and keeps
	Logits     []meaning.Detail                         // by allocation: scores, NoDetail for anything else
	Widest     map[timeline.AllocationID]bool           // may be scores, though no loss shows
	Doubtful   map[timeline.AllocationID]uint8          // how sure scores are that no loss shows of
	Resumed    map[timeline.AllocationID]meaning.Detail // moments that come from a checkpoint
	// scores of a part of the tokens, as of a loss that is worked out in parts
	Chunks  map[timeline.AllocationID]bool
	Labels  map[timeline.AllocationID]meaning.Category
	Growing map[int64][]int // sizes of a cache that grows, and events at which such blocks are there
	Chains  [][]*Grown      // a growing cache in every pass of one request
	// events: from which blocks older than the trace last; the last that makes something
	Settled, Made int
	GradientSize  map[int64]int                  // gradients that one step makes, by requested bytes
	WholeStep     map[int64]int                  // those of a whole step
	Copies        []bool                         // by allocation: casts of autocast, by size
	Heads         []bool                         // by StackID: of the last linear map of the model
	Kept          []bool                         // by allocation: outlive backward in numbers of one size: keys and values
	Dataset       map[timeline.AllocationID]bool // by its size, without stacks
	Retained      []bool                         // by run: a forward whose graph outlives its backward
	Retains       bool                           // most of them
	Moved         set                            // copies for what goes at once
	// by allocation: the event, and 1, at which the last copy goes of what such a copy takes the place of; nil: there is none
	Reordered   []int32
	Recomputed  []bool // by allocation: made again inside backward, by sizes
	BucketViews bool   // gradients are views of the buckets
}

// Grown is what is known of loop allocations of one size: of all of them in
// training, else of a spell of them, during which at least one was there.
type Grown struct {
	Size               int64
	Count              int
	First, Last        int // births
	MinFreed, MaxFreed int
	Grows              bool
}

// siteIndex are the sites of a recording in three resolutions, and who asks them.
type siteIndex struct {
	Exact, Places, Sized Sites
	Unsure               []timeline.AllocationID
	Own                  map[timeline.AllocationID]bool // sites that are unsure every time
}

// Sites are the sites of all allocations.
type Sites struct {
	Of []int32 // by allocation
	N  int     // how many there are
}
