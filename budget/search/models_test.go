package search

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/testing/models"
)

var (
	llama405B = map[string]any{"model_type": "llama", "vocab_size": 128256.0, "hidden_size": 16384.0, "intermediate_size": 53248.0,
		"num_hidden_layers": 126.0, "num_attention_heads": 128.0, "num_key_value_heads": 8.0}
	qwen32B = map[string]any{"model_type": "qwen3", "vocab_size": 151936.0, "hidden_size": 5120.0, "intermediate_size": 25600.0,
		"num_hidden_layers": 64.0, "num_attention_heads": 64.0, "num_key_value_heads": 8.0, "head_dim": 128.0}
	qwen15B = map[string]any{"model_type": "qwen2", "vocab_size": 151936.0, "hidden_size": 1536.0, "intermediate_size": 8960.0,
		"num_hidden_layers": 28.0, "num_attention_heads": 12.0, "num_key_value_heads": 2.0, "tie_word_embeddings": true}
	mixtral8x7B = map[string]any{"model_type": "mixtral", "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
		"num_local_experts": 8.0, "num_experts_per_tok": 2.0, "vocab_size": 32000.0}
	whisperSmall = map[string]any{"model_type": "whisper", "d_model": 768.0, "encoder_layers": 12.0, "decoder_layers": 12.0, "encoder_attention_heads": 12.0, "decoder_attention_heads": 12.0,
		"encoder_ffn_dim": 3072.0, "decoder_ffn_dim": 3072.0, "vocab_size": 51865.0, "num_mel_bins": 80.0, "max_source_positions": 1500.0, "max_target_positions": 448.0}
	llama8B  = map[string]any{"model_type": "llama", "vocab_size": 128256.0, "intermediate_size": 14336.0, "num_key_value_heads": 8.0}
	llama4   = with(with(llama8B, "num_hidden_layers", 4.0), "vocab_size", 32000.0)
	llama70B = map[string]any{"model_type": "llama", "vocab_size": 128256.0, "hidden_size": 8192.0, "intermediate_size": 28672.0,
		"num_hidden_layers": 80.0, "num_attention_heads": 64.0, "num_key_value_heads": 8.0}
	llama31 = map[string]any{"model_type": "llama", "num_key_value_heads": 8.0, "intermediate_size": 14336.0, "vocab_size": 128256.0}
)

const eightBillion = `{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
	"num_attention_heads": 32, "num_key_value_heads": 8}`

var with = models.With

const (
	mib = 1 << 20
	gib = 1 << 30
)

func newConfig(fields map[string]any) (*budget.Config, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return budget.ReadConfig(strings.NewReader(string(text)))
}

func configOf(t *testing.T, fields map[string]any) *budget.Config {
	t.Helper()
	c, err := newConfig(fields)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gpuOf(t *testing.T, name string) gpus.GPU {
	t.Helper()
	g, err := gpus.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// smallConfig is a small model of a family, from the odd ones.
func smallConfig(t *testing.T, family string) *budget.Config {
	t.Helper()
	return configOf(t, models.Small(t, "../testdata/odd_models.json", family))
}
