package budget

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
)

// assumption is what a setting takes for granted unless a flag says otherwise.
type assumption struct {
	flag, other string              // the flag, and what else it may say
	vary        func(*Setting) bool // makes it so; false: it isn't assumed here
}

// turnOn makes so what is off.
func turnOn(field func(*Setting) *bool) func(*Setting) bool {
	return func(s *Setting) bool {
		is := field(s)
		was := *is
		*is = true
		return !was
	}
}

// say gives a setting a word, in the place of what may be assumed.
func say(field func(*Setting) *string, word string, assumed func(string) bool) func(*Setting) bool {
	return func(s *Setting) bool {
		is := field(s)
		was := *is
		*is = word
		return assumed(was)
	}
}

// assumptions are those that may move a training's figures.
var assumptions = []assumption{
	{"optimizer", "", func(s *Setting) bool {
		_, ok := optimizers[s.Optimizer+"-fused"]
		s.Optimizer += "-fused"
		return ok
	}},
	{"attention", "eager", say(func(s *Setting) *string { return &s.Attention }, "eager",
		func(was string) bool { return was != "eager" })},
	{"loss", "fused", say(func(s *Setting) *string { return &s.Loss }, "fused",
		func(was string) bool { return was == "default" })},
	{"loss", "shifted", say(func(s *Setting) *string { return &s.Loss }, "shifted",
		func(was string) bool { return was == "cross-entropy" })},
	{"framework", "transformers", func(s *Setting) bool {
		was, whole := s.Framework, s.unsaid && s.Compile
		s.Framework, s.unsaid = "transformers", false
		if ProfileOf(was).dropsOutputs {
			s.DropOutputs = false
		}
		return was != s.Framework || whole
	}},
	{"framework", "torchtune", say(func(s *Setting) *string { return &s.Framework }, "torchtune",
		func(was string) bool { return was == fallback })},
	{"drop-outputs", "", turnOn(func(s *Setting) *bool { return &s.DropOutputs })},
	{"padding", "", turnOn(func(s *Setting) *bool { return &s.Padding })},
	{"master-weights", "", func(s *Setting) bool {
		was := s.MasterWeights
		s.MasterWeights = true
		return !was && !s.adapts() && (s.Precision == "bf16" || s.Precision == "fp16")
	}},
	{"keep-gradients", "", turnOn(func(s *Setting) *bool { return &s.KeepGradients })},
	{"trainer", "", func(s *Setting) bool {
		was := s.Trainer
		s.Trainer, s.DropOutputs = true, true
		return !was
	}},
	{"lora-dtype", "model", func(s *Setting) bool {
		was := s.LoRADtype
		s.LoRADtype = "model"
		return s.adapts() && was != "model"
	}},
	{"lora-dropout", "0.05", func(s *Setting) bool {
		was := s.LoRADropout
		s.LoRADropout = 0.05
		return s.LoRA > 0 && was == 0
	}},
	{"plain-scales", "", func(s *Setting) bool {
		was := s.PlainScales
		s.PlainScales = true
		return s.Precision == "int4" && !was
	}},
	{"prepare-kbit", "", func(s *Setting) bool {
		was := s.PrepareKbit
		s.PrepareKbit = true
		return s.Precision == "int4" && !was
	}},
	{"expert-load", "2", func(s *Setting) bool {
		was := s.ExpertLoad
		s.ExpertLoad = 2
		return s.EP > 1 && was <= 1
	}},
	{"compile", "", turnOn(func(s *Setting) *bool { return &s.Compile })},
	{"torch", "2.15", func(s *Setting) bool {
		was := s.Torch
		s.Torch = "2.15"
		return s.PP > 1 && was == ""
	}},
	{"torch", "2.0", say(func(s *Setting) *string { return &s.Torch }, "2.0", func(was string) bool { return was == "" })},
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
	{"the family's steps (its parameters are exact)", func(p *plan) bool { return unmeasured(p.model.config.Type) }},
	{"asynchronous tensor parallelism's buffers", func(p *plan) bool { return p.symmetric() > 0 }},
	{"zbv, whose last ranks take up to a sixth more", func(p *plan) bool { return p.Schedule == "zbv" && p.PP > 1 }},
	{"CUDA graphs on many GPUs", func(p *plan) bool { return p.CUDAGraphs && p.GPUs > 1 }},
	{"8-bit weights that ZeRO 3 shards", func(p *plan) bool { return p.inMixedInt8() && p.sharded() }},
	{"ZeRO 3 with few tokens", func(p *plan) bool { return p.deepspeed() && p.Zero == 3 && p.Batch*p.Sequence <= fewTokens }},
	{"all-gathers without a limit", func(p *plan) bool { return p.flatUnits() && p.FreeGathers }},
	{"Megatron-LM's context parallelism", func(p *plan) bool { return p.megatron() && p.CP > 1 }},
	{"the families' experts beside products in 8 bits", func(p *plan) bool {
		return (p.Float8 || p.MXFP8) && p.whole.ByRole[RoleExpert] > 0
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
		s.reserve, s.fullest = 1, b.fullest
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
