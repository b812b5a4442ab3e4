package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// ofNative asks only of stacks with C++ frames, which are torch's own.
func ofNative(a *analysis, claims func(timeline.AllocationID) claim) func(timeline.AllocationID) claim {
	return func(id timeline.AllocationID) claim {
		if a.birth(id).Marks&frames.Native == 0 {
			return claim{}
		}
		return claims(id)
	}
}

var workspaceByFrames = &Rule{
	ID: "matrix-workspace",
	Doc: `Made by the C++ code that gives cuBLAS, cuBLASLt or cuDNN room to work in. One stays for each stream
before PyTorch 2.15; later ones live for one operation.`,
	Signal: ByNativeStack,
	Born:   anyTime,
	Birth:  frames.Workspace,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return ofNative(a, func(timeline.AllocationID) claim { return kindOf(Workspace, CuBLAS, exact) })
	},
}

var reducerBucket = &Rule{
	ID: "ddp-bucket",
	Doc: `Made by DDP's reducer and kept: a bucket in which gradients travel. Where gradients are views of the
buckets (gradient_as_bucket_view), the buckets are the gradients.`,
	Signal: ByNativeStack,
	Born:   anyTime,
	Birth:  frames.Bucket,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return ofNative(a, func(id timeline.AllocationID) claim { return bucketClaim(a, id) })
	},
}

var reducerBucketPython = &Rule{
	ID: "ddp-bucket-python",
	Doc: `Made below DistributedDataParallel's own Python code and kept: a bucket in which gradients travel, or
the gradients themselves where they are views of it.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Bucket,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim { return bucketClaim(a, id) }
	},
}

// bucketClaim tells DDP's buckets from gradients that are views of them.
func bucketClaim(a *analysis, id timeline.AllocationID) claim {
	switch {
	case !a.outlives(id) && a.freed(id)-a.born(id) <= 1000:
		return silence()
	case a.bucketViews:
		return kindOf(Gradients, GradientBucket, likely)
	}
	return kindOf(Communication, GradientBucket, strong)
}

var lossGradient = &Rule{
	ID: "loss-gradient",
	Doc: `Made in a backward pass by the gradient of a classification loss (softmax, cross-entropy): as large as
the logits.`,
	Signal: ByNativeStack,
	Born:   bornIn(Backward),
	Birth:  frames.LossGrad,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return ofNative(a, func(id timeline.AllocationID) claim {
			if a.t.Requested(id) <= 64 {
				return claim{}
			}
			return kindOf(Logits, LogitsGradient, strong)
		})
	},
}

var castByFrames = &Rule{
	ID: "autocast-cast",
	Doc: `Made by autocast's own cast, and half as large as a weight: the 16-bit copy that autocast keeps until
its range ends.`,
	Signal: ByNativeStack,
	Born:   anyTime,
	Birth:  frames.Cast,
	Needs:  []Need{Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return ofNative(a, func(id timeline.AllocationID) claim {
			if !a.weightHalf[a.t.Requested(id)] {
				return claim{}
			}
			return as(AutocastCopies, strong)
		})
	},
}
