package recipe

import (
	"slices"
	"strings"
)

// Together are the flags of some files of one run, of which a later one wins. What the
// Trainer computes in 16 bits, DeepSpeed keeps in 16 bits, too, beside a float32 copy.
func Together(rs []*Recipe) []Flag {
	var all []Flag
	set := func(g Flag) {
		all = append(slices.DeleteFunc(all, func(h Flag) bool { return h.Name == g.Name }), g)
	}
	for _, r := range rs {
		for _, g := range r.Flags() {
			set(g)
		}
	}
	if zero := valueOf(all, "zero"); zero != "" && zero != "0" {
		width, mixed := strings.CutSuffix(valueOf(all, "precision"), "-mixed")
		if mixed || (width == "bf16" || width == "fp16") && valueOf(all, "lora") == "" {
			set(Flag{"precision", width})
			set(Flag{"master-weights", "true"})
		}
	}
	return all
}

func valueOf(flags []Flag, name string) string {
	for _, g := range flags {
		if g.Name == name {
			return g.Value
		}
	}
	return ""
}
