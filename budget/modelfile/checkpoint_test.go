package modelfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same tiny model in two containers, written by PyTorch and safetensors.
func TestCheckpoints(t *testing.T) {
	for _, name := range []string{"tiny.safetensors", "tiny.pt"} {
		t.Run(name, func(t *testing.T) {
			ts, err := ReadCheckpoint(filepath.Join("testdata", "checkpoints", name))
			if err != nil {
				t.Fatal(err)
			}
			var total, buffers int64
			for _, x := range ts {
				if x.Buffer {
					buffers += x.Elements()
				} else {
					total += x.Elements()
				}
			}
			const want = 2*96*32 + 2*32*32 + 2*16*32 + 3*64*32 + 32
			if total != want || buffers != 4 {
				t.Errorf("%d parameters and %d buffers, want %d and 4: %v", total, buffers, want, ts)
			}
		})
	}
}

func TestCheckpointRefusals(t *testing.T) {
	if _, err := ReadCheckpoint("testdata/checkpoints/evil.pt"); err == nil || !strings.Contains(err.Error(), "eval") {
		t.Errorf("a pickle that calls: %v", err)
	}
	huge := make([]byte, 16)
	binary.LittleEndian.PutUint64(huge, 1<<60)
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"header longer than the file", append(binary.LittleEndian.AppendUint64(nil, 100), '{', '}'), "should have 100 bytes"},
		{"absurd header", huge, "MiB"},
		{"no JSON", append(binary.LittleEndian.AppendUint64(nil, 2), 'n', 'o'), "header"},
		{"negative dimension", header(`{"a":{"shape":[-1]}}`), "dimension of -1"},
		{"too many elements", header(`{"a":{"shape":[4611686018427387904,8]}}`), "elements"},
		{"too many dimensions", header(`{"a":{"shape":[1,1,1,1,1,1,1,1,1]}}`), "9 dimensions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readSafetensors(bytes.NewReader(tt.data)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func header(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

func FuzzReadTorchPickle(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00."))
	f.Add([]byte("\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00)R."))
	f.Add([]byte("\x80\x04\x8c\x04eval\x8c\x08builtins\x93."))
	f.Fuzz(func(t *testing.T, data []byte) {
		ts, err := readTorchPickle(data)
		if err == nil && len(ts) == 0 {
			t.Error("no tensors and no error")
		}
	})
}

// safetensors is a file of no more than a header.
func safetensors(header string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
}

func FuzzReadSafetensors(f *testing.F) {
	f.Add(safetensors(`{"__metadata__":{"format":"pt"},"model.embed_tokens.weight":{"dtype":"BF16","shape":[100,64],"data_offsets":[0,12800]}}`))
	f.Add(safetensors(`{"a":{"shape":[-1]}}`))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ts, err := readSafetensors(bytes.NewReader(data))
		for _, x := range ts {
			if x.Elements() < 0 || err != nil {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}

// An index leads to the shards beside it, and nowhere else.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.safetensors", safetensors(`{"model.norm.weight":{"dtype":"BF16","shape":[64]}}`))
	write("b.safetensors", safetensors(`{"lm_head.weight":{"dtype":"BF16","shape":[100,64]}}`))
	for weights, want := range map[string]string{
		`{"model.norm.weight":"a.safetensors","lm_head.weight":"b.safetensors"}`: "",
		`{"model.norm.weight":"../a.safetensors"}`:                               "lies outside the index's folder",
		`{"model.norm.weight":".."}`:                                             "lies outside the index's folder",
		`{"model.norm.weight":"c.safetensors"}`:                                  "its shard is missing",
		`{}`:                                                                     "no weight_map",
	} {
		write("model.safetensors.index.json", []byte(`{"weight_map":`+weights+`}`))
		ts, err := ReadCheckpoint(filepath.Join(dir, "model.safetensors.index.json"))
		if want == "" && (err != nil || len(ts) != 2 || ts[0].Elements()+ts[1].Elements() != 64+6400) {
			t.Errorf("%s: %+v, %v", weights, ts, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", weights, err, want)
		}
	}
}
