// Package stacks tells what labels, annotated ranges and the frames of an allocation or of
// its free say by themselves.
//
// A rule goes into a file named after its ID, and into classify's registry; a frame that
// it asks for gets a mark in package frames.
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

// bucketClaim tells DDP's buckets from gradients that are views of them.
func bucketClaim(a *rules.Facts, id timeline.AllocationID) rules.Claim {
	switch {
	case !a.Outlives(id) && a.Freed(id)-a.Born(id) <= 1000:
		return rules.Silence()
	}
	return rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Strong)
}
