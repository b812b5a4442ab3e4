package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/optimizers"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/internal/units"
)

// assumption is what a setting takes for granted unless a flag says otherwise.
type assumption struct {
	flag, other string                       // the flag, and what else it may say; "": that it is so
	is          func(*budget.Setting) bool   // whether it is assumed here
	with        func(s, was *budget.Setting) // what comes with the other; nil: nothing
}

// vary makes a setting otherwise; false: it isn't assumed here.
func (a *assumption) vary(s *budget.Setting) bool {
	if !a.is(s) {
		return false
	}
	was := *s
	s.SetFlag(a.flag, cmp.Or(a.other, "true"))
	if a.with != nil {
		a.with(s, &was)
	}
	return true
}

// assumptions are those that may move a training's figures.
var assumptions = []assumption{
	{flag: "optimizer", is: func(s *budget.Setting) bool { return slices.Contains(optimizers.Names(), s.Optimizer+"-fused") },
		with: func(s, was *budget.Setting) { s.Optimizer = was.Optimizer + "-fused" }},
	{flag: "attention", other: "eager", is: func(s *budget.Setting) bool { return s.Attention != "eager" }},
	{flag: "loss", other: "fused", is: func(s *budget.Setting) bool { return s.Loss == "default" }},
	{flag: "loss", other: "shifted", is: func(s *budget.Setting) bool { return s.Loss == "cross-entropy" }},
	{flag: "framework", other: settings.Fallback,
		is: func(s *budget.Setting) bool { return s.Framework != settings.Fallback || s.Unsaid && s.Compile },
		with: func(s, was *budget.Setting) {
			s.Unsaid = false
			s.DropOutputs = s.DropOutputs && !settings.ProfileOf(was.Framework).DropsOutputs
		}},
	{flag: "framework", other: "torchtune", is: func(s *budget.Setting) bool { return s.Framework == settings.Fallback }},
	{flag: "drop-outputs", is: func(s *budget.Setting) bool { return !s.DropOutputs }},
	{flag: "padding", is: func(s *budget.Setting) bool { return !s.Padding }},
	{flag: "master-weights", is: func(s *budget.Setting) bool {
		return !s.MasterWeights && !s.Adapts() && (s.Precision == "bf16" || s.Precision == "fp16")
	}},
	{flag: "sync-each-batch", is: func(s *budget.Setting) bool {
		return s.Trainer && s.FSDP != "" && s.GPUs > 1 && s.Accumulate > 1 && !s.SyncEachBatch
	}},
	{flag: "keep-gradients", is: func(s *budget.Setting) bool { return !s.KeepGradients }},
	{flag: "trainer", is: func(s *budget.Setting) bool { return !s.Trainer },
		with: func(s, _ *budget.Setting) { s.DropOutputs = true }},
	{flag: "lora-dtype", other: "model", is: func(s *budget.Setting) bool { return s.Adapts() && s.LoRADtype != "model" }},
	{flag: "lora-dropout", other: "0.05", is: func(s *budget.Setting) bool { return s.LoRA > 0 && s.LoRADropout == 0 }},
	{flag: "plain-scales", is: func(s *budget.Setting) bool { return s.Precision == "int4" && !s.PlainScales }},
	{flag: "prepare-kbit", is: func(s *budget.Setting) bool { return s.Precision == "int4" && !s.PrepareKbit }},
	{flag: "expert-load", other: "2", is: func(s *budget.Setting) bool { return s.EP > 1 && s.ExpertLoad <= 1 }},
	{flag: "compile", is: func(s *budget.Setting) bool { return !s.Compile }},
	{flag: "torch", other: "2.15", is: func(s *budget.Setting) bool { return s.PP > 1 && s.Torch == "" }},
	{flag: "torch", other: "2.0", is: func(s *budget.Setting) bool { return s.Torch == "" }},
}

// unlikely are those that a run has for a reason, which a verdict doesn't wait for.
var unlikely = map[string]bool{"attention": true, "keep-gradients": true, "torch": true, "framework": true, "expert-load": true}

// worthNaming is the part of the peak from which on an assumption is named.
const worthNaming = 0.02

// Assumed names what a training's budget takes for granted though it moves the peak by more
// than 2 %, with what each would make of it, the largest first; "" without any. Flags that
// are given are no assumptions.
func Assumed(c *budget.Config, b *budget.Budget, given func(flag string) bool) (note string, band budget.Band) {
	if b.Setting.Inference {
		return "", band
	}
	type moved struct {
		text, flags, flag string
		by                int64
	}
	var all []moved
	for _, a := range assumptions {
		s := b.Setting
		if given(a.flag) || !a.vary(&s) {
			continue
		}
		s.Reserve, s.Fullest = 1, b.Fullest
		x, err := budget.Compute(c, s)
		if err != nil {
			continue
		}
		by := x.PeakBytes - b.PeakBytes
		if math.Abs(float64(by)) <= worthNaming*float64(b.PeakBytes) {
			continue
		}
		words := "--" + a.flag
		switch {
		case a.flag == "optimizer":
			words += " " + s.Optimizer
		case a.other != "":
			words += " " + a.other
		}
		sign := "+"
		if by < 0 {
			sign = "-"
		}
		all = append(all, moved{fmt.Sprintf("%s (%s%s)", words, sign, units.Size(max(by, -by))), words, a.flag, by})
	}
	slices.SortStableFunc(all, func(a, b moved) int {
		return cmp.Compare(math.Abs(float64(b.by)), math.Abs(float64(a.by)))
	})
	words := make([]string, len(all))
	for i, m := range all {
		words[i] = m.text
	}
	if len(words) == 0 {
		return "", band
	}
	for _, m := range all {
		if m.by > band.More && !unlikely[m.flag] {
			band.More, band.Flags = m.by, m.flags
		}
	}
	return "what no flag said, and would move the peak by more than 2 %: " + strings.Join(words, ", "), band
}
