package search

import (
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// TestEngine: a server starts if its share holds weights, activations and one request, and what is left beside these is cache.
// The log of vLLM 0.6.6 on an H100 with 0.98 of it says 22,096 tokens of a 70B in 8 bits, 10.8 requests of 2,048.
func TestEngine(t *testing.T) {
	const w8a8 = `{"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
		"num_key_value_heads": 8, "vocab_size": 128256, "quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
		"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel"}}}}}`
	c, err := budget.ReadConfig(strings.NewReader(w8a8))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gpus.Find("H100 80GB")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		s      budget.Setting
		fits   bool
		tokens int64 // 0: not known from elsewhere
	}{
		{budget.Setting{Engine: "vllm", Share: 0.98, Context: 2048}, true, 22096},
		{budget.Setting{Engine: "vllm", Share: 0.8, Context: 2048}, false, 0},
		{budget.Setting{Engine: "vllm", Share: 0.98, Context: 131072}, false, 0},
		{budget.Setting{Engine: "sglang", Share: 0.95, Context: 2048}, true, 0},
	} {
		tt.s.GPU = "H100 80GB"
		fits, err := Fits(c, tt.s, []gpus.GPU{g})
		if err != nil {
			t.Fatal(err)
		}
		f := fits[0]
		if f.Fits != tt.fits || f.Fits != (f.MaxTokens >= tt.s.Context) {
			t.Errorf("%+v: fits %v with %d tokens", tt.s, f.Fits, f.MaxTokens)
		}
		if off := float64(f.MaxTokens)/float64(max(tt.tokens, 1)) - 1; tt.tokens > 0 && math.Abs(off) > 0.02 {
			t.Errorf("%d tokens, %+.0f %%", f.MaxTokens, 100*off)
		}
	}
	// What vLLM printed for Llama 3.1 8B on an RTX 3090 with 0.9 of it, prompts in one piece: 29,000 tokens don't fit.
	small, err := gpus.Find("RTX 3090 24GB")
	if err != nil {
		t.Fatal(err)
	}
	c8, err := budget.ReadConfig(strings.NewReader(`{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
		"intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}`))
	if err != nil {
		t.Fatal(err)
	}
	for context, tokens := range map[int64]int64{20000: 31232, 29000: 23648} {
		fits, err := Fits(c8, budget.Setting{Engine: "vllm", Share: 0.9, Context: context, Tokens: context, Precision: "bf16", GPU: small.Name},
			[]gpus.GPU{small})
		if err != nil {
			t.Fatal(err)
		}
		if off := float64(fits[0].MaxTokens)/float64(tokens) - 1; math.Abs(off) > 0.05 || fits[0].Fits != (tokens > context) {
			t.Errorf("%d tokens at once: fits %v, %d of cache, %+.1f %%", context, fits[0].Fits, fits[0].MaxTokens, 100*off)
		}
	}
	s := budget.Setting{Context: 1000, Shared: 0.5}
	if n := budget.AtOnce(s, 2500); n != 4 {
		t.Errorf("%v requests that share half, want 4", n)
	}
	b, err := budget.Compute(c, budget.Setting{Engine: "vllm", Context: 2048})
	if err != nil || math.Abs(float64(b.WeightsBytes)/72716910173-1) > 0.01 {
		t.Errorf("%v: weights of %d", err, b.WeightsBytes)
	}
}
