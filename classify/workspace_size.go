package classify

import "github.com/vramscope/vramscope/timeline"

var workspaceBySize = &Rule{
	ID: "matrix-workspace-by-size",
	Doc: `As large as the workspace that PyTorch gives cuBLAS or cuBLASLt by default, and gone at once, in a
recording whose frames don't name it.`,
	Signal: BySize,
	Born:   anyTime,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if a.recorded.native {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.IsWorkspaceBySize(id) {
				return claim{}
			}
			return kindOf(Workspace, CuBLAS, strong+1)
		}
	},
}
