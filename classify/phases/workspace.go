package phases

import "github.com/vramscope/vramscope/timeline"

// CublasSize tells torch's default workspaces: 32 MiB on Hopper, 8 MiB and a little before
// (aten/src/ATen/cuda/CublasHandlePool.cpp), 1 MiB for cuBLASLt's own (aten/src/ATen/cuda/CUDABlas.cpp).
func CublasSize(n int64) bool {
	return n == 32<<20 || n == 4096*1024*2+16*1024*8 || n == 1<<20
}

// IsWorkspaceBySize is true of a block of cuBLAS, which goes at once, where no C++ frame would name it.
func (a *Program) IsWorkspaceBySize(id timeline.AllocationID) bool {
	if !CublasSize(a.Timeline.Requested(id)) || a.Recorded.Native {
		return false
	}
	b := a.Born(id)
	return b >= 0 && a.Freed(id)-b <= 2
}
