package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var FlatBufferPython = &rules.Rule{
	ID: "megatron-buffer",
	Doc: `Made in the constructor of Megatron's buffers. The last line of it that allocates makes the gradients'
buffer; an earlier one, of a distributed optimizer, that of the weights.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Flat,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		last := lastFlatLine(a)
		return func(id timeline.AllocationID) rules.Claim {
			if flatLine(a, id) < last {
				return rules.As(meaning.Weights, rules.Strong)
			}
			return rules.KindOf(meaning.Gradients, meaning.GradientBucket, rules.Strong)
		}
	},
}

var ReducedGradient = &rules.Rule{
	ID: "fsdp-gradient",
	Doc: `Made where FSDP reduces gradients, and there after the backward pass: the shard of the gradients that
this rank keeps.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Keep,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !rules.OutlivesPass(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}

var GatheredPython = &rules.Rule{
	ID: "collective",
	Doc: `Made by code of collective communication or sharding (FSDP, DeepSpeed, c10d): what is gathered from
or sent to other ranks.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Comm,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim {
			return rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
		}
	},
}

var CachePython = &rules.Rule{
	ID: "kv-cache-class",
	Doc: `Made by a library's key-value cache (Transformers' cache_utils and its kin), in forward, generation or
setup.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cache,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch a.Phase[id] {
			case meaning.Forward, meaning.Generate, meaning.Setup:
				return rules.As(meaning.KVCache, rules.Strong)
			}
			return rules.Claim{}
		}
	},
}

var OwnCachePython = &rules.Rule{
	ID: "kv-cache-own-class",
	Doc: `Made by a function of the program's own whose name says cache, as one of a row of equal blocks that
belongs to the model's layers.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Rows},
	Birth:  frames.OwnCache | frames.AnyCache,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Kept[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Plausible)
		}
	},
}

var RestoredPython = &rules.Rule{
	ID: "restored-from-host",
	Doc: `Made in a backward pass by save_on_cpu or a hook like it: a saved activation that comes back from the
host.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.Restore,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim {
			return rules.KindOf(meaning.Activations, meaning.Restored, rules.Strong)
		}
	},
}

var StatePython = &rules.Rule{
	ID: "optimizer-state-code",
	Doc: `Made by code of torch.optim, or of a library's optimizer, that makes an optimizer's state, and not gone
right after: moments, step counters, master weights.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.State,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Outlives(id) && a.Freed(id)-a.Born(id) <= 200 {
				return rules.Silence()
			}
			return rules.As(meaning.OptimizerState, rules.Strong)
		}
	},
}

var WeightPython = &rules.Rule{
	ID: "module-weight",
	Doc: `Made in setup by code that builds, loads, moves or converts a module (nn.Module, from_pretrained,
load_state_dict), and there after it: a parameter or buffer. Less sure where a file was read and the optimizer makes
no state, which may have come from that file.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Weight,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			e := a.Birth(id)
			switch {
			case a.Phase[id] != meaning.Setup || a.Resumed[id] != meaning.NoDetail:
				return rules.Claim{}
			case a.Outlives(id) || a.Run(a.Freed(id)) != a.Run(a.Born(id)):
				if e.Marks&frames.Stored != 0 && a.Trains && len(a.StateSize) == 0 {
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
}

var InputPython = &rules.Rule{
	ID:     "loaded-batch",
	Doc:    `Made by code that loads or moves batches: data loaders, prefetchers, collation.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Input,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim { return rules.As(meaning.Inputs, rules.Strong) }
	},
}
