package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var WorkspaceByFrames = &rules.Rule{
	ID: "matrix-workspace",
	Doc: `Made by the C++ code that gives cuBLAS, cuBLASLt or cuDNN room to work in. One stays for each stream
before PyTorch 2.15; later ones live for one operation.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Workspace,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(timeline.AllocationID) rules.Claim {
			return rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Exact)
		})
	},
}
