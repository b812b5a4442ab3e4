package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// analysis is what the signals share while they look at one device.
type analysis struct {
	*Program
	sites siteIndex

	saves      bool                             // forward keeps what a backward pass would need
	inBulk     []bool                           // by allocation: freed together with many others
	weightSize map[int64]int                    // requested bytes of what looks like weights
	weightHalf map[int64]bool                   // half of them
	stateSize  map[int64]bool                   // requested bytes of what an optimizer makes and keeps
	logits     []Detail                         // by allocation: scores, NoDetail for anything else
	widest     map[timeline.AllocationID]bool   // may be scores, though no loss shows
	doubtful   map[timeline.AllocationID]uint8  // how sure scores are that no loss shows of
	resumed    map[timeline.AllocationID]Detail // moments that come from a checkpoint
	chunks     map[timeline.AllocationID]bool   // scores of a part of the tokens, as of a loss that is worked out in parts
	labels     map[timeline.AllocationID]Category
	growing    map[int64][]int                 // sizes of a cache that grows, and events at which such blocks are there
	chains     [][]*grown                      // a growing cache in every pass of one request
	older      map[timeline.AllocationID]claim // blocks older than the trace that stay
	// events: from which blocks older than the trace last; the last that makes something
	settled, made int
	graphs        map[snapshot.StackID]bool // of which blocks older than the trace are parts of autograd graphs
	// by run: the first optimizer's step at or after it, or backward pass where steps make nothing
	nextStep         []int32
	gradientIn       map[int64][]int32              // runs that leave gradients of a size, in order
	replaced         sparse[claim]                  // weights and state that a step puts others in the place of
	gradientSize     map[int64]int                  // gradients that one step makes, by requested bytes
	copies           []bool                         // by allocation: casts of autocast, by size
	heads            []bool                         // by StackID: of the last linear map of the model
	kept             []bool                         // by allocation: outlive backward in numbers of one size: keys and values
	buckets, dataset map[timeline.AllocationID]bool // by their sizes, without stacks
	twins            map[timeline.AllocationID]bool // copies of all weights
	retained         []bool                         // by run: a forward whose graph outlives its backward
	retains          bool                           // most of them
	moved            set                            // copies for what goes at once
	// by allocation: the event, and 1, at which the last copy goes of what such a copy takes the place of; nil: there is none
	reordered   []int32
	recomputed  []bool // by allocation: made again inside backward, by sizes
	bucketViews bool   // gradients are views of the buckets
}

// grown is what is known of loop allocations of one size: of all of them in
// training, else of a spell of them, during which at least one was there.
type grown struct {
	size               int64
	count              int
	first, last        int // births
	minFreed, maxFreed int
	grows              bool
}

// siteIndex are the sites of a recording in three resolutions, and who asks them.
type siteIndex struct {
	exact, places, sized sites
	unsure               []timeline.AllocationID
	own                  map[timeline.AllocationID]bool // sites that are unsure every time
}

// sites are the sites of all allocations.
type sites struct {
	of []int32 // by allocation
	n  int     // how many there are
}
