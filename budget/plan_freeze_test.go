package budget

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/network"
)

// TestFreezeVision: without their encoder of images there are gradients and state for the language model alone, also in a network
// that was used before; of a model that sees none nothing is frozen.
func TestFreezeVision(t *testing.T) {
	c := smallConfig(t, "qwen2_vl")
	whole, err := Compute(c, Setting{Sequence: 16})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Count(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, err := Compute(c, Setting{Sequence: 16, FreezeVision: true})
		if err != nil {
			t.Fatal(err)
		}
		want := n.Total - n.ByRole[network.RoleVision]
		if b.Model.Trainable != want || whole.Model.Trainable != n.Total || b.PeakBytes >= whole.PeakBytes {
			t.Errorf("%d trained, want %d; at the peak %d, with all %d", b.Model.Trainable, want, b.PeakBytes, whole.PeakBytes)
		}
		if whole, err = Compute(c, Setting{Sequence: 17}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := Compute(smallConfig(t, "llama"), Setting{FreezeVision: true}); err != nil || b.Model.Trainable != b.Model.Parameters {
		t.Error(b.Model, err)
	}
}

// TestPromptsRefused names the flag that a user can change.
func TestPromptsRefused(t *testing.T) {
	for want, s := range map[string]Setting{"--batch-tokens -1": {Engine: "vllm", Tokens: -1},
		"--batch-tokens 1099511627776": {Engine: "vllm", Tokens: 1 << 40},
		"--context 4096":               {Engine: "vllm", Context: 4096, Tokens: 4096}} {
		c, err := newConfig(map[string]any{"model_type": "gpt2"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compute(c, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
