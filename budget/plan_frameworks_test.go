package budget

import (
	"strings"
	"testing"
)

const eightBillion = `{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
	"num_attention_heads": 32, "num_key_value_heads": 8}`

func of(t *testing.T, config string, s Setting) *Budget {
	t.Helper()
	c, err := ReadConfig(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compute(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWideGradients: Megatron-LM's 18 bytes for each parameter of a rank are two of weights, four of gradients and twelve of
// the optimizer, and its optimizer makes no copies.
func TestWideGradients(t *testing.T) {
	s := Setting{Framework: "megatron", TP: 2, GPUs: 2, Optimizer: "adamw-fused", MasterWeights: true, GradientDtype: "fp32"}
	b := of(t, eightBillion, s)
	step := b.Phase(Optimizer)
	for i, per := range map[Category]float64{Weights: 2, Gradients: 4, OptimizerState: 12} {
		if got := float64(step.Categories[i]) / (float64(b.Model.Parameters) / 2); got < per || got > per*1.001 {
			t.Errorf("%v: %.4f bytes a parameter, want %.0f", i, got, per)
		}
	}
	if step.Categories[Temporary] != 0 {
		t.Errorf("the step takes %d", step.Categories[Temporary])
	}
	if f := b.Phase(Forward).Categories[Gradients]; f != step.Categories[Gradients] {
		t.Errorf("gradients of %d in forward, %d in the step", f, step.Categories[Gradients])
	}
	s.Accumulate = 4
	if four := of(t, eightBillion, s); four.PeakBytes != b.PeakBytes {
		t.Errorf("accumulated, the peak is %d, not %d", four.PeakBytes, b.PeakBytes)
	}
}

// TestAttentionWithoutSDPA: gpt-oss writes its scores out unless a kernel is named.
func TestAttentionWithoutSDPA(t *testing.T) {
	const oss = `{"model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 512, "intermediate_size": 512, "num_local_experts": 4}`
	peak := map[string]int64{}
	for _, how := range []string{"eager", "sdpa", "flash", "flex"} {
		peak[how] = of(t, oss, Setting{Attention: how, Sequence: 4096}).PeakBytes
	}
	if peak["eager"] != peak["sdpa"] || peak["flash"] != peak["flex"] || peak["sdpa"]-peak["flash"] < 4<<30 {
		t.Error(peak)
	}
}

// TestContextParallel: as many tokens a rank take more with more ranks, by all ranks' keys and values.
func TestContextParallel(t *testing.T) {
	s := Setting{Framework: "torchtitan", Checkpointing: "full", Loss: "chunked", Sequence: 4096, GPUs: 8, FSDP: "full"}
	one := of(t, eightBillion, s)
	s.CP, s.Sequence = 8, 8*4096
	eight := of(t, eightBillion, s)
	keys := int64(2 * 4096 * 4096 * 2)
	if more := eight.Phase(Forward).Peak - one.Phase(Forward).Peak; more < 0 || more > 9*keys {
		t.Errorf("%d more for gathered keys and values of %d", more, 9*keys)
	}
	if more := eight.Phase(Backward).Peak - one.Phase(Backward).Peak; more < 4*keys || more > 16*keys {
		t.Errorf("backward takes %d more, keys and values of a rank are %d", more, keys)
	}
}

func mustConfig(t *testing.T) *Config {
	t.Helper()
	c, err := ReadConfig(strings.NewReader(eightBillion))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUnknownFramework: a name that nobody has is refused.
func TestUnknownFramework(t *testing.T) {
	if _, err := Compute(mustConfig(t), Setting{Framework: "nonesuch@1"}); err == nil || !strings.Contains(err.Error(), "--framework \"nonesuch@1\"") {
		t.Error(err)
	}
}

// TestHostAhead: where the GPU is behind, what FSDP1 has gathered is free later, and nothing else changes; FSDP2 knows when.
func TestHostAhead(t *testing.T) {
	for version, more := range map[int]bool{1: true, 2: false} {
		s := Setting{FSDP: "full", FSDPVersion: version, GPUs: 2, Precision: "bf16", Checkpointing: "full", LoRA: 16, LoRADtype: "model", Batch: 2}
		with := of(t, eightBillion, s)
		s.HostAhead = true
		behind := of(t, eightBillion, s)
		if behind.PeakBytes != with.PeakBytes || behind.Reserved < with.Reserved || more != (behind.Reserved > with.Reserved) {
			t.Errorf("FSDP%d: reserved %d, %d with a GPU that is behind; peaks %d, %d", version, with.Reserved, behind.Reserved, with.PeakBytes, behind.PeakBytes)
		}
	}
}
