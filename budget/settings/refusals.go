package settings

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/pattern"
)

var version = pattern.Of(`^v?[0-9]{1,3}\.[0-9]{1,3}`)

// Check refuses settings that cannot be.
func (s Setting) Check() error {
	if s.Tokens < 0 || s.Tokens > mostPrompts { // before the length of prompts that comes of it
		return fmt.Errorf("--batch-tokens %d: at least 1, at most %d", s.Tokens, mostPrompts)
	}
	one := s
	one.Framework = s.Profile().name(s.Framework)
	if _, n := s.EveryNth(); n {
		one.Checkpointing = "none"
	}
	for i := range Fields {
		if err := Fields[i].check(&one); err != nil {
			return err
		}
	}
	return s.refused()
}

// refusal is why a setting cannot be, in a sentence with the values of fields in braces.
type refusal struct {
	holds func(s *Setting) bool
	text  string
}

// sameWeights is how many GPUs have the same weights: context-parallel ranks do, too.
func (s *Setting) sameWeights() int64 { return s.GPUs / (s.TP * s.PP) }

func (s *Setting) narrow() bool { return s.Precision == "bf16" || s.Precision == "bf16-mixed" }

// unsharded says whether there is nothing to shard over.
func (s *Setting) unsharded() bool { return s.sameWeights() < 2 && !s.Inference }

// refusals are of what fields say together; the first one counts.
var refusals = []refusal{
	{func(s *Setting) bool { return s.Torch != "" && !version().MatchString(s.Torch) },
		"--torch {torch}: a version, such as 2.8"},
	{func(s *Setting) bool { return !(s.ExpertLoad >= 1 && s.ExpertLoad <= max(float64(s.EP), 2)) },
		"--expert-load {expert-load}: from 1, an even share, to --ep, all tokens"},
	{func(s *Setting) bool { return s.StagesPerRank > 0 && s.Schedule != "interleaved" },
		"--stages-per-rank {stages-per-rank}: goes with --schedule interleaved"},

	{func(s *Setting) bool { return s.SequenceParallel && s.TP == 1 },
		"--sequence-parallel splits what --tp leaves whole: add --tp N"},
	{func(s *Setting) bool { return s.SequenceParallel && s.Sequence/s.CP%s.TP != 0 },
		"--seq {seq} over --cp {cp} cannot be divided over --tp {tp}"},
	{func(s *Setting) bool { return s.FSDP != "" && s.FSDPVersion == 1 && s.PP > 1 },
		"--fsdp-version 1 goes without --pp: pipelines take --fsdp-version 2"},
	{func(s *Setting) bool { return s.Shards < 0 || s.Shards > 0 && s.sameWeights()%s.Shards != 0 },
		"--fsdp-shards {fsdp-shards} does not divide the {same} GPUs that have the same weights"},
	{func(s *Setting) bool { return s.Zero > 0 && s.FSDP != "" }, "--zero and --fsdp shard the same thing: give one of them"},
	{func(s *Setting) bool { return s.GPUs%(s.TP*s.PP*s.CP) != 0 },
		"--gpus {gpus} cannot be divided into tensor x pipeline x context parallel groups of {tp} x {pp} x {cp}"},
	{func(s *Setting) bool { return s.FSDP != "" && s.unsharded() },
		"--fsdp {fsdp} needs at least two data-parallel or context-parallel GPUs to shard over, and --gpus {gpus} leaves {same}"},
	{func(s *Setting) bool { return s.Zero > 0 && s.unsharded() },
		"--zero {zero} needs at least two data-parallel or context-parallel GPUs to shard over, and --gpus {gpus} leaves {same}"},
	{func(s *Setting) bool { return s.EP > 1 && (s.GPUs/s.PP)%s.EP != 0 },
		"--ep {ep} does not divide --gpus {gpus} over --pp {pp}, the GPUs of a pipeline stage"},
	{func(s *Setting) bool { return s.CP > 1 && s.Sequence%s.CP != 0 }, "--seq {seq} cannot be divided over --cp {cp}"},

	{func(s *Setting) bool { return s.Attention == "flash" && s.Precision == "fp32" },
		"--attention flash has no float32 kernels: take sdpa, or a 16-bit precision"},
	{func(s *Setting) bool { return WeightBits[s.Precision] > 0 && !s.Inference && !s.Adapts() },
		"--precision {precision} cannot be trained as it is: add --lora R (QLoRA) or --inference"},
	{func(s *Setting) bool { return s.Float8AllGather && s.ByRows() },
		"--float8-all-gather goes with one scale for a tensor: leave --float8-recipe {float8-recipe} out"},
	{func(s *Setting) bool { return s.MXFP8 && s.Float8 },
		"--mxfp8 and --float8 are two ways of products in 8 bits: give one of them"},
	{func(s *Setting) bool { return s.MXFP8 && !s.narrow() },
		"--mxfp8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed"},
	{func(s *Setting) bool { return s.Float8 && !s.narrow() },
		"--float8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed"},
	{func(s *Setting) bool { return s.OptimizerInBackward && s.Accumulate > 1 },
		"--optimizer-in-backward steps after each micro-batch: it goes without --accumulate"},

	{func(s *Setting) bool { return s.DoRA && s.LoRA == 0 }, "--dora is a kind of LoRA: add --lora RANK"},
	{func(s *Setting) bool { return s.DoRA && s.Adapter != "dora" },
		"--dora and --adapter {adapter} are two kinds of adapters: give one of them"},
	{func(s *Setting) bool { return s.Adapter == "ia3" && s.LoRA > 0 }, "--adapter ia3 has no rank: leave --lora out"},
	{func(s *Setting) bool { return s.Adapter != "lora" && !s.Adapts() },
		"--adapter {adapter} is a kind of LoRA: add --lora RANK"},
	{func(s *Setting) bool { return s.SaveModules != "" && !s.Adapts() },
		"--modules-to-save names what is trained beside adapters: add --lora RANK"},
	{func(s *Setting) bool { return s.Adapts() && s.Inference },
		"adapters are a way of training: leave --inference out, merged ones cost nothing"},
}

// refused is an error that says why a setting cannot be, nil where it can.
func (s *Setting) refused() error {
	for _, x := range refusals {
		if !x.holds(s) {
			continue
		}
		values := []string{"{same}", fmt.Sprint(s.sameWeights())}
		for i := range Fields {
			values = append(values, "{"+Fields[i].Name+"}", network.Short(fmt.Sprint(Fields[i].is(s))))
		}
		return fmt.Errorf("%s", strings.NewReplacer(values...).Replace(x.text))
	}
	return nil
}

// WeightBits are those of precisions that pack weights, which a checkpoint may have
// packed as narrow already.
var WeightBits = map[string]int64{"int8": 8, "int4": 4}
