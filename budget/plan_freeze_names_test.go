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
	for text, s := range map[string]Setting{"is no expression": {Frozen: "("}, `")|(" is no`: {Trained: ")|("},
		"too large": {Frozen: `(model\.[a-z]{9}){50}`}, `"a{1000}" is too large`: {Frozen: "a{1000}"},
		"at most 64": {Frozen: strings.Repeat("model,", 65)},
		"names none": {Frozen: "nothing"},

		"nothing to train": {Frozen: ".*"}, "leave --inference": {Frozen: "model", LoRA: 4}, "at most": {Trained: strings.Repeat("a,", 3000)}} {
		if _, err := Compute(smallConfig(t, "llama"), s); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFrozenNamesOfFiles: names of a recipe that no weight has are noted, and leave what they say nothing of as it was.
func TestFrozenNamesOfFiles(t *testing.T) {
	c := smallConfig(t, "llama")
	all, err := Count(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		s    Setting
		less bool
		note string
	}{
		{Setting{Frozen: `base_model\.`}, false, `no weight of this model is called "base_model\\."`},
		{Setting{Frozen: `model\.embed_tokens,nobody`}, true, `is called "nobody"`},
		{Setting{Trained: "lm_head,nobody"}, true, `is called "nobody"`},
		{Setting{Trained: "nobody"}, false, "leaves nothing to train"},
		{Setting{Frozen: ".*"}, false, "leaves nothing to train"},
		{Setting{Frozen: `model\.layers\.[0,1]\., model\.n{1,2}orm`}, true, ""},
	} {
		tt.s.Sequence, tt.s.NamesByFile = 16, true
		b, err := Compute(c, tt.s)
		if err != nil {
			t.Fatal(tt, err)
		}
		notes := strings.Join(b.Notes, "\n")
		if less := b.Model.Trainable < all.Total; less != tt.less || !strings.Contains(notes, tt.note) ||
			tt.note == "" && strings.Contains(notes, "is called") {
			t.Errorf("%q %q: %d of %d trained\n%s", tt.s.Frozen, tt.s.Trained, b.Model.Trainable, all.Total, notes)
		}
	}
	if b, err := Compute(c, Setting{Frozen: "model", LoRA: 4, Sequence: 16, NamesByFile: true}); err != nil || b.Model.Trainable == 0 {
		t.Error(err)
	}
}
