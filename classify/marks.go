package classify

import "github.com/vramscope/vramscope/frames"

// hint is a phase that a stack names, 0 for none.
type hint = frames.Phase

func hintOf(p Phase) frames.Phase { return frames.Phase(p) + 1 }

// Both count phases in the same order.
var _ [0]struct{} = [frames.AtOther - 1 - frames.Phase(OtherPhase)]struct{}{}

// evidence of one distinct stack.
type evidence struct {
	frames.Marks
	hint  frames.Phase
	depth uint8 // nesting of modules' forward
}
