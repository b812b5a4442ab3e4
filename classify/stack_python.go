package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var flatBufferPython = &Rule{
	ID: "megatron-buffer",
	Doc: `Made in the constructor of Megatron's buffers. The last line of it that allocates makes the gradients'
buffer; an earlier one, of a distributed optimizer, that of the weights.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Flat,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		last := lastFlatLine(a)
		return func(id timeline.AllocationID) claim {
			if flatLine(a, id) < last {
				return as(Weights, strong)
			}
			return kindOf(Gradients, GradientBucket, strong)
		}
	},
}

var reducedGradient = &Rule{
	ID: "fsdp-gradient",
	Doc: `Made where FSDP reduces gradients, and there after the backward pass: the shard of the gradients that
this rank keeps.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Keep,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !outlivesPass(a, id) {
				return claim{}
			}
			return as(Gradients, strong)
		}
	},
}

var gatheredPython = &Rule{
	ID: "collective",
	Doc: `Made by code of collective communication or sharding (FSDP, DeepSpeed, c10d): what is gathered from
or sent to other ranks.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Comm,
	Begin: func(*analysis) func(timeline.AllocationID) claim {
		return func(timeline.AllocationID) claim { return kindOf(Communication, GatheredShard, strong) }
	},
}

var cachePython = &Rule{
	ID: "kv-cache-class",
	Doc: `Made by a library's key-value cache (Transformers' cache_utils and its kin), in forward, generation or
setup.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Cache,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch a.Phase[id] {
			case Forward, Generate, Setup:
				return as(KVCache, strong)
			}
			return claim{}
		}
	},
}

var ownCachePython = &Rule{
	ID: "kv-cache-own-class",
	Doc: `Made by a function of the program's own whose name says cache, as one of a row of equal blocks that
belongs to the model's layers.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Needs:  []Need{Rows},
	Birth:  frames.OwnCache | frames.AnyCache,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !a.kept[id] {
				return claim{}
			}
			return as(KVCache, plausible)
		}
	},
}

var restoredPython = &Rule{
	ID: "restored-from-host",
	Doc: `Made in a backward pass by save_on_cpu or a hook like it: a saved activation that comes back from the
host.`,
	Signal: ByPythonStack,
	Born:   bornIn(Backward),
	Birth:  frames.Restore,
	Begin: func(*analysis) func(timeline.AllocationID) claim {
		return func(timeline.AllocationID) claim { return kindOf(Activations, Restored, strong) }
	},
}

var statePython = &Rule{
	ID: "optimizer-state-code",
	Doc: `Made by code of torch.optim, or of a library's optimizer, that makes an optimizer's state, and not gone
right after: moments, step counters, master weights.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.State,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !a.outlives(id) && a.freed(id)-a.born(id) <= 200 {
				return silence()
			}
			return as(OptimizerState, strong)
		}
	},
}

var weightPython = &Rule{
	ID: "module-weight",
	Doc: `Made in setup by code that builds, loads, moves or converts a module (nn.Module, from_pretrained,
load_state_dict), and there after it: a parameter or buffer. Less sure where a file was read and the optimizer makes
no state, which may have come from that file.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Weight,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			e := a.birth(id)
			switch {
			case a.Phase[id] != Setup || a.resumed[id] != NoDetail:
				return claim{}
			case a.outlives(id) || a.run(a.freed(id)) != a.run(a.born(id)):
				if e.Marks&frames.Stored != 0 && a.trains && len(a.stateSize) == 0 {
					return kindOf(Weights, Parameter, plausible) // or the state of an optimizer that makes none
				}
				return kindOf(Weights, Parameter, strong)
			case e.hint == hintOf(Setup) && a.freed(id)-a.born(id) > 64:
				return kindOf(Weights, Parameter, plausible)
			}
			return silence()
		}
	},
}

var inputPython = &Rule{
	ID:     "loaded-batch",
	Doc:    `Made by code that loads or moves batches: data loaders, prefetchers, collation.`,
	Signal: ByPythonStack,
	Born:   anyTime,
	Birth:  frames.Input,
	Begin: func(*analysis) func(timeline.AllocationID) claim {
		return func(timeline.AllocationID) claim { return as(Inputs, strong) }
	},
}
