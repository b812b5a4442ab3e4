package budget

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
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
	head := make([]byte, 9)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		return readTorchZip(f, info.Size(), path)
	case len(head) == 9 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxHeaderBytes:
		ts, err := readSafetensors(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return ts, nil
	case len(head) > 0 && (head[0] == '{' || head[0] == '\n' || head[0] == ' '):
		return readIndex(f, path)
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

// FromTensors makes a configuration that has exactly the tensors' number of
// parameters and the shape of a Llama-like decoder as far as their names
// tell; what had to be assumed is said. Packed weights whose shapes are not
// the model's are refused.
func FromTensors(ts []Tensor) (*Config, error) {
	w := PackedIn(ts)
	if w != nil && !w.shaped {
		return nil, fmt.Errorf("the checkpoint's weights are packed (%s), and packed shapes do not tell the model: put its "+
			"config.json beside the file, or give that alone with --config", w.Kind)
	}
	c, err := fromShapes(ts)
	if w == nil || err != nil {
		return c, err
	}
	return c.Store(w)
}

// fromShapes assumes a Llama-like decoder of the tensors' sizes.
func fromShapes(ts []Tensor) (*Config, error) {
	var total, h, v, inner, kv, layers, count int64
	for _, t := range ts {
		if t.Buffer {
			continue
		}
		count++
		total += t.Elements()
		layers = max(layers, layerIndex(t.Name)+1)
		if len(t.Shape) != 2 {
			continue
		}
		a, b := t.Shape[0], t.Shape[1]
		switch {
		case t.Role == RoleEmbedding && a > v:
			v, h = a, b
		case strings.Contains(t.Name, "up_proj") || strings.Contains(t.Name, "fc_in") || strings.Contains(t.Name, "c_fc") ||
			strings.Contains(t.Name, "fc1"):
			inner = max(inner, a, b)
		case strings.Contains(t.Name, "k_proj"):
			kv = a
		}
	}
	if count == 0 || total == 0 {
		return nil, fmt.Errorf("the checkpoint has no parameters")
	}
	if h == 0 || layers == 0 || v == 0 {
		c, err := FromParams(total)
		if err == nil {
			c.assumed = "the tensors' names tell no shape: " + c.assumed
		}
		return c, err
	}
	if inner == 0 {
		inner = 4 * h
	}
	d := int64(128)
	for d > 1 && (h%d != 0 || h/d < 4) {
		d /= 2
	}
	a := h / d
	k := a
	if kv > 0 && kv%d == 0 && a%(kv/d) == 0 {
		k = kv / d
	}
	return shaped(total, layers, h, a, k, inner, v,
		fmt.Sprintf("the parameters are the file's; for the activations a Llama-like decoder of %d layers, hidden %d, MLP %d "+
			"and heads of %d is assumed, from the tensors' shapes", layers, h, inner, d))
}

// layerIndex is the first number in a tensor's name, -1 without one.
func layerIndex(name string) int64 {
	for _, p := range strings.Split(name, ".") {
		if p == "" || len(p) > 4 {
			continue
		}
		n := int64(0)
		for _, c := range p {
			if c < '0' || c > '9' {
				n = -1
				break
			}
			n = 10*n + int64(c-'0')
		}
		if n >= 0 {
			return n
		}
	}
	return -1
}

// FromParams makes a configuration of a given size: a Llama-like decoder with
// the proportions that models of that size have.
func FromParams(n int64) (*Config, error) {
	if n < 1000 {
		return nil, fmt.Errorf("%d parameters make no language model", n)
	}
	v := int64(128256)
	if n < 1<<30 {
		v = 32000
	}
	if n < 50e6 {
		v = max(n/10000, 16)
	}
	// 13.5 h^2 per layer and 128 of width per layer: h^3 = n * 128 / 13.5
	h := int64(math.Cbrt(float64(n) * 128 / 13.5))
	switch {
	case h >= 2048:
		h = h / 512 * 512
	default:
		h = max(h/128*128, 64)
	}
	layers := max(h/128, 1)
	for h > 64 && int64(float64(layers)*13.5*float64(h*h))+2*v*h > n {
		if layers > h/160 && layers > 1 {
			layers--
			continue
		}
		h -= min(128, h-64)
		layers = max(h/128, 1)
	}
	a := headCount(h)
	k := a
	if a%8 == 0 {
		k = 8
	}
	shape := func(inner int64) (*Config, error) {
		return shaped(n, layers, h, a, k, inner, v,
			fmt.Sprintf("a Llama-like decoder is assumed: %d layers, hidden %d, %d heads of %d with %d key-value heads, MLP %d, "+
				"vocabulary %d", layers, h, a, h/a, k, inner, v))
	}
	inner := h * 7 / 2
	c, err := shape(inner)
	if err != nil {
		return nil, err
	}
	// What is missing belongs into the blocks, where it is gathered block by block and divided over tensor-parallel ranks.
	if more := c.extra / (3 * layers * h) / 64 * 64; more > 0 {
		return shape(inner + more)
	}
	return c, nil
}

// shaped is a Llama-like configuration whose parameters sum to total: what
// the shape does not account for is one more tensor.
func shaped(total, layers, h, a, k, inner, v int64, assumed string) (*Config, error) {
	for {
		c := sub("llama", map[string]any{"model_type": "llama", "num_hidden_layers": float64(layers), "hidden_size": float64(h),
			"num_attention_heads": float64(a),
			"num_key_value_heads": float64(k), "intermediate_size": float64(inner), "vocab_size": float64(v)})
		n, err := Count(c)
		if err != nil {
			return nil, err
		}
		if n.Total <= total {
			c.extra, c.assumed = total-n.Total, assumed
			return c, nil
		}
		switch {
		case c.fields["tie_word_embeddings"] == nil && n.Total-v*h <= total && v*h <= n.Total:
			c.fields["tie_word_embeddings"] = true
			c.extra, c.assumed = total-(n.Total-v*h), assumed
			return c, nil
		case inner > h:
			inner = max(inner*9/10, 1)
		case v > 16:
			v /= 2
		case layers > 1:
			layers--
		case inner > 1:
			inner = inner * 9 / 10
		default:
			return nil, fmt.Errorf("%d parameters are too few for a model of hidden size %d", total, h)
		}
	}
}
