package budget

import (
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/gpus"
)

// TestEngine: a server starts if its share holds weights, activations and one request, and what is left beside these is cache.
// The log of vLLM 0.6.6 on an H100 with 0.98 of it says 22,096 tokens of a 70B in 8 bits, 10.8 requests of 2,048.
func TestEngine(t *testing.T) {
	const w8a8 = `{"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
		"num_key_value_heads": 8, "vocab_size": 128256, "quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
		"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel"}}}}}`
	c, err := ReadConfig(strings.NewReader(w8a8))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gpus.Find("H100 80GB")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		s      Setting
		fits   bool
		tokens int64 // 0: not known from elsewhere
	}{
		{Setting{Engine: "vllm", Share: 0.98, Context: 2048}, true, 22096},
		{Setting{Engine: "vllm", Share: 0.8, Context: 2048}, false, 0},
		{Setting{Engine: "vllm", Share: 0.98, Context: 131072}, false, 0},
		{Setting{Engine: "sglang", Share: 0.95, Context: 2048}, true, 0},
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
		if off := float64(f.MaxTokens)/float64(max(tt.tokens, 1)) - 1; tt.tokens > 0 && math.Abs(off) > 0.1 {
			t.Errorf("%d tokens, %+.0f %%", f.MaxTokens, 100*off)
		}
	}
	s := Setting{Context: 1000, Shared: 0.5}
	if n := s.atOnce(2500); n != 4 {
		t.Errorf("%v requests that share half, want 4", n)
	}
	b, err := Compute(c, Setting{Engine: "vllm", Context: 2048})
	if err != nil || math.Abs(float64(b.WeightsBytes)/72716910173-1) > 0.01 {
		t.Errorf("%v: weights of %d", err, b.WeightsBytes)
	}
}

// TestCompressed: groups, zeros and expressions of what stays.
func TestCompressed(t *testing.T) {
	of := func(config string) *quantization {
		c, err := ReadConfig(strings.NewReader(`{"model_type": "llama", "quantization_config": ` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return c.quantization()
	}
	group := func(weights string) string {
		return `{"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*mlp[.]gate$"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": ` + weights + `}}}`
	}
	for _, tt := range []struct {
		config string
		bytes  int64 // of 256 rows and 512 columns, -1: not known
	}{
		{group(`{"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", "group_size": 128}`), 256*256 + 256*4*2},
		{group(`{"num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 128}`), 256*256 + 256*4*2 + 256*4/2},
		{group(`{"num_bits": 8, "type": "float", "symmetric": true, "strategy": "tensor"}`), 256*512 + 2},
		{group(`{"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}`), 256*512 + 2*4*2},
		{group(`{"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}`), 256*256 + 256*32},
		{group(`{"num_bits": 3, "type": "int"}`), -1},
		{`{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}`, 256*256 + 256*32 + 8},
		{`{"quant_method": "modelopt", "quant_algo": "FP8"}`, 256*512 + 4},
	} {
		z := of(tt.config)
		if z.matrix == nil {
			if tt.bytes >= 0 {
				t.Errorf("%s: not known", tt.config)
			}
			continue
		}
		if n := z.matrix(256, 512); n != tt.bytes {
			t.Errorf("%s: %d bytes, want %d", tt.config, n, tt.bytes)
		}
	}
	z := of(group(`{"num_bits": 8, "type": "int"}`))
	for name, want := range map[string]bool{"model.layers.0.mlp.gate.weight": false, "model.layers.0.mlp.gate_proj.weight": true,
		"model.layers.0.self_attn.q_proj.weight": true} {
		if got := z.packs(&parameter{Tensor: Tensor{Name: name, Shape: []int64{8, 8}, Role: RoleMLP}}); got != want {
			t.Errorf("%s is packed: %v", name, got)
		}
	}
}
