package stacks

import (
	"strings"

	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// lastFlatLine is the line that makes the gradients' buffers: the last of them.
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
