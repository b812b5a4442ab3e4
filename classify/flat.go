package classify

import (
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// lastFlatLine is the line that makes the gradients' buffers: the last of them.
func lastFlatLine(a *analysis) (last int32) {
	for i := range a.Category {
		if id := timeline.AllocationID(i); a.birth(id).Marks&frames.Flat != 0 {
			last = max(last, flatLine(a, id))
		}
	}
	return last
}

// flatLine is the line that makes one of Megatron's buffers.
func flatLine(a *analysis, id timeline.AllocationID) int32 {
	s := a.t.Snapshot
	for _, f := range s.Stack(a.t.Stack(id)) {
		if strings.Contains(s.String(s.Frames[f].File), frames.FlatBuffers) {
			return s.Frames[f].Line
		}
	}
	return 0
}
