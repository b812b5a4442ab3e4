package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var WorkspaceBySize = &rules.Rule{
	ID: "matrix-workspace-by-size",
	Doc: `As large as the workspace that PyTorch gives cuBLAS or cuBLASLt by default, and gone at once, in a
recording whose frames don't name it.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Recorded.Native {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.IsWorkspaceBySize(id) {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Strong+1)
		}
	},
}
