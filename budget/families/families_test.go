package families

import (
	"slices"
	"testing"
)

// TestWeights: every part of weights.txt lists weights of sizes that come out of its fields.
func TestWeights(t *testing.T) {
	for part := range parts() {
		all, err := Weights(part, "clip_vision_model", func(string) int64 { return 8 })
		if err != nil || len(all) < 3 {
			t.Errorf("%s: %d weights, %v", part, len(all), err)
		}
		for _, w := range all {
			if len(w.Shape) == 0 || slices.Min(w.Shape) <= 0 || w.Layer >= 8 {
				t.Errorf("%s: %+v", part, w)
			}
		}
	}
	if _, err := Weights("nothing", "", nil); err == nil {
		t.Error("a part that isn't there is listed")
	}
}

// TestBounds: a count that no model has ends in an error, and a size that no number holds in 0.
func TestBounds(t *testing.T) {
	if all, err := Weights("siglip_vision_model", "", func(string) int64 { return 1 << 62 }); err == nil || len(all) > most {
		t.Errorf("%d weights, %v", len(all), err)
	}
}

// TestDepth: a part that is in itself, as its own encoder, ends in an error, and none but encoders of images is one.
func TestDepth(t *testing.T) {
	if _, err := Weights("llava", "llava", func(string) int64 { return 8 }); err == nil {
		t.Error("a part is in itself")
	}
	for _, part := range []string{"llava", "llava_next", "siglip_layers", "qwen2_vl", ""} {
		if Sees(part) {
			t.Errorf("%s is an encoder of images", part)
		}
	}
	for _, part := range eyes {
		if parts()[part] == nil {
			t.Errorf("%s isn't listed", part)
		}
	}
}

func TestValue(t *testing.T) {
	l := &list{field: func(name string) int64 { return map[string]int64{"a": 7, "b": 2}[name] }, sizes: map[string]int64{"c": 3}}
	for s, want := range map[string]int64{"a": 7, "5": 5, "a+b*c": 13, "(a+b)*c": 27, "a/b": 3, "a-b-c": 2, "(a/b)*(a/b)+1": 10,
		"a/none": 7, "a*9223372036854775807": 0, "1-c": -2} {
		if got := l.value(s); got != want {
			t.Errorf("%s: %d, want %d", s, got, want)
		}
	}
}
