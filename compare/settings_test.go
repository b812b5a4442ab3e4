package compare

import (
	"fmt"
	"math"
	"testing"
)

// small is a model of testdata/scenarios/settings.py.
const small = `"vocab_size": 5000, "max_position_embeddings": 1024, "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": %d, "num_key_value_heads": %d, "intermediate_size": %d`

func smallConfig(family, kind string, heads, kv, inner int) string {
	return fmt.Sprintf(`{"model_type": %q, "architectures": [%q], `+small+`}`, family, kind, heads, kv, inner)
}

// TestSettings: trainings of small models, most of them recorded without stacks. The
// setting is read from the recording alone, and the peak is its budget's.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		recording, config string
		batch, sequence   int64
		setting           map[string]any
	}{
		{"phi3_eager__none", smallConfig("phi3", "Phi3ForCausalLM", 8, 2, 1024), 3, 300,
			map[string]any{"precision": "bf16", "attention": "eager", "optimizer": "adamw-fused", "padding": false}},
		{"cohere2_masked__none", smallConfig("cohere2", "Cohere2ForCausalLM", 8, 8, 1280), 3, 300, // logits that are scaled
			map[string]any{"precision": "bf16-mixed", "attention": "sdpa", "optimizer": "rmsprop", "padding": true, "drop_outputs": false}},
		{"llama_adagrad__python", smallConfig("llama", "LlamaForCausalLM", 8, 2, 1024), 4, 257, // state older than the recording
			map[string]any{"precision": "bf16", "attention": "eager", "optimizer": "adagrad"}},
		{"qwen2_sgd__none", smallConfig("qwen2", "Qwen2ForCausalLM", 8, 2, 1024), 2, 500, // no state
			map[string]any{"precision": "fp32", "attention": "sdpa", "optimizer": "sgd", "padding": true}},
		{"gpt2_amsgrad__python", smallConfig("gpt2", "GPT2LMHeadModel", 8, 8, 2048), 5, 70, // a third moment
			map[string]any{"precision": "bf16", "attention": "eager", "optimizer": "adamw-amsgrad", "accumulate": int64(2)}},
		{"granite_scaled__none", smallConfig("granite", "GraniteForCausalLM", 16, 2, 1024), 2, 500, // words that are scaled
			map[string]any{"precision": "bf16-mixed", "attention": "eager"}},
	} {
		t.Run(tt.recording, func(t *testing.T) {
			r, err := compareFile(t, "../testdata/scenarios/"+tt.recording+".pickle.gz", tt.config)
			if err != nil {
				t.Fatal(err)
			}
			if off := float64(r.Measured.PeakBytes)/float64(r.Expected.PeakBytes) - 1; math.Abs(off) > 0.001 {
				t.Errorf("the peak is off by %+.2f %%", 100*off)
			}
			if b, s := r.Setting["batch"], r.Setting["sequence"]; b != tt.batch || s != tt.sequence {
				t.Errorf("batch %v x sequence %v, want %d x %d", b, s, tt.batch, tt.sequence)
			}
			for name, want := range tt.setting {
				if got := r.Setting[name]; got != want {
					t.Errorf("%s: %v, want %v; read: %q", name, got, want, r.Inferred)
				}
			}
		})
	}
}
