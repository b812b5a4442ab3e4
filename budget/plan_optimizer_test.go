package budget

import (
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/optimizers"
)

// Optimizer state of an 8-billion-parameter llama, in GB (1e9).
func TestOptimizerState(t *testing.T) {
	c, err := newConfig(llama31)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.build()
	if err != nil {
		t.Fatal(err)
	}
	ps := (&plan{}).optTensors(m.Params)
	for _, tt := range []struct {
		name   string
		width  int64
		master bool
		want   string
	}{
		{"sgd", 4, false, "0.00"},
		{"momentum", 4, false, "32.12"},
		{"lion", 2, false, "16.06"},
		{"adamw", 4, false, "64.24"},
		{"adamw", 2, false, "32.12"},
		{"adamw", 2, true, "96.36"}, // float32 moments and master weights: 12 bytes
		{"adamw-amsgrad", 4, false, "96.36"},
		{"adamw-8bit", 2, false, "16.31"},
		{"lion-8bit", 2, false, "8.16"},
		{"adafactor", 4, false, "0.01"},
		{"adam-mini", 4, false, "32.13"},
		{"muon-adamw", 4, false, "36.32"},
		{"galore", 4, false, "10.72"},
		{"galore", 2, false, "5.36"}, // galore_torch: zeros_like of the projected gradient
		{"apollo", 2, false, "12.30"},
		{"apollo-mini", 2, false, "8.42"},
	} {
		for i := range ps {
			ps[i].Width = tt.width
		}
		state, _ := optimizers.Of(tt.name).Bytes(ps, 0, tt.master, false)
		if got := fmt.Sprintf("%.2f", float64(state)/1e9); got != tt.want {
			t.Errorf("%s on %d-byte weights: %s GB, want %s", tt.name, tt.width, got, tt.want)
		}
	}
	if n := modelfile.PackedBytes("int4", 6979321856, false); n/1e7 != 360 { // the linear layers in NF4 with double quantisation
		t.Errorf("NF4: %d bytes, want 3.60 GB", n)
	}
}

// Weights, gradients and state per rank in 16-bit training with float32
// masters, as the ZeRO paper counts them: but with stage 1 DeepSpeed lets most of the
// gradients go before its step.
func TestSharding(t *testing.T) {
	c, err := newConfig(llama31)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		s    Setting
		want string
	}{
		{Setting{}, "128.48"}, {Setting{Zero: 1}, "30.11"}, {Setting{Zero: 2}, "30.11"}, {Setting{Zero: 3}, "16.06"}, {Setting{FSDP: "full"}, "16.06"},
	} {
		s := tt.s
		s.Sequence, s.GPUs, s.MasterWeights, s.Optimizer = 16, 8, true, "adamw-fused"
		b, err := Compute(c, s)
		if err != nil {
			t.Fatal(err)
		}
		k := b.Phase(Optimizer).Categories
		if got := fmt.Sprintf("%.2f", float64(k[Weights]+k[Gradients]+k[OptimizerState])/1e9); got != tt.want {
			t.Errorf("ZeRO %d %s: %s GB, want %s", s.Zero, s.FSDP, got, tt.want)
		}
	}
}

// The cache per token of each attention family, in bytes.
func TestCachePerToken(t *testing.T) {
	for name, tt := range map[string]struct {
		config map[string]any
		kv     string
		want   int64
	}{
		"every head":       {llama2, "", 524288},
		"shared heads":     {llama31, "", 131072},
		"shared, 70B":      {llama70, "", 327680},
		"shared, in fp8":   {llama31, "fp8", 65536},
		"latent":           {map[string]any{"model_type": "deepseek_v3"}, "", 70272},
		"windows still in": {map[string]any{"model_type": "gemma2", "hidden_size": 3584.0, "num_hidden_layers": 42.0, "num_attention_heads": 16.0, "num_key_value_heads": 8.0}, "", 344064},
	} {
		c, err := newConfig(tt.config)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compute(c, Setting{Inference: true, Sequence: 64, KV: tt.kv})
		if err != nil {
			t.Fatal(name, err)
		}
		if b.CacheToken != tt.want {
			t.Errorf("%s: %d bytes per token, want %d", name, b.CacheToken, tt.want)
		}
	}
}

// A layer with a window keeps the whole prompt until the first decoding step.
func TestWindowedCache(t *testing.T) {
	c, err := newConfig(map[string]any{"model_type": "mistral", "sliding_window": 4096.0})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compute(c, Setting{Inference: true, Sequence: 8192, LastLogit: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Phase(Prefill).Categories[KVCache]; got != 8192*131072 {
		t.Errorf("after the prefill %d bytes, want the whole prompt's %d", got, 8192*131072)
	}
	if got := b.Phase(Decode).End - b.WeightsBytes; got > 4096*131072+64<<20 {
		t.Errorf("while decoding %d bytes beside the weights, want about the window's %d", got, 4096*131072)
	}
}

// More of anything never takes less memory.
func TestMemoryGrows(t *testing.T) {
	c, err := newConfig(map[string]any{"model_type": "llama", "num_hidden_layers": 4.0, "hidden_size": 512.0, "num_attention_heads": 8.0, "intermediate_size": 1408.0})
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []Setting{{}, {Precision: "bf16-mixed"}, {Checkpointing: "full"}, {Attention: "eager"}, {Loss: "chunked"}, {LoRA: 8}, {Padding: true}, {Inference: true}, {Inference: true, Cache: "static"}} {
		var last int64
		for _, n := range []int64{1, 2, 3, 5, 8, 13, 64} {
			s := base
			s.Batch, s.Sequence = n, 256
			b, err := Compute(c, s)
			if err != nil {
				t.Fatal(err)
			}
			if b.PeakBytes < last {
				t.Errorf("%+v: batch %d takes %d, less than a smaller one's %d", base, n, b.PeakBytes, last)
			}
			last = b.PeakBytes
		}
	}
}
