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
	for _, g := range sharded(rs, all) {
		set(g)
	}
	return all
}

// sharded are the types that weights of 16 bits have where DeepSpeed or Accelerate's FSDP divides them.
func sharded(rs []*Recipe, all []Flag) []Flag {
	width, mixed := strings.CutSuffix(valueOf(all, "precision"), "-mixed")
	full := (width == "bf16" || width == "fp16") && valueOf(all, "lora") == ""
	switch zero := valueOf(all, "zero"); {
	case zero != "" && zero != "0" && (mixed || full):
		return []Flag{{"precision", width}, {"master-weights", "true"}}
	case full && widens(rs, all):
		return []Flag{{"precision", width + "-mixed"}}
	}
	return nil
}

// widens says whether Accelerate's FSDP makes float32 weights of what is trained.
func widens(rs []*Recipe, all []Flag) bool {
	return slices.ContainsFunc(rs, func(r *Recipe) bool { return r.autocasts }) && valueOf(all, "fsdp") != "" &&
		valueOf(all, "lora") == "" && settings.ProfileOf(cmp.Or(valueOf(all, "framework"), settings.Fallback)).Widens
}

// widened says so where a file has weights in 16 bits.
func widened(rs []*Recipe, all []Flag) (said []string) {
	narrow := func(r *Recipe) bool { return strings.HasSuffix(valueOf(r.Flags(), "precision"), "16") }
	if strings.HasSuffix(valueOf(all, "precision"), "-mixed") && widens(rs, all) && slices.ContainsFunc(rs, narrow) {
		said = []string{"what is trained lies in 32 bits, whatever it was loaded in: Accelerate's FSDP with mixed precision on"}
	}
	return said
}

// Contradictions are the fields of which files of one run say different things, with who says what, and types that are
// computed in where weights have another.
func Contradictions(names []string, rs []*Recipe) (said []string) {
	type word struct{ file, field, value string }
	first := map[string]word{}
	all := Together(rs)
	kept := valueOf(all, "precision")
	said = widened(rs, all)
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
