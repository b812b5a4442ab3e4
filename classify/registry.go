package classify

import (
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/classify/rules/logits"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
	"github.com/vramscope/vramscope/classify/rules/passes"
	"github.com/vramscope/vramscope/classify/rules/stacks"
	"github.com/vramscope/vramscope/classify/rules/weights"
)

// registry are all rules. Of one signal they are asked in this order.
var registry = []*rules.Rule{
	stacks.ByLabel,
	stacks.GatheredByAnnotation,

	stacks.WorkspaceByFrames,
	stacks.CastByFrames,

	stacks.HandedToHook,
	stacks.ReleasedByAutograd,

	stacks.ReducerBucketPython,
	stacks.FlatBufferPython,
	stacks.ReducedGradient,
	stacks.GatheredPython,
	stacks.CachePython,
	stacks.RestoredPython,
	stacks.StatePython,
	stacks.WeightPython,

	weights.MadeAnew,
	older.OlderByFrames,
	older.OlderLasting,
	older.OlderFreed,
	weights.CopyOfWeights,
	kvcache.CacheRow,
	weights.ResumedState,
	weights.OwnWeights,
	optimizer.TemporaryInStep,
	optimizer.StateByLife,
	passes.GradientOfSample,
	passes.ClearedInBackward,
	passes.RecomputedInBackward,
	passes.TemporaryInBackward,
	passes.UnfinishedBackward,
	passes.GradientOfGradient,
	passes.GradientByLife,
	passes.MaskInForward,
	passes.KeptWithoutGraph,
	passes.FreedWithGraph,
	passes.HeldAtEnd,
	passes.CutByFailure,
	passes.ResultOfPass,
	passes.TemporaryInForward,
	passes.SavedForBackward,
	weights.OwnInputs,
	weights.LeftBySetup,
	passes.BatchByLife,
	passes.OutlivesBackward,
	passes.TemporaryElsewhere,

	logits.LogitsBySize,
	logits.LogitsInParts,
	kvcache.GrowingCache,
	weights.CastBySize,
	weights.BucketBySize,

	older.OlderSiblings,
	stacks.WorkspaceBySize,
}

// Rules are all rules; those of one signal are asked in this order.
func Rules() []*rules.Rule { return registry }

// RuleID is the id of a rule by its number in a classification, "" where none spoke.
func RuleID(n uint8) string {
	if n == 0 {
		return ""
	}
	return registry[n-1].ID
}

// RuleReason is one line on why a rule says what it says, "" where none spoke.
func RuleReason(n uint8) string {
	if n == 0 {
		return ""
	}
	return registry[n-1].Reason()
}
