package budget

import (
	"strings"
	"testing"
)

// TestFrozenNames: what a list of names leaves alone has no gradient and no state, in the first stack and in the second.
func TestFrozenNames(t *testing.T) {
	for _, tt := range []struct {
		family string
		s      Setting
		want   func(name string) bool // of those that are trained
	}{
		{"llama", Setting{Frozen: `model\.embed_tokens, .*norm`},
			func(n string) bool {
				return !strings.HasPrefix(n, "model.embed_tokens") && !strings.Contains(n, "norm")
			}},
		{"llama", Setting{Trained: "-1,lm_head"},
			func(n string) bool { return strings.HasPrefix(n, "model.layers.1.") || strings.HasPrefix(n, "lm_head") }},
		{"llama", Setting{Trained: "1"}, func(n string) bool { return strings.HasPrefix(n, "model.layers.0.") }},
		{"whisper", Setting{Frozen: `model\.encoder`}, func(n string) bool { return !strings.HasPrefix(n, "model.encoder") }},
	} {
		c := smallConfig(t, tt.family)
		mod, err := c.network()
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		for _, q := range mod.Params {
			if q.Trainable && tt.want(q.Name) {
				want += q.Elements()
			}
		}
		tt.s.Sequence = 16
		b, err := Compute(c, tt.s)
		if err != nil {
			t.Fatal(tt, err)
		}
		if b.Model.Trainable != want || want == 0 {
			t.Errorf("%s %q %q: %d trained, want %d", tt.family, tt.s.Frozen, tt.s.Trained, b.Model.Trainable, want)
		}
	}
	for text, s := range map[string]Setting{"is no expression": {Frozen: "("}, "names none": {Frozen: "nothing"},
		"nothing to train": {Frozen: ".*"}, "leave --inference": {Frozen: "model", LoRA: 4}, "at most": {Trained: strings.Repeat("a,", 3000)}} {
		if _, err := Compute(smallConfig(t, "llama"), s); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
