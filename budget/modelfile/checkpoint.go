package modelfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Limits on what a checkpoint's header may claim.
const (
	maxHeaderBytes = 128 << 20
	maxTensors     = 1 << 20
	maxDims        = 8
	maxShards      = 4096
)

// ReadCheckpoint lists the tensors of a checkpoint: a .safetensors file, its
// index, or a .pt file of PyTorch's zip format. Only headers are read.
func ReadCheckpoint(path string) ([]Tensor, error) {
	path, err := wholeOf(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	head, _ := r.Peek(9)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		return readTorchZip(f, info.Size(), path)
	case len(head) == 9 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxHeaderBytes:
		ts, err := readSafetensors(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return ts, nil
	case len(head) > 0 && (head[0] == '{' || head[0] == '\n' || head[0] == ' '):
		return readIndex(r, path)
	case len(head) > 1 && head[0] == 0x80:
		return nil, fmt.Errorf("%s: a pickle without PyTorch's zip container (before version 1.6): save it again with a newer "+
			"torch.save, or give a .safetensors file", path)
	}
	return nil, fmt.Errorf("%s: neither a .safetensors file or index nor a .pt archive", path)
}

var shardName = pattern.Of(`^(.*)-[0-9]{5}-of-([0-9]{5})(\.safetensors)$`)

// wholeOf is the index beside one of several shards: a shard alone is no model.
func wholeOf(path string) (string, error) {
	m := shardName().FindStringSubmatch(filepath.Base(path))
	if m == nil || m[2] == "00001" {
		return path, nil
	}
	index := m[1] + m[3] + ".index.json"
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), index)); err != nil {
		return "", fmt.Errorf("%s: one of %s shards: give %s, which lists all of them, or the model's config.json with --config",
			path, strings.TrimLeft(m[2], "0"), index)
	}
	return filepath.Join(filepath.Dir(path), index), nil
}

// readSafetensors reads the header at the start of a .safetensors file.
func readSafetensors(r io.Reader) ([]Tensor, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, fmt.Errorf("offset 0: no header length: %w", err)
	}
	if size > maxHeaderBytes {
		return nil, fmt.Errorf("offset 0: a header of %d bytes, more than %d MiB", size, maxHeaderBytes>>20)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return nil, err
	}
	if uint64(len(raw)) < size {
		return nil, fmt.Errorf("offset %d: the header should have %d bytes", 8+len(raw), size)
	}
	var entries map[string]json.RawMessage
	if err := limit.Check(limit.Header, raw); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("offset 8: header: %w", err)
	}
	delete(entries, "__metadata__")
	if len(entries) > maxTensors {
		return nil, fmt.Errorf("header: %d tensors", len(entries))
	}
	var ts []Tensor
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var e struct {
			Shape []int64 `json:"shape"`
			Dtype string  `json:"dtype"`
		}
		if err := json.Unmarshal(entries[name], &e); err != nil {
			return nil, fmt.Errorf("header: tensor %q: %w", short(name), err)
		}
		t, err := tensorOf(name, e.Shape, e.Dtype)
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// tensorOf checks a shape and guesses the role from the name.
func tensorOf(name string, shape []int64, dtype string) (Tensor, error) {
	if len(shape) > maxDims {
		return Tensor{}, fmt.Errorf("tensor %q has %d dimensions", short(name), len(shape))
	}
	n := 1.0
	for _, d := range shape {
		if d < 0 {
			return Tensor{}, fmt.Errorf("tensor %q has a dimension of %d", short(name), d)
		}
		n *= float64(d)
	}
	if n > 1<<50 {
		return Tensor{}, fmt.Errorf("tensor %q would have %.3g elements", short(name), n)
	}
	return Tensor{Name: name, Shape: shape, Role: roleOf(name), Buffer: isBuffer(name) || isScale(name) || isWhole(dtype) &&
		!isPacked(name, dtype, len(shape)), Dtype: dtype}, nil
}

// isBuffer knows the buffers that old checkpoints carry: they are not
// parameters, so a file's total is not the parameter count.
func isBuffer(name string) bool {
	for _, s := range []string{"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", "position_ids",
		"e_score_correction_bias", "num_batches_tracked", "running_mean", "running_var"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

func roleOf(name string) Role {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	switch {
	case has("lm_head", "embed_out", "classifier"):
		return RoleHead
	case has("wpe", "position"):
		return RolePosition
	case has("embed", "wte", "shared.weight"):
		return RoleEmbedding
	case has("norm", "ln_", "LayerNorm"):
		return RoleNorm
	case has("expert"):
		return RoleExpert
	case has("attn", "attention"):
		return RoleAttention
	case has("mlp", "ffn", "fc", "dense"):
		return RoleMLP
	}
	return RoleOther
}

// readIndex follows an index to its shards, whose headers have the shapes.
func readIndex(r io.Reader, path string) ([]Tensor, error) {
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.NewDecoder(limit.Reader(limit.Header, r)).Decode(&index); err != nil {
		return nil, fmt.Errorf("%s: not an index: %w", path, err)
	}
	if len(index.Files) == 0 {
		return nil, fmt.Errorf("%s: no weight_map: a configuration goes to --config, an index has one", path)
	}
	shards := map[string]bool{}
	for _, f := range index.Files {
		if f != filepath.Base(f) || f == ".." || f == "." {
			return nil, fmt.Errorf("%s: shard %q lies outside the index's folder", path, short(f))
		}
		shards[f] = true
	}
	if len(shards) > maxShards {
		return nil, fmt.Errorf("%s: %d shards", path, len(shards))
	}
	var ts []Tensor
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		f, err := os.Open(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return nil, fmt.Errorf("%s: the index has no shapes, and its shard is missing: %w (give the model's config.json "+
				"with --config instead)", path, err)
		}
		part, err := readSafetensors(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if ts = append(ts, part...); len(ts) > maxTensors {
			return nil, fmt.Errorf("%s: more than %d tensors", path, maxTensors)
		}
	}
	return ts, nil
}

// readTorchZip reads the shapes in a .pt archive's data.pkl.
func readTorchZip(f io.ReaderAt, size int64, path string) ([]Tensor, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range z.File {
		if e.Name != "data.pkl" && !strings.HasSuffix(e.Name, "/data.pkl") {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		data, err := io.ReadAll(io.LimitReader(r, maxHeaderBytes+1))
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, e.Name, err)
		}
		if len(data) > maxHeaderBytes {
			return nil, fmt.Errorf("%s: %s is larger than %d MiB", path, e.Name, maxHeaderBytes>>20)
		}
		ts, err := readTorchPickle(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, e.Name, err)
		}
		return ts, nil
	}
	return nil, fmt.Errorf("%s: a zip archive without data.pkl, so not a PyTorch checkpoint", path)
}
