package modelfile

import (
	"strings"
	"testing"
)

// TestCompressed: groups, zeros and expressions of what stays.
func TestCompressed(t *testing.T) {
	of := func(config string) *Packing {
		fields, err := Fields(strings.NewReader(`{"quantization_config": ` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return New("llama", fields).Packing()
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
		if z.Matrix == nil {
			if tt.bytes >= 0 {
				t.Errorf("%s: not known", tt.config)
			}
			continue
		}
		if n := z.Matrix(256, 512); n != tt.bytes {
			t.Errorf("%s: %d bytes, want %d", tt.config, n, tt.bytes)
		}
	}
	z := of(group(`{"num_bits": 8, "type": "int"}`))
	for name, want := range map[string]bool{"model.layers.0.mlp.gate.weight": false, "model.layers.0.mlp.gate_proj.weight": true,
		"model.layers.0.self_attn.q_proj.weight": true} {
		if got := z.Packs(Tensor{Name: name, Shape: []int64{8, 8}, Role: RoleMLP}); got != want {
			t.Errorf("%s is packed: %v", name, got)
		}
	}
}

// Masks, positions and counters are buffers, and pack nothing.
func TestWholeNumbersThatPackNothing(t *testing.T) {
	var ts []Tensor
	for _, x := range []Tensor{{Name: "h.0.attn.attention.bias", Shape: []int64{1, 1, 64, 64}, Dtype: "U8"}, {Name: "layers.0.attention.bias", Shape: []int64{1, 1, 64, 64}, Dtype: "BOOL"},
		{Name: "embeddings.position_ids", Shape: []int64{1, 512}, Dtype: "I64"}, {Name: "bn.num_batches_tracked", Dtype: "I64"}, {Name: "steps", Shape: []int64{8}, Dtype: "I32"}} {
		x, err := tensorOf(x.Name, x.Shape, x.Dtype)
		if err != nil || !x.Buffer {
			t.Errorf("%s: no buffer, %v", x.Name, err)
		}
		ts = append(ts, x)
	}
	x, err := tensorOf("h.0.mlp.weight", []int64{64, 64}, "F16")
	if ts = append(ts, x); err != nil || x.Buffer || PackedIn(ts) != nil {
		t.Errorf("%v, %v, %v", PackedIn(ts), x, err)
	}
}
