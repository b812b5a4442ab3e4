package budget

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
)

// assumption is what a setting takes for granted unless a flag says otherwise.
type assumption struct {
	flag, other string                // the flag, and what else it may say; "": that it is so
	is          func(*Setting) bool   // whether it is assumed here
	with        func(s, was *Setting) // what comes with the other; nil: nothing
}

// vary makes a setting otherwise; false: it isn't assumed here.
func (a *assumption) vary(s *Setting) bool {
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
	{flag: "optimizer", is: func(s *Setting) bool { return slices.Contains(optimizers.Names(), s.Optimizer+"-fused") },
		with: func(s, was *Setting) { s.Optimizer = was.Optimizer + "-fused" }},
	{flag: "attention", other: "eager", is: func(s *Setting) bool { return s.Attention != "eager" }},
	{flag: "loss", other: "fused", is: func(s *Setting) bool { return s.Loss == "default" }},
	{flag: "loss", other: "shifted", is: func(s *Setting) bool { return s.Loss == "cross-entropy" }},
	{flag: "framework", other: settings.Fallback,
		is: func(s *Setting) bool { return s.Framework != settings.Fallback || s.Unsaid && s.Compile },
		with: func(s, was *Setting) {
			s.Unsaid = false
			s.DropOutputs = s.DropOutputs && !settings.ProfileOf(was.Framework).DropsOutputs
		}},
	{flag: "framework", other: "torchtune", is: func(s *Setting) bool { return s.Framework == settings.Fallback }},
	{flag: "drop-outputs", is: func(s *Setting) bool { return !s.DropOutputs }},
	{flag: "padding", is: func(s *Setting) bool { return !s.Padding }},
	{flag: "master-weights", is: func(s *Setting) bool {
		return !s.MasterWeights && !s.Adapts() && (s.Precision == "bf16" || s.Precision == "fp16")
	}},
	{flag: "keep-gradients", is: func(s *Setting) bool { return !s.KeepGradients }},
	{flag: "trainer", is: func(s *Setting) bool { return !s.Trainer }, with: func(s, _ *Setting) { s.DropOutputs = true }},
	{flag: "lora-dtype", other: "model", is: func(s *Setting) bool { return s.Adapts() && s.LoRADtype != "model" }},
	{flag: "lora-dropout", other: "0.05", is: func(s *Setting) bool { return s.LoRA > 0 && s.LoRADropout == 0 }},
	{flag: "plain-scales", is: func(s *Setting) bool { return s.Precision == "int4" && !s.PlainScales }},
	{flag: "prepare-kbit", is: func(s *Setting) bool { return s.Precision == "int4" && !s.PrepareKbit }},
	{flag: "expert-load", other: "2", is: func(s *Setting) bool { return s.EP > 1 && s.ExpertLoad <= 1 }},
	{flag: "compile", is: func(s *Setting) bool { return !s.Compile }},
	{flag: "torch", other: "2.15", is: func(s *Setting) bool { return s.PP > 1 && s.Torch == "" }},
	{flag: "torch", other: "2.0", is: func(s *Setting) bool { return s.Torch == "" }},
}

// unlikely are those that a run has for a reason, which a verdict doesn't wait for.
var unlikely = map[string]bool{"attention": true, "keep-gradients": true, "torch": true, "framework": true, "expert-load": true}

// worthNaming is the part of the peak from which on an assumption is named.
const worthNaming = 0.02

// Band is how much more than the figure a device may end up taking, by what no flag said.
type Band struct {
	More  int64
	Flags string // of what would take the most more
}

// Verdicts of a setting on a device.
const (
	Fitting   = "fits"
	Tight     = "tight"   // with less to spare than published measurements were off
	Depending = "depends" // on something that no flag said
	Short     = "short"   // it doesn't fit
)

// Verdict judges a budget on a device: by the figure, by how far published measurements of its kind were off, and by the band.
func (b *Budget) Verdict(g gpus.GPU, band Band) string {
	spare := g.Capacity - b.need(g)
	switch {
	case spare < 0:
		return Short
	case b.Setting.Engine != "" || b.Setting.Inference:
		return Fitting
	case band.More > spare:
		return Depending
	case float64(spare) < b.errorOf()*float64(b.Reserved):
		return Tight
	}
	return Fitting
}

// PublishedErrors are how far off published measurements of trainings were, in whole percent of which three of four
// were nearer (doc/budget-accuracy.md has each; its test works these out).
var PublishedErrors = map[string]float64{oneGPU: 0.07, severalGPUs: 0.08, flatSharding: 0.11}

// Kinds of training that errors are told for.
const (
	oneGPU       = "one GPU"
	severalGPUs  = "several GPUs"
	flatSharding = "several GPUs, FSDP1"
)

// errorUnmeasured is what notes say of a setting with a part that isn't within 5 % of anything measured.
const errorUnmeasured = 0.15

// guesses are such parts, of a training.
var guesses = []struct {
	what  string
	holds func(p *plan) bool
}{
	{"the family's steps (its parameters are exact)", func(p *plan) bool { return network.Unmeasured(p.model.Config.Type) }},
	{"asynchronous tensor parallelism's buffers", func(p *plan) bool { return p.symmetric() > 0 }},
	{"zbv, whose last ranks take up to a sixth more", func(p *plan) bool { return p.Schedule == "zbv" && p.PP > 1 }},
	{"CUDA graphs on many GPUs", func(p *plan) bool { return p.CUDAGraphs && p.GPUs > 1 }},
	{"8-bit weights that ZeRO 3 shards", func(p *plan) bool { return p.inMixedInt8() && p.sharded() }},
	{"ZeRO 3 with few tokens", func(p *plan) bool { return p.deepspeed() && p.Zero == 3 && p.Batch*p.Sequence <= fewTokens }},
	{"all-gathers without a limit", func(p *plan) bool { return p.flatUnits() && p.FreeGathers }},
	{"Megatron-LM's context parallelism", func(p *plan) bool { return p.megatron() && p.CP > 1 }},
	{"the families' experts beside products in 8 bits", func(p *plan) bool {
		return (p.Float8 || p.MXFP8) && p.whole.ByRole[network.RoleExpert] > 0
	}},
}

// fewTokens is up to how many ZeRO 3 was recorded with less than is said.
const fewTokens = 1024

// guess notes which parts of a training are no nearer than that to what was measured.
func (b *Budget) guess(p *plan) {
	var of []string
	for _, g := range guesses {
		if !p.Inference && g.holds(p) {
			of = append(of, g.what)
		}
	}
	if b.guessed = len(of) > 0; b.guessed {
		b.note("±15 %%, as nothing measured is within 5 %% of it: %s", strings.Join(of, ", "))
	}
}

func (b *Budget) errorOf() float64 {
	kind := oneGPU
	switch s := b.Setting; {
	case s.GPUs > 1 && s.FSDP != "" && s.FSDPVersion == 1:
		kind = flatSharding
	case s.GPUs > 1:
		kind = severalGPUs
	}
	if b.guessed {
		return errorUnmeasured
	}
	return PublishedErrors[kind]
}

// Assumed names what a training's budget takes for granted though it moves the peak by more
// than 2 %, with what each would make of it, the largest first; "" without any. Flags that
// are given are no assumptions.
func Assumed(c *Config, b *Budget, given func(flag string) bool) (note string, band Band) {
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
		s.Reserve, s.Fullest = 1, b.fullest
		x, err := Compute(c, s)
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
