package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

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
