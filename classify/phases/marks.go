package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
)

// Hint is a phase that a stack names, 0 for none.
type hint = frames.Phase

func HintOf(p meaning.Phase) frames.Phase { return frames.Phase(p) + 1 }

// Both count phases in the same order.
var _ [0]struct{} = [frames.AtOther - 1 - frames.Phase(meaning.OtherPhase)]struct{}{}

// StackMarks of one distinct stack.
type StackMarks struct {
	frames.Marks
	Hint  frames.Phase
	Depth uint8 // nesting of modules' forward
}
