package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
)

// StackMarks of one distinct stack.
type StackMarks struct {
	frames.Marks
	Hint  meaning.Hint
	Depth uint8 // nesting of modules' forward
}
