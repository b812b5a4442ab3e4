package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

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
