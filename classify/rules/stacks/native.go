package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// ofNative asks only of stacks with C++ frames, which are torch's own.
func ofNative(a *rules.Facts, claims func(timeline.AllocationID) rules.Claim) func(timeline.AllocationID) rules.Claim {
	return func(id timeline.AllocationID) rules.Claim {
		if a.Birth(id).Marks&frames.Native == 0 {
			return rules.Claim{}
		}
		return claims(id)
	}
}

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

var ReducerBucket = &rules.Rule{
	ID: "ddp-bucket",
	Doc: `Made by DDP's reducer and kept: a bucket in which gradients travel. Where gradients are views of the
buckets (gradient_as_bucket_view), the buckets are the gradients.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Bucket,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim { return bucketClaim(a, id) })
	},
}

var ReducerBucketPython = &rules.Rule{
	ID: "ddp-bucket-python",
	Doc: `Made below DistributedDataParallel's own Python code and kept: a bucket in which gradients travel, or
the gradients themselves where they are views of it.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Bucket,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim { return bucketClaim(a, id) }
	},
}

// bucketClaim tells DDP's buckets from gradients that are views of them.
func bucketClaim(a *rules.Facts, id timeline.AllocationID) rules.Claim {
	switch {
	case !a.Outlives(id) && a.Freed(id)-a.Born(id) <= 1000:
		return rules.Silence()
	case a.BucketViews:
		return rules.KindOf(meaning.Gradients, meaning.GradientBucket, rules.Likely)
	}
	return rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Strong)
}

var LossGradient = &rules.Rule{
	ID: "loss-gradient",
	Doc: `Made in a backward pass by the gradient of a classification loss (softmax, cross-entropy): as large as
the logits.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.LossGrad,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) <= 64 {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.Logits, meaning.LogitsGradient, rules.Strong)
		})
	},
}

var CastByFrames = &rules.Rule{
	ID: "autocast-cast",
	Doc: `Made by autocast's own cast, and half as large as a weight: the 16-bit copy that autocast keeps until
its range ends.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cast,
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			if !a.WeightHalf[a.Timeline.Requested(id)] {
				return rules.Claim{}
			}
			return rules.As(meaning.AutocastCopies, rules.Strong)
		})
	},
}
