package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/settings"
)

// Together are the flags of some files of one run, of which a later one wins, but what is computed in says nothing of how
// weights lie: Accelerate's and DeepSpeed's types count where no other file has one. What the Trainer computes in 16 bits,
// DeepSpeed keeps in 16 bits, too, beside a float32 copy, and Accelerate's FSDP in 32 bits what is trained of it
// (Accelerator.prepare_model, fsdp2_prepare_model).
func Together(rs []*Recipe) []Flag {
	var all []Flag
	set := func(g Flag) {
		all = append(slices.DeleteFunc(all, func(h Flag) bool { return h.Name == g.Name }), g)
	}
	var loaded, computed string
	for _, r := range rs {
		for _, g := range r.Flags() {
			switch {
			case g.Name != "precision":
			case r.computes:
				computed = g.Value
				continue
			default:
				loaded = g.Value
			}
			set(g)
		}
	}
	if loaded == "" || loaded == "fp32" && strings.HasSuffix(computed, "16-mixed") {
		loaded = computed
	}
	if loaded != "" {
		set(Flag{"precision", loaded})
	}
	if zero := valueOf(all, "zero"); zero != "" && zero != "0" {
		width, mixed := strings.CutSuffix(valueOf(all, "precision"), "-mixed")
		if mixed || (width == "bf16" || width == "fp16") && valueOf(all, "lora") == "" {
			set(Flag{"precision", width})
			set(Flag{"master-weights", "true"})
		}
	}
	if p := valueOf(all, "precision"); (p == "bf16" || p == "fp16") && widens(rs, all) {
		set(Flag{"precision", p + "-mixed"})
	}
	return all
}

// widens says whether Accelerate's FSDP makes float32 weights of what is trained. Axolotl has a function of its own in the place
// of Accelerate's.
func widens(rs []*Recipe, all []Flag) bool {
	framework := cmp.Or(valueOf(all, "framework"), settings.Fallback)
	return slices.ContainsFunc(rs, func(r *Recipe) bool { return r.autocasts }) && valueOf(all, "fsdp") != "" &&
		valueOf(all, "lora") == "" && framework != "axolotl" && settings.ProfileOf(framework).Accelerates
}

// Contradictions are the fields of which files of one run say different things, with who says what, and types that are
// computed in where weights have another.
func Contradictions(names []string, rs []*Recipe) (said []string) {
	type word struct{ file, field, value string }
	first := map[string]word{}
	all := Together(rs)
	kept := valueOf(all, "precision")
	if strings.HasSuffix(kept, "-mixed") && widens(rs, all) {
		said = append(said, "with mixed precision on, Accelerate's FSDP keeps what is trained in 32 bits, whatever it was loaded in")
	}
	for i, r := range rs {
		p := valueOf(r.Flags(), "precision")
		if r.computes && p != "" && strings.TrimSuffix(p, "-mixed") != strings.TrimSuffix(kept, "-mixed") {
			said = append(said, fmt.Sprintf("%s of %s is what is computed in: weights stay %s", p, names[i], kept))
		}
		mine := map[string]word{}
		for _, x := range r.Fields {
			for _, g := range x.Flags {
				if x.Name == "" || g.Name == "precision" && r.computes {
					continue
				}
				mine[g.Name] = word{names[i], x.Name, g.Value}
			}
		}
		for _, g := range r.Flags() {
			now, ok := mine[g.Name]
			was, before := first[g.Name]
			if !ok || before && was.value == now.value {
				continue
			}
			if before {
				said = append(said, fmt.Sprintf("%s says --%s %s (%s), %s says %s (%s): the latter counts", was.file, g.Name,
					Clipped(was.value), Clipped(was.field), now.file, Clipped(now.value), Clipped(now.field)))
			}
			first[g.Name] = now
		}
	}
	return said
}

func valueOf(flags []Flag, name string) string {
	for _, g := range flags {
		if g.Name == name {
			return g.Value
		}
	}
	return ""
}
