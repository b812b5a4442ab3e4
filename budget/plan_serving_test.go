package budget

import "testing"

var (
	flanT5Large  = map[string]any{"model_type": "t5", "d_model": 1024.0, "d_kv": 64.0, "d_ff": 2816.0, "num_layers": 24.0, "num_heads": 16.0, "vocab_size": 32128.0, "feed_forward_proj": "gated-gelu"}
	whisperSmall = map[string]any{"model_type": "whisper", "d_model": 768.0, "encoder_layers": 12.0, "decoder_layers": 12.0, "encoder_attention_heads": 12.0, "decoder_attention_heads": 12.0,
		"encoder_ffn_dim": 3072.0, "decoder_ffn_dim": 3072.0, "vocab_size": 51865.0, "num_mel_bins": 80.0, "max_source_positions": 1500.0, "max_target_positions": 448.0}
)

// What the cache holds after the prompt and while decoding, in KiB.
func TestCacheLengths(t *testing.T) {
	const llamaToken, t5Token, whisperToken = 128, 96, 36
	for _, tt := range []struct {
		name            string
		config          map[string]any
		s               Setting
		prefill, decode int64
	}{
		{"a decoder", llama31, Setting{Sequence: 8192}, 8192 * llamaToken, 8192 * llamaToken},
		{"context alone is the prompt", llama31, Setting{Context: 4096}, 4096 * llamaToken, 4096 * llamaToken},
		{"a context over four ranks", llama31, Setting{Sequence: 8192, CP: 4}, 2048 * llamaToken, 2048 * llamaToken},
		{"with new tokens", llama31, Setting{Sequence: 8192, NewTokens: 5, CP: 4}, 2048 * llamaToken, 2050 * llamaToken},
		{"an encoder's prompt", flanT5Large, Setting{Sequence: 512, DecoderSeq: 16}, (1 + 512) * t5Token, (16 + 512) * t5Token},
		{"a context of the decoder's", flanT5Large, Setting{Sequence: 512, Context: 128}, (1 + 512) * t5Token, (128 + 512) * t5Token},
		{"a context alone", flanT5Large, Setting{Context: 64}, (1 + 1024) * t5Token, (64 + 1024) * t5Token},
		{"new tokens of the decoder", flanT5Large, Setting{Sequence: 512, DecoderSeq: 16, NewTokens: 4}, (1 + 512) * t5Token, (20 + 512) * t5Token},
		{"sound", whisperSmall, Setting{}, (1 + 1500) * whisperToken, (448 + 1500) * whisperToken},
		{"sound, a short text", whisperSmall, Setting{DecoderSeq: 64}, (1 + 1500) * whisperToken, (64 + 1500) * whisperToken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.Inference, s.LastLogit = true, true
			b, err := Compute(configOf(t, tt.config), s)
			if err != nil {
				t.Fatal(err)
			}
			keys := b.Phase(Decode).Peak - b.Phase(Decode).End // one layer's, copied to append to them
			if got := b.Phase(Prefill).Categories[KVCache]; got > tt.prefill<<10 {
				t.Errorf("after the prompt %d KiB, want %d", got>>10, tt.prefill)
			}
			if got := b.Phase(Decode).Categories[KVCache] - keys; got != tt.decode<<10 {
				t.Errorf("while decoding %d KiB, want %d", got>>10, tt.decode)
			}
		})
	}
}

// Weights in host memory, or sharded over ranks, come to the GPU to be used:
// no phase does with less than the largest that it needs at once.
func TestWeightsComeToTheGPU(t *testing.T) {
	gemma := map[string]any{"model_type": "gemma", "hidden_size": 2048.0, "num_hidden_layers": 18.0, "num_attention_heads": 8.0, "num_key_value_heads": 1.0, "head_dim": 256.0, "intermediate_size": 16384.0, "vocab_size": 256000.0}
	const head, layer = 2048 * 256000 * 2, 2 * (3*2048*16384 + 2*2048*2048 + 2*2048*256)
	for _, tt := range []struct {
		name  string
		s     Setting
		least map[Phase]int64
		most  int64 // of any phase, 0: not asked
	}{
		{"served", Setting{Offload: "params", Inference: true, LastLogit: true}, map[Phase]int64{Prefill: head, Decode: head}, head + head/2},
		{"adapters", Setting{Offload: "params", LoRA: 8}, map[Phase]int64{Forward: head, Backward: head}, 2 * head},
		{"in parts", Setting{Offload: "params", LoRA: 8, Loss: "chunked"}, map[Phase]int64{Forward: head, Loss: head, Backward: head}, 2 * head},
		{"fused", Setting{Offload: "params", LoRA: 8, Loss: "fused"}, map[Phase]int64{Forward: head, Loss: head}, 2 * head},
		{"trained", Setting{Offload: "params"}, map[Phase]int64{Forward: head, Backward: 2 * head}, 0},
		{"under autocast", Setting{Offload: "params", Precision: "bf16-mixed", LoRA: 8}, map[Phase]int64{Forward: 2 * head}, 0},
		{"sharded and served", Setting{Zero: 3, GPUs: 8, Inference: true, LastLogit: true}, map[Phase]int64{Prefill: head + layer, Decode: head + layer}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.Sequence = 64
			b, err := Compute(configOf(t, gemma), s)
			if err != nil {
				t.Fatal(err)
			}
			checkBudget(t, tt.name, b)
			for ph, least := range tt.least {
				if got := b.Phase(ph).Peak; got < least {
					t.Errorf("%s: %d bytes, needs %d", ph, got, least)
				}
			}
			if tt.most > 0 && b.PeakBytes > tt.most {
				t.Errorf("the peak is %d bytes, more than %d", b.PeakBytes, tt.most)
			}
		})
	}
}
