package facts

import (
	"strings"

	"github.com/vramscope/vramscope/snapshot"
)

// reads tells the stacks under which a checkpoint's tensors are read.
var reads = inner(func(p *Pass) func(snapshot.StackID) bool {
	return p.StacksWith(func(_, file string) bool {
		file = strings.ReplaceAll(file, `\`, "/")
		return strings.HasSuffix(file, "torch/serialization.py") || strings.HasSuffix(file, "safetensors/torch.py")
	})
})

// Reads reports whether a checkpoint's tensors are read under a stack.
func (p *Pass) Reads(stack snapshot.StackID) bool { return reads.Of(p)(stack) }
