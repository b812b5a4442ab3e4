package budget

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
)

// Llama 3.1 8B has 6,979,321,856 weights in its blocks' matrices and
// 1,050,939,392 others.
const llamaMatrices, llamaOthers = 6979321856, 1050939392

// Weights take what quantization_config says, in serving and under adapters;
// a layout that is not known is said and counted unpacked.
func TestQuantizationConfig(t *testing.T) {
	rows := int64(32 * (4096 + 1024 + 1024 + 4096 + 14336 + 14336 + 4096))
	columns := int64(32 * (4096*6 + 14336))
	oss := map[string]any{"model_type": "gpt_oss", "hidden_size": 2880.0, "intermediate_size": 2880.0, "num_hidden_layers": 24.0, "num_attention_heads": 64.0, "num_key_value_heads": 8.0,
		"head_dim": 64.0, "vocab_size": 201088.0, "num_local_experts": 32.0, "num_experts_per_tok": 4.0}
	mixtral := map[string]any{"model_type": "mixtral", "num_key_value_heads": 8.0}
	serve, lora := Setting{Inference: true}, Setting{LoRA: 16}
	const unpacked = 2 * (llamaMatrices + llamaOthers)
	for _, tt := range []struct {
		name   string
		config map[string]any
		quant  map[string]any
		s      Setting
		want   int64 // bytes of weights
		note   string
	}{
		{"awq", llama31, map[string]any{"quant_method": "awq", "bits": 4.0, "group_size": 128.0}, serve, llamaMatrices/2 + llamaMatrices/128*5/2 + 2*llamaOthers, "(awq, 4 bits)"},
		{"gptq", llama31, map[string]any{"quant_method": "gptq", "bits": 4.0, "group_size": 128.0}, serve, llamaMatrices/2 + llamaMatrices/128*5/2 + 4*columns + 2*llamaOthers, "gptq"},
		{"gptq, one group a row", llama31, map[string]any{"quant_method": "gptq", "bits": 8.0, "group_size": -1.0}, serve, llamaMatrices + 3*rows + 4*columns + 2*llamaOthers, "gptq"},
		{"NF4", llama31, map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true}, serve, llamaMatrices/2 + llamaMatrices/64*4 + 2*llamaOthers, "4 bits"},
		{"NF4 with double quantisation, no method named", llama31, map[string]any{"load_in_4bit": true, "bnb_4bit_use_double_quant": true}, serve, llamaMatrices/2 + llamaMatrices/64 + llamaMatrices/64/256*4 + 2*llamaOthers, "4 bits"},
		{"int8", llama31, map[string]any{"quant_method": "bitsandbytes", "load_in_8bit": true}, serve, llamaMatrices + 4*rows + 2*llamaOthers, "8 bits"},
		{"int8, the attention left alone", llama31, map[string]any{"quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_skip_modules": []any{"lm_head", "self_attn"}}, serve,
			llamaMatrices + 4*rows + 2*llamaOthers + 32*(4096*10240) - 32*4*10240, "8 bits"},
		{"int8, a list without the head", llama31, map[string]any{"quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_skip_modules": []any{"visual"}}, serve,
			llamaMatrices + 4*rows + 2*llamaOthers - 128256*4096 + 4*128256, "8 bits"},
		{"fp8 in blocks", llama31, map[string]any{"quant_method": "fp8", "weight_block_size": []any{128.0, 128.0}}, serve, llamaMatrices + llamaMatrices/4096 + 2*llamaOthers, "compute capability 8.9"},
		{"mxfp4", oss, map[string]any{"quant_method": "mxfp4"}, serve, 13761264768, "MXFP4 kernels"},
		{"experts beside NF4", mixtral, map[string]any{"load_in_4bit": true}, serve, 32*(2*4096*4096+2*4096*1024)/16*9 + 2*(46702792704-32*(2*4096*4096+2*4096*1024)), "stay bf16"},
		{"adapters on NF4", llama31, map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true}, lora, llamaMatrices/2 + llamaMatrices/64*4 + 2*llamaOthers + 4*41943040, "4 bits"},
		{"adapters on fp8", llama31, map[string]any{"quant_method": "fp8"}, lora, unpacked + 4*41943040, "cannot be trained"},
		{"training", llama31, map[string]any{"quant_method": "awq", "bits": 4.0}, Setting{}, unpacked, "cannot be trained"},
		{"not known", llama31, map[string]any{"quant_method": "hqq", "bits": 4.0}, serve, unpacked, "hqq packs these weights is not known"},
		{"no method", llama31, map[string]any{"bits": 4.0, "group_size": 64.0}, serve, unpacked, "without a name"},
		{"bits by module", llama31, map[string]any{"quant_method": "gptq", "bits": 4.0, "dynamic": map[string]any{"-:mlp": map[string]any{}}}, serve, unpacked, "not known"},
		{"hostile sizes", llama31, map[string]any{"quant_method": "fp8", "weight_block_size": []any{1e18, 1e18}}, serve, llamaMatrices + 32*7*4 + 2*llamaOthers, "fp8"},
		{"the setting's own precision", llama31, map[string]any{"quant_method": "awq", "bits": 4.0}, Setting{Inference: true, Precision: "fp32"}, 2 * unpacked, "cannot be trained"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fields := maps.Clone(tt.config)
			fields["quantization_config"] = tt.quant
			c, err := newConfig(fields)
			if err != nil {
				t.Fatal(err)
			}
			tt.s.Sequence = 16
			b, err := Compute(c, tt.s)
			if err != nil {
				t.Fatal(err)
			}
			checkBudget(t, tt.name, b)
			if b.WeightsBytes != tt.want {
				t.Errorf("%d bytes of weights, want %d (off by %d)", b.WeightsBytes, tt.want, b.WeightsBytes-tt.want)
			}
			if s := strings.Join(b.Notes, "\n"); tt.s.Precision == "" && !strings.Contains(s, tt.note) {
				t.Errorf("notes %q, want %q", s, tt.note)
			}
			if b, err = Compute(c.Unpacked(), tt.s); err != nil || b.Phase(Load).Categories[Weights] < unpacked && tt.name != "mxfp4" {
				t.Errorf("unpacked: %d bytes of weights, %v", b.WeightsBytes, err)
			}
		})
	}
}

var elementBytes = map[string]int64{"I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1}

// packing turns a model's tensors into those of a quantised checkpoint.
func packing(t *testing.T, c *Config, pack func(name string, out, in int64) []modelfile.Tensor) (ts []modelfile.Tensor, bytes int64) {
	t.Helper()
	plain, err := Tensors(c)
	if err != nil {
		t.Fatal(err)
	}
	var list []modelfile.Tensor
	for _, x := range plain {
		name := strings.TrimSuffix(x.Name, ".weight")
		if x.Role != network.RoleAttention && x.Role != network.RoleMLP {
			list = append(list, modelfile.Tensor{Name: x.Name, Shape: x.Shape, Dtype: "BF16"})
			continue
		}
		list = append(list, pack(name, x.Shape[0], x.Shape[1])...)
	}
	header := map[string]map[string]any{}
	for _, x := range list {
		header[x.Name] = map[string]any{"shape": x.Shape, "dtype": x.Dtype}
		bytes += x.Elements() * elementBytes[x.Dtype]
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(file, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if ts, err = modelfile.ReadCheckpoint(file); err != nil {
		t.Fatal(err)
	}
	return ts, bytes
}

// A quantised checkpoint's own bytes are the weights; its shapes are not taken
// for the model's.
func TestPackedCheckpoints(t *testing.T) {
	c, err := newConfig(map[string]any{"model_type": "llama", "num_hidden_layers": 3.0, "hidden_size": 512.0, "num_attention_heads": 8.0, "num_key_value_heads": 2.0, "intermediate_size": 1024.0, "vocab_size": 1000.0})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		pack   func(name string, out, in int64) []modelfile.Tensor
		kind   string
		shaped bool
	}{
		"awq": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".qweight", Shape: []int64{in, out / 8}, Dtype: "I32"}, {Name: n + ".qzeros", Shape: []int64{in / 128, out / 8}, Dtype: "I32"}, {Name: n + ".scales", Shape: []int64{in / 128, out}, Dtype: "F16"}}
		}, "AWQ, 4 bits", false},
		"gptq": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".qweight", Shape: []int64{in / 8, out}, Dtype: "I32"}, {Name: n + ".qzeros", Shape: []int64{in / 128, out / 8}, Dtype: "I32"},
				{Name: n + ".scales", Shape: []int64{in / 128, out}, Dtype: "F16"}, {Name: n + ".g_idx", Shape: []int64{in}, Dtype: "I32"}}
		}, "GPTQ", false},
		"bitsandbytes, 4 bits": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".weight", Shape: []int64{out * in / 2, 1}, Dtype: "U8"}, {Name: n + ".weight.absmax", Shape: []int64{out * in / 64}, Dtype: "F32"},
				{Name: n + ".weight.quant_map", Shape: []int64{16}, Dtype: "F32"}, {Name: n + ".weight.quant_state.bitsandbytes__nf4", Shape: []int64{90}, Dtype: "U8"}}
		}, "4 bits in U8", false},
		"bitsandbytes, 8 bits": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".weight", Shape: []int64{out, in}, Dtype: "I8"}, {Name: n + ".SCB", Shape: []int64{out}, Dtype: "F32"}, {Name: n + ".weight_format", Shape: []int64{}, Dtype: "U8"}}
		}, "8 bits", true},
		"fp8": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".weight", Shape: []int64{out, in}, Dtype: "F8_E4M3"}, {Name: n + ".weight_scale_inv", Shape: []int64{out / 128, in / 128}, Dtype: "F32"}}
		}, "FP8", true},
		"mlx": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".weight", Shape: []int64{out, in / 8}, Dtype: "U32"}, {Name: n + ".scales", Shape: []int64{out, in / 64}, Dtype: "F16"}, {Name: n + ".biases", Shape: []int64{out, in / 64}, Dtype: "F16"}}
		}, "packed in U32", false},
		"compressed": {func(n string, out, in int64) []modelfile.Tensor {
			return []modelfile.Tensor{{Name: n + ".weight_packed", Shape: []int64{out, in / 8}, Dtype: "I32"}, {Name: n + ".weight_scale", Shape: []int64{out, in / 128}, Dtype: "BF16"}, {Name: n + ".weight_shape", Shape: []int64{2}, Dtype: "I64"}}
		}, "packed in I32", false},
	} {
		t.Run(name, func(t *testing.T) {
			ts, bytes := packing(t, c, tt.pack)
			w := modelfile.PackedIn(ts)
			if w == nil || !strings.Contains(w.Kind, tt.kind) {
				t.Fatalf("taken for %v", w)
			}
			if n, err := Count(c); err != nil || w.Weights > 0 && w.Weights+w.Plain != n.Total {
				t.Errorf("%d packed and %d other parameters, want %d", w.Weights, w.Plain, n.Total)
			}
			stored, err := c.Store(w)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []Setting{{Inference: true}, {LoRA: 8}, {Inference: true, TP: 2, GPUs: 2}} {
				s.Sequence = 16
				b, err := Compute(stored, s)
				if err != nil {
					t.Fatal(err)
				}
				checkBudget(t, name, b)
				if got := b.Phase(Load).Categories[Weights] - 4*b.Model.Trainable; s.TP == 0 && got != bytes {
					t.Errorf("%d bytes of weights, the file has %d", got, bytes)
				}
				if s.TP == 2 && (b.WeightsBytes < bytes/2 || b.WeightsBytes > bytes*6/10) {
					t.Errorf("%d bytes on one of two GPUs, the file has %d", b.WeightsBytes, bytes)
				}
			}
			if larger, err := WithVocabulary(stored, 2000); err != nil {
				t.Error(err)
			} else if b, err := Compute(larger, Setting{Inference: true, Sequence: 16}); err != nil || b.WeightsBytes != bytes+2*2*1000*512 {
				t.Errorf("with twice the vocabulary %d bytes, %v", b.WeightsBytes, err)
			}
			made, err := FromTensors(ts)
			if !tt.shaped {
				if err == nil || !strings.Contains(err.Error(), "config.json") {
					t.Errorf("without a configuration: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := Compute(made, Setting{Inference: true, Sequence: 16})
			if err != nil || b.WeightsBytes != bytes {
				t.Errorf("without a configuration %d bytes, the file has %d (%v)", b.WeightsBytes, bytes, err)
			}
		})
	}
	small, err := newConfig(map[string]any{"model_type": "llama", "num_hidden_layers": 1.0, "hidden_size": 512.0, "num_attention_heads": 8.0, "vocab_size": 1000.0})
	if err != nil {
		t.Fatal(err)
	}
	ts, _ := packing(t, c, func(n string, out, in int64) []modelfile.Tensor {
		return []modelfile.Tensor{{Name: n + ".weight", Shape: []int64{out, in}, Dtype: "F8_E5M2"}}
	})
	if _, err := small.Store(modelfile.PackedIn(ts)); err == nil || !strings.Contains(err.Error(), "not the same model") {
		t.Errorf("another model's configuration: %v", err)
	}
}
