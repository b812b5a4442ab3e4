package classify

import (
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// findFlat finds the line that makes the gradients' buffers: the last of them.
func findFlat(a *analysis) {
	if a.all&frames.Flat == 0 {
		return
	}
	for i := range a.Category {
		if id := timeline.AllocationID(i); a.birth(id).Marks&frames.Flat != 0 {
			a.lastFlat = max(a.lastFlat, flatLine(a, id))
		}
	}
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
