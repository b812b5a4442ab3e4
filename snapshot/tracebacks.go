package snapshot

import (
	"slices"

	"github.com/vramscope/vramscope/internal/traceline"
)

// readTracebacks turns stacks of plain text, which forward_frames are, into stacks of
// frames. Their texts are those of Python's traceback.format_stack, outermost first,
// each with its line of code: torch takes them from the anomaly metadata of the node
// of the autograd graph (torch/csrc/autograd/python_anomaly_mode.cpp).
func (t *tables) readTracebacks() (err error) {
	s, read := t.out, map[FrameID]bool{}
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File != 0 || f.Line != 0 {
			continue
		}
		file, line, function, ok := traceline.Read(s.Strings[f.Function])
		if !ok {
			continue
		}
		read[FrameID(i)], f.Line = true, line
		if f.Function, err = t.intern([]byte(function)); err != nil {
			return err
		}
		if f.File, err = t.intern([]byte(file)); err != nil {
			return err
		}
	}
	for id := 1; id < s.stacks.len() && len(read) > 0; id++ {
		if frames := s.stacks.frames(StackID(id)); read[frames[0]] {
			slices.Reverse(frames)
		}
	}
	return nil
}
