package search

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/gpus"
)

// rung is a measure, where a setting has it to take.
type rung struct {
	change, flags, costs string
	open                 func(s *budget.Setting) bool
	apply                func(s *budget.Setting) // nil: what the flag says
}

// take applies the measure.
func (r *rung) take(s *budget.Setting) {
	if r.apply != nil {
		r.apply(s)
		return
	}
	flag, value, _ := strings.Cut(strings.TrimPrefix(r.flags, "--"), " ")
	s.SetFlag(flag, cmp.Or(value, "true"))
}

// rungs are the measures in training, cheapest first.
var rungs = []rung{
	{"let gradients go with zero_grad(set_to_none=True)", "without --keep-gradients", "nothing",
		func(s *budget.Setting) bool { return s.KeepGradients }, func(s *budget.Setting) { s.KeepGradients = false }},
	{"switch the KV cache off in training", "without --use-cache", "nothing",
		func(s *budget.Setting) bool { return s.UseCache }, func(s *budget.Setting) { s.UseCache = false }},
	{"reduce each micro-batch's gradients (Accelerate's sync_each_batch)", "--sync-each-batch", "communication",
		func(s *budget.Setting) bool { return s.Trainer && s.FSDP != "" && s.Accumulate > 1 && !s.SyncEachBatch }, nil},
	{"fused optimizer", "--optimizer adamw-fused", "nothing",
		func(s *budget.Setting) bool { return s.Optimizer == "adamw" || s.Optimizer == "adamw-loop" }, nil},
	{"flash attention through sdpa", "--attention sdpa", "nothing",
		func(s *budget.Setting) bool { return s.Attention == "eager" }, nil},
	{"a kernel for attention where sdpa has none", "--attention flash", "nothing",
		func(s *budget.Setting) bool { return s.Attention == "sdpa" && s.Precision != "fp32" }, nil},
	{"expandable segments", "--allocator expandable", "nothing",
		func(s *budget.Setting) bool { return s.Allocator == "native" }, nil},
	{"chunked or fused cross entropy", "--loss chunked", "a little time in the loss",
		func(s *budget.Setting) bool { return s.Loss == "default" || s.Loss == "cross-entropy" }, nil},
	{"sharding over the GPUs (FSDP)", "--fsdp full", "communication",
		func(s *budget.Setting) bool { return s.FSDP == "" && s.Zero < 3 && s.GPUs > s.TP*s.PP },
		func(s *budget.Setting) { s.FSDP, s.Zero = "full", 0 }},
	{"pictures and texts encoded beforehand, no encoders on the GPU", "--cached-latents", "a pass over the data set first",
		func(s *budget.Setting) bool { return s.Resolution > 0 && s.Adapts() && !s.CachedLatents },
		func(s *budget.Setting) { s.CachedLatents = true }},
	{"gradient checkpointing", "--checkpointing full", "about a third more compute",
		func(s *budget.Setting) bool { return s.Checkpointing != "full" }, nil},
	{"half the micro-batch, twice the accumulation", "--batch N/2 --accumulate 2",
		"smaller matrix products, gradients kept between micro-batches", func(s *budget.Setting) bool { return s.Batch > 1 },
		func(s *budget.Setting) { s.Accumulate, s.Batch = 2*s.Accumulate, (s.Batch+1)/2 }},
	{"8-bit optimizer state", "--optimizer adamw-8bit", "bitsandbytes; a little noise",
		func(s *budget.Setting) bool {
			return strings.HasPrefix(s.Optimizer, "adam") && s.Optimizer != "adamw-8bit"
		},
		func(s *budget.Setting) { s.Optimizer, s.MasterWeights = "adamw-8bit", false }},
	{"LoRA, rank 16", "--lora 16", "trains adapters only", func(s *budget.Setting) bool { return !s.Adapts() },
		func(s *budget.Setting) { s.LoRA, s.Freeze, s.Optimizer, s.MasterWeights = 16, 0, "adamw", false }},
	{"4-bit base weights (QLoRA)", "--precision int4", "slower, a little noise in the base",
		func(s *budget.Setting) bool { return s.Adapts() && (s.Precision == "bf16" || s.Precision == "fp16") }, nil},
	{"optimizer on the CPU", "--offload optimizer", "PCIe traffic every step",
		func(s *budget.Setting) bool { return s.Offload == "none" }, nil},
	{"shorter sequences, by half", "--seq N/2", "shorter context", func(s *budget.Setting) bool { return s.Sequence > 256 },
		func(s *budget.Setting) { *s = s.WithSequence(s.Sequence / 2) }},
}

func always(*budget.Setting) bool { return true }

// servingRungs are the measures for a server.
var servingRungs = []rung{
	{"logits of the last token only", "without --all-logits", "nothing", always, func(s *budget.Setting) { s.LastLogit = true }},
	{"flash attention through sdpa", "--attention sdpa", "nothing", always, nil},
	{"expandable segments", "--allocator expandable", "nothing", always, nil},
	{"a cache in 8 bits", "--kv fp8", "a little noise", always, nil},
	{"weights in 8 bits", "--precision int8", "slower products", always, nil},
	{"weights in 4 bits", "--precision int4", "a little noise", always, nil},
	{"half the sequences at once", "--batch N/2", "less throughput", always,
		func(s *budget.Setting) { s.Batch = (s.Batch + 1) / 2 }},
}

// Ladder applies the measures one after another, keeping those that save,
// until the setting fits the device (or, without one, to the end).
func Ladder(c *budget.Config, s budget.Setting, g *gpus.GPU) ([]budget.Measure, error) {
	s, b, err := first(c, s)
	if err != nil {
		return nil, err
	}
	all := rungs
	if s.Inference {
		all = servingRungs
	}
	var ms []budget.Measure
	for _, r := range all {
		if g != nil && b.Fits(*g) {
			break
		}
		t := s
		if !r.open(&t) {
			continue
		}
		t.Reserve, t.Fullest = b.Looseness(), b.Fullest
		r.take(&t)
		if t.Allocator != s.Allocator {
			t.Reserve = 0
		}
		if t.Precision != s.Precision && c.PackedBits() <= settings.WeightBits[t.Precision] {
			continue
		}
		n, err := budget.Compute(c, t)
		if err != nil || n.TotalDevice() >= b.TotalDevice() {
			continue
		}
		ms = append(ms, budget.Measure{Change: r.change, Flags: r.flags, Costs: r.costs, Setting: t, TotalDevice: n.TotalDevice(),
			Saves: b.TotalDevice() - n.TotalDevice(), Fits: g != nil && n.Fits(*g)})
		t.Reserve, t.Fullest = 0, 0
		ms[len(ms)-1].Setting = t
		s, b = t, n
	}
	return ms, nil
}
