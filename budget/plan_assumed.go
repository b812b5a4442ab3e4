package budget

import (
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/gpus"
)

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
	spare := g.Capacity - b.Need(g)
	switch {
	case spare < 0:
		return Short
	case b.Setting.Engine != "" || b.Setting.Inference:
		return Fitting
	case band.More > spare:
		return Depending
	case float64(spare) < b.ErrorOf()*float64(b.Reserved):
		return Tight
	}
	return Fitting
}

// PublishedErrors are how far off published measurements of trainings were, in whole percent of which three of four
// were nearer (doc/budget-accuracy.md has each; its test works these out).
var PublishedErrors = map[string]float64{oneGPU: 0.07, severalGPUs: 0.09, flatSharding: 0.09}

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

// ErrorOf is how far off published measurements of its kind were, as a share of what is reserved.
func (b *Budget) ErrorOf() float64 {
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
