package budget

import (
	"strings"
	"testing"
)

// Adapters stand on the layers that the names match, in every tower, as PEFT
// puts them; a name that matches nothing is refused.
func TestLoRATargets(t *testing.T) {
	const q, v = 32 * 8 * (4096 + 4096), 32 * 8 * (4096 + 1024) // of Llama 3.1 8B at rank 8
	clip := map[string]any{"model_type": "clip"}
	for _, tt := range []struct {
		config  map[string]any
		targets string
		want    int64
		refused string
	}{
		{llama31, "q_proj", q, ""},
		{llama31, "q_proj,v_proj", q + v, ""},
		{llama31, "q_proj, v_proj", q + v, ""},
		{llama31, " v_proj ,q_proj,", q + v, ""},
		{llama31, "qv", q + v, ""},
		{llama31, "self_attn.q_proj", q, ""},
		{llama31, "layers.3.self_attn.q_proj", q / 32, ""},
		{llama31, "q_proj,nonsense", 0, `"nonsense" is none of`},
		{llama31, "q_proj,attn.v_proj", 0, `"attn.v_proj" is none of`},
		{llama31, "proj", 0, "down_proj gate_proj k_proj lm_head o_proj q_proj up_proj v_proj"},
		{llama31, " , ", 0, "names none"},
		{clip, "q_proj,v_proj", 491520, ""},
		{clip, "qv", 491520, ""},
		{map[string]any{"model_type": "mamba"}, "qv", 0, "names none"},
		{map[string]any{"model_type": "qwen2_moe"}, "shared_expert_gate", 24 * 8 * 2049, ""},
	} {
		t.Run(tt.config["model_type"].(string)+" "+tt.targets, func(t *testing.T) {
			c, err := newConfig(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Compute(c, Setting{Sequence: 16, LoRA: 8, LoRATargets: tt.targets})
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil || b.Model.Trainable != tt.want {
				t.Fatalf("%d parameters are trained, want %d (%v)", b.Model.Trainable, tt.want, err)
			}
			checkBudget(t, tt.targets, b)
			nothingStays(t, c, Setting{Sequence: 16, LoRA: 8, LoRATargets: tt.targets})
		})
	}
}
