package stacks

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// byPython is a rule of what frames of Python name, whenever it is made.
func byPython(r rules.Rule) *rules.Rule {
	r.Signal, r.Born = meaning.ByPythonStack, rules.AnyTime
	return &r
}

var ReducerBucketPython = byPython(rules.Rule{
	ID: "ddp-bucket-python",
	Doc: `Made below DistributedDataParallel's own Python code and kept: a bucket in which gradients travel, or
the gradients themselves where they are views of it.`,
	Birth: frames.Bucket,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		const while = 1000 // events
		return unlessGone(a, id, while, rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Strong))
	},
})

var FlatBufferPython = byPython(rules.Rule{
	ID: "megatron-buffer",
	Doc: `Made in the constructor of Megatron's buffers. The last line of it that allocates makes the gradients'
buffer; an earlier one, of a distributed optimizer, that of the weights.`,
	Birth: frames.Flat,
	Begin: func(a *rules.Facts) rules.Says {
		last := lastFlatLine(a)
		return func(id timeline.AllocationID) rules.Claim {
			if flatLine(a, id) < last {
				return rules.As(meaning.Weights, rules.Strong)
			}
			return rules.KindOf(meaning.Gradients, meaning.GradientBucket, rules.Strong)
		}
	},
})

// lastFlatLine is the line that makes the gradients' buffers: the last of them.
func lastFlatLine(a *rules.Facts) (last int32) {
	for i := range a.Category {
		if id := timeline.AllocationID(i); a.Birth(id).Marks&frames.Flat != 0 {
			last = max(last, flatLine(a, id))
		}
	}
	return last
}

// flatLine is the line that makes one of Megatron's buffers.
func flatLine(a *rules.Facts, id timeline.AllocationID) int32 {
	s := a.Timeline.Snapshot
	for _, f := range s.Stack(a.Timeline.Stack(id)) {
		if strings.Contains(s.String(s.Frames[f].File), frames.FlatBuffers) {
			return s.Frames[f].Line
		}
	}
	return 0
}

var ReducedGradient = byPython(rules.Rule{
	ID: "fsdp-gradient",
	Doc: `Made where FSDP reduces gradients, and there after the backward pass: the shard of the gradients that
this rank keeps.`,
	Birth: frames.Keep,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		return rules.When(rules.OutlivesPass(a, id), rules.As(meaning.Gradients, rules.Strong))
	},
})

var GatheredPython = byPython(rules.Rule{
	ID: "collective",
	Doc: `Made by code of collective communication or sharding (FSDP, DeepSpeed, c10d): what is gathered from
or sent to other ranks.`,
	Birth: frames.Comm,
	Claim: func(*rules.Facts, timeline.AllocationID) rules.Claim {
		return rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
	},
})

var CachePython = byPython(rules.Rule{
	ID: "kv-cache-class",
	Doc: `Made by a library's key-value cache (Transformers' cache_utils and its kin), in forward, generation or
setup.`,
	Birth: frames.Cache,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		switch a.Phase[id] {
		case meaning.Forward, meaning.Generate, meaning.Setup:
			return rules.As(meaning.KVCache, rules.Strong)
		}
		return rules.Claim{}
	},
})

var RestoredPython = &rules.Rule{
	ID: "restored-from-host",
	Doc: `Made in a backward pass by save_on_cpu or a hook like it: a saved activation that comes back from the
host.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.Restore,
	Claim: func(*rules.Facts, timeline.AllocationID) rules.Claim {
		return rules.KindOf(meaning.Activations, meaning.Restored, rules.Strong)
	},
}

var StatePython = byPython(rules.Rule{
	ID: "optimizer-state-code",
	Doc: `Made by code of torch.optim, or of a library's optimizer, that makes an optimizer's state, and not gone
right after: moments, step counters, master weights.`,
	Birth: frames.State,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		const while = 200 // events
		return unlessGone(a, id, while, rules.As(meaning.OptimizerState, rules.Strong))
	},
})

// unlessGone claims of what is there for longer than so many events, and says that no later rule knows more of what isn't.
func unlessGone(a *rules.Facts, id timeline.AllocationID, events int, c rules.Claim) rules.Claim {
	if !a.Outlives(id) && a.Freed(id)-a.Born(id) <= events {
		return rules.Silence()
	}
	return c
}

var WeightPython = byPython(rules.Rule{
	ID: "module-weight",
	Doc: `Made in setup by code that builds, loads, moves or converts a module (nn.Module, from_pretrained,
load_state_dict), and there after it: a parameter or buffer, but for pairs of buffers that hold keys and values. Less sure where
a file was read and the optimizer makes no state, which may have come from that file.`,
	Birth: frames.Weight,
	Needs: []rules.Need{rules.Sizes, optimizer.Beside, kvcache.Kept},
	Begin: func(a *rules.Facts) rules.Says {
		sizes, beside, kept := rules.Sizes.Of(a), optimizer.Beside.Of(a), kvcache.Kept.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			e := a.Birth(id)
			switch {
			case a.Phase[id] != meaning.Setup || beside[id].Sure > 0 || kept[id]:
				return rules.Claim{}
			case a.Outlives(id) || a.Run(a.Freed(id)) != a.Run(a.Born(id)):
				if e.Marks&frames.Stored != 0 && a.Trains && len(sizes.StateSize) == 0 {
					// or the state of an optimizer that makes none
					return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Plausible)
				}
				return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Strong)
			case e.Hint == meaning.HintOf(meaning.Setup) && a.Freed(id)-a.Born(id) > 64:
				return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Plausible)
			}
			return rules.Silence()
		}
	},
})
