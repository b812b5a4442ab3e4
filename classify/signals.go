package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// labelClaim is somebody's word.
func labelClaim(a *analysis, id timeline.AllocationID) claim {
	if c, ok := a.labels[id]; ok && c != Unknown {
		return claim{category: c, sure: 100}
	}
	return claim{}
}

// nativeClaim reads C++ frames, which don't lie: they are torch's own.
func nativeClaim(a *analysis, id timeline.AllocationID) claim {
	e := a.birth(id)
	switch {
	case e.Marks&frames.Native == 0:
		return claim{}
	case e.Marks&frames.Workspace != 0:
		return claim{Workspace, CuBLAS, exact}
	case e.Marks&frames.Bucket != 0:
		return bucketClaim(a, id)
	case e.Marks&frames.LossGrad != 0 && a.Phase[id] == Backward && a.t.Requested(id) > 64:
		return claim{Logits, LogitsGradient, strong}
	case e.Marks&frames.Cast != 0 && a.weightHalf[a.t.Requested(id)]:
		return claim{AutocastCopies, NoDetail, strong}
	}
	return claim{}
}

// freeClaim reads the stack of the free: autograd letting go of what it saved.
func freeClaim(a *analysis, id timeline.AllocationID) claim {
	d := a.death(id).Marks
	if d&frames.Unpacked != 0 { // gone before the hook had what it was made for
		return claim{}
	}
	if d&frames.Release == 0 {
		// Checkpointing without a nested pass hands tensors out through a hook:
		// the node that used one lets it go.
		if d&(frames.Engine|frames.Rebuild) == frames.Engine &&
			a.birth(id).Marks&(frames.Unpacked|frames.Nested) == frames.Unpacked && a.Phase[id] == Backward {
			return claim{Activations, Recomputed, strong}
		}
		return claim{}
	}
	if a.born(id) < 0 && a.t.Stack(id) == 0 {
		return claim{Activations, NoDetail, likely} // or scores, which are saved, too
	}
	switch a.Phase[id] {
	case Backward:
		if a.birth(id).Marks&frames.Restore != 0 {
			return claim{Activations, Restored, strong}
		}
		if a.birth(id).Marks&frames.Rebuild != 0 {
			return claim{Activations, Recomputed, strong}
		}
		return claim{Activations, NoDetail, likely}
	case Forward, OtherPhase, Generate:
		return claim{Activations, NoDetail, strong - 2}
	}
	return claim{}
}

// pythonClaim reads Python frames of torch and public libraries.
func pythonClaim(a *analysis, id timeline.AllocationID) claim {
	e := a.birth(id)
	p := a.Phase[id]
	switch {
	case e.Marks&frames.Bucket != 0:
		return bucketClaim(a, id)
	case e.Marks&frames.Flat != 0:
		if flatLine(a, id) < a.lastFlat {
			return claim{Weights, NoDetail, strong}
		}
		return claim{Gradients, GradientBucket, strong}
	case e.Marks&frames.Keep != 0 && outlivesPass(a, id):
		return claim{Gradients, NoDetail, strong}
	case e.Marks&frames.Comm != 0:
		return claim{Communication, GatheredShard, strong}
	case e.Marks&frames.Cache != 0 && (p == Forward || p == Generate || p == Setup):
		return claim{KVCache, NoDetail, strong}
	case e.Marks&(frames.OwnCache|frames.AnyCache) != 0 && a.kept[id]:
		return claim{KVCache, NoDetail, plausible}
	case e.Marks&frames.Restore != 0 && p == Backward:
		return claim{Activations, Restored, strong}
	case e.Marks&frames.State != 0:
		if a.outlives(id) || a.freed(id)-a.born(id) > 200 {
			return claim{OptimizerState, NoDetail, strong}
		}
	case e.Marks&frames.Weight != 0 && p == Setup && a.resumed[id] == NoDetail:
		if a.outlives(id) || a.run(a.freed(id)) != a.run(a.born(id)) {
			if e.Marks&frames.Stored != 0 && a.trains && len(a.stateSize) == 0 {
				return claim{Weights, Parameter, plausible} // or the state of an optimizer that makes none
			}
			return claim{Weights, Parameter, strong}
		}
		if e.hint == hintOf(Setup) && a.Phase[id] == Setup && a.freed(id)-a.born(id) > 64 {
			return claim{Weights, Parameter, plausible}
		}
	case e.Marks&frames.Input != 0:
		return claim{Inputs, NoDetail, strong}
	}
	return claim{}
}

// bucketClaim tells DDP's buckets from gradients that are views of them.
func bucketClaim(a *analysis, id timeline.AllocationID) claim {
	if a.outlives(id) || a.freed(id)-a.born(id) > 1000 {
		if a.bucketViews {
			return claim{Gradients, GradientBucket, likely}
		}
		return claim{Communication, GradientBucket, strong}
	}
	return claim{}
}

// outlivesPass tells whether what was born in backward is there after it.
func outlivesPass(a *analysis, id timeline.AllocationID) bool {
	r := a.run(a.born(id))
	return r >= 0 && a.freed(id) >= a.runs[r].end
}
