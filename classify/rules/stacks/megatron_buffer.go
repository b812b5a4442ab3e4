package stacks

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var FlatBufferPython = &rules.Rule{
	ID: "megatron-buffer",
	Doc: `Made in the constructor of Megatron's buffers. The last line of it that allocates makes the gradients'
buffer; an earlier one, of a distributed optimizer, that of the weights.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Flat,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		last := lastFlatLine(a)
		return func(id timeline.AllocationID) rules.Claim {
			if flatLine(a, id) < last {
				return rules.As(meaning.Weights, rules.Strong)
			}
			return rules.KindOf(meaning.Gradients, meaning.GradientBucket, rules.Strong)
		}
	},
}

// lastFlatLine is the line that makes the gradients' buffers: the last of them.
//
//worth:off 0
func lastFlatLine(a *rules.Facts) (last int32) {
	for i := range a.Category {
		if id := timeline.AllocationID(i); a.Birth(id).Marks&frames.Flat != 0 {
			last = max(last, flatLine(a, id))
		}
	}
	return last
}

// flatLine is the line that makes one of Megatron's buffers.
func flatLine(a *rules.Facts, id timeline.AllocationID) int32 {
	s := a.Timeline.Snapshot
	for _, f := range s.Stack(a.Timeline.Stack(id)) {
		if strings.Contains(s.String(s.Frames[f].File), frames.FlatBuffers) {
			return s.Frames[f].Line
		}
	}
	return 0
}
