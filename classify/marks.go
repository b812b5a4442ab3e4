package classify

import "github.com/vramscope/vramscope/frames"

// marks are what a stack says about the moment it was taken (frames.Marks).
type marks = frames.Marks

const (
	native       = frames.Native
	engine       = frames.Engine
	release      = frames.Release
	workspace    = frames.Workspace
	cast         = frames.Cast
	weight       = frames.Weight
	input        = frames.Input
	cache        = frames.Cache
	rebuild      = frames.Rebuild
	restore      = frames.Restore
	loss         = frames.Loss
	matmul       = frames.MatMul
	copying      = frames.Copying
	filled       = frames.Filled
	state        = frames.State
	comm         = frames.Comm
	bucket       = frames.Bucket
	flat         = frames.Flat
	inModule     = frames.InModule
	userInner    = frames.UserInner
	lossGrad     = frames.LossGrad
	rooted       = frames.Rooted
	keep         = frames.Keep
	nested       = frames.Nested
	compiled     = frames.Inductor
	unpacked     = frames.Unpacked
	distance     = frames.Distance
	perClass     = frames.PerClass
	stored       = frames.Stored
	named        = frames.Named
	mask         = frames.Mask
	checkpointed = frames.Checkpointed
	ownCache     = frames.OwnCache
	anyCache     = frames.AnyCache
	softmax      = frames.Softmax
	custom       = frames.Custom
)

// hint is a phase that a stack names, 0 for none.
type hint = frames.Phase

func hintOf(p Phase) hint { return hint(p) + 1 }

// Both count phases in the same order.
var _ [0]struct{} = [frames.AtOther - 1 - frames.Phase(OtherPhase)]struct{}{}

// evidence of one distinct stack.
type evidence struct {
	marks
	hint  hint
	depth uint8 // nesting of modules' forward
}
