package budget

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
)

// ParseParams reads a size like 8B, 350M or 1.5e9.
func ParseParams(s string) (int64, error) {
	t := strings.TrimSpace(s)
	unit := 1.0
	if t != "" {
		switch t[len(t)-1] {
		case 'k', 'K':
			unit = 1e3
		case 'm', 'M':
			unit = 1e6
		case 'b', 'B', 'g', 'G':
			unit = 1e9
		case 't', 'T':
			unit = 1e12
		}
		if unit > 1 {
			t = t[:len(t)-1]
		}
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f*unit < 1 {
		return 0, fmt.Errorf("--params %q is not a number of parameters like 8B or 350M", network.Short(s))
	}
	if f*unit > 1<<50 {
		return 0, fmt.Errorf("--params %s: more parameters than any machine holds", network.Short(s))
	}
	return int64(math.Round(f * unit)), nil
}

// FromTensors makes a configuration that has exactly the tensors' number of
// parameters and the shape of a Llama-like decoder as far as their names
// tell; what had to be assumed is said. Packed weights whose shapes are not
// the model's are refused.
func FromTensors(ts []modelfile.Tensor) (*Config, error) {
	w := modelfile.PackedIn(ts)
	if w != nil && !w.Shaped {
		return nil, fmt.Errorf("the checkpoint's weights are packed (%s), and packed shapes do not tell the model: put its "+
			"config.json beside the file, or give that alone with --config", w.Kind)
	}
	c, err := fromShapes(ts)
	if w == nil || err != nil {
		return c, err
	}
	return c.Store(w)
}

// decoderShapes are what a checkpoint's tensors tell of a decoder.
type decoderShapes struct{ total, layers, hidden, words, inner, keys int64 }

// widening are families' names of the layers to the MLP's inner size.
var widening = []string{"up_proj", "fc_in", "c_fc", "fc1"}

func (s *decoderShapes) see(t modelfile.Tensor) {
	s.total += t.Elements()
	s.layers = max(s.layers, layerIndex(t.Name)+1)
	if len(t.Shape) != 2 {
		return
	}
	switch a, b := t.Shape[0], t.Shape[1]; {
	case t.Role == network.RoleEmbedding && a > s.words:
		s.words, s.hidden = a, b
	case slices.ContainsFunc(widening, func(w string) bool { return strings.Contains(t.Name, w) }):
		s.inner = max(s.inner, a, b)
	case strings.Contains(t.Name, "k_proj"):
		s.keys = a
	}
}

// fromShapes assumes a Llama-like decoder of the tensors' sizes.
func fromShapes(ts []modelfile.Tensor) (*Config, error) {
	var s decoderShapes
	for _, t := range ts {
		if !t.Buffer {
			s.see(t)
		}
	}
	h := s.hidden
	switch {
	case s.total == 0:
		return nil, fmt.Errorf("the checkpoint has no parameters")
	case h == 0 || s.layers == 0:
		c, err := FromParams(s.total)
		if err == nil {
			c.assumed = "the tensors' names tell no shape: " + c.assumed
		}
		return c, err
	case s.inner == 0:
		s.inner = 4 * h
	}
	d := int64(128)
	for d > 1 && (h%d != 0 || h/d < 4) {
		d /= 2
	}
	a := h / d
	k := a
	if s.keys > 0 && s.keys%d == 0 && a%(s.keys/d) == 0 {
		k = s.keys / d
	}
	return shaped(s.total, s.layers, h, a, k, s.inner, s.words,
		fmt.Sprintf("the parameters are the file's; for the activations a Llama-like decoder of %d layers, hidden %d, MLP %d "+
			"and heads of %d is assumed, from the tensors' shapes", s.layers, h, s.inner, d))
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
		c := new(Config).of(modelfile.New("llama", map[string]any{"model_type": "llama", "num_hidden_layers": float64(layers),
			"hidden_size": float64(h), "num_attention_heads": float64(a), "num_key_value_heads": float64(k),
			"intermediate_size": float64(inner), "vocab_size": float64(v)}))
		n, err := Count(c)
		if err != nil {
			return nil, err
		}
		if n.Total > total && n.Total-v*h <= total && v*h <= n.Total {
			c, n.Total = c.with("tie_word_embeddings", true), n.Total-v*h
		}
		if n.Total <= total {
			c.extra, c.assumed = total-n.Total, assumed
			return c, nil
		}
		switch {
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

// headCount is how many attention heads a model of a hidden size is given: of
// about 128 elements each, and where that can be a multiple of 8, so that the
// usual numbers of tensor-parallel ranks divide them.
func headCount(h int64) int64 {
	want := max(h/min(128, max(h/4, 16)), 1)
	best := want
	for a := int64(8); a <= h/16; a += 8 {
		if h%a == 0 && (best%8 != 0 || max(a-want, want-a) < max(best-want, want-best)) {
			best = a
		}
	}
	return best
}
