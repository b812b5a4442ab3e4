package diagnose

import (
	"github.com/vramscope/vramscope/snapshot/kineto"
)

func kinetoCategory(i int) string {
	if c := kineto.Category(i); c == kineto.Uncategorised {
		return "uncategorised tensors"
	} else {
		return c.String() + "s"
	}
}

// traced tells what a trace's memory events show by themselves.
func (w *witness) traced(source int, t *kineto.Trace) {
}
