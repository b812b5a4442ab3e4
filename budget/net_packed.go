package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// quantization is how a model's weights are packed: as its configuration says, or its checkpoint.
type quantization struct {
	*modelfile.Packing
	file map[*parameter]share // what a checkpoint's tensors give each weight
}

// share is a weight's part of a checkpoint's packed bytes.
type share struct{ bytes, elements int64 }

// quantization is that of the configuration, nil without one.
func (c *Config) quantization() *quantization {
	if z := c.Packing(); z != nil {
		return &quantization{Packing: z}
	}
	return nil
}

func (z *quantization) packs(q *parameter) bool { return z != nil && z.Packs(q.Tensor) }

// bytes of a packed weight.
func (z *quantization) bytes(q *parameter) int64 {
	if s, ok := z.file[q]; ok { // a rank's part of it may be smaller than the whole
		return int64(float64(s.bytes) * (float64(q.Elements()) / float64(s.elements)))
	}
	n := len(q.Shape)
	rows, columns := q.Shape[n-2], q.Shape[n-1]
	return q.Elements() / (rows * columns) * z.Matrix(rows, columns)
}

// packing is how this plan's weights are packed: as the configuration says,
// unless the precision says otherwise or they have to be trained.
func (p *plan) packing() *quantization {
	z := p.model.quant
	if z == nil || z.Matrix == nil && z.file == nil || p.Precision != "bf16" && p.Precision != "fp16" || !p.Inference &&
		(!p.adapts() || z.Frozen) {
		return nil
	}
	return z
}

// packingNote says what became of the configuration's quantization.
func (b *Budget) packingNote(p *plan) {
	z := p.model.quant
	if z == nil || p.Precision == "int8" || p.Precision == "int4" {
		return
	}
	method := short(z.Method)
	if method == "" {
		method = "a method without a name"
	}
	switch {
	case p.packing() != nil && z.file != nil:
		b.note("the packed weights take the bytes of the checkpoint's tensors, the others %s; --precision bf16 takes all of "+
			"them unpacked", p.Precision)
	case p.packing() != nil:
		b.note("quantization_config (%s, %d bits) packs the blocks' matrices, the other weights are %s; --precision bf16 "+
			"takes all of them unpacked", method, z.Bits, p.Precision)
	case z.Matrix == nil && z.file == nil:
		b.note("quantization_config: how %s packs these weights is not known here, they are taken as %s; --precision int8 or "+
			"int4 takes the blocks' matrices in 8 or 4 bits, --model FILE the bytes of a checkpoint", method, p.Precision)
	default:
		b.note("the weights are packed (%s), and packed they cannot be trained like this: they are taken as %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.Linears && slices.ContainsFunc(p.model.params,
		func(q *parameter) bool { return q.Role == RoleExpert }) {
		b.note("%s packs nn.Linear alone: the experts, which Transformers 5 keeps in one tensor for all, stay %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.Direct != "" {
		b.note("such weights stay packed on GPUs %s; elsewhere Transformers unpacks them, which --precision bf16 shows", z.Direct)
	}
}

// IsPacked says whether the configuration or its checkpoint says how weights are packed.
func (c *Config) IsPacked() bool { return c.packedBits() < 16 }

// packedBits is the width of the packed weights, 16 when none are.
func (c *Config) packedBits() int64 {
	switch z := c.quantization(); {
	case c.file != nil:
		return c.file.Bits
	case z != nil && z.Matrix != nil:
		return z.Bits
	}
	return 16
}

// Unpacked is the configuration without its quantization.
func (c *Config) Unpacked() *Config {
	if c.file == nil && c.quantization() == nil {
		return c
	}
	d := c.of(c.With("quantization_config", nil).WithText("quantization_config", nil))
	d.file = nil
	return d
}

// Store is the configuration with its packed weights as a checkpoint has them.
func (c *Config) Store(w *modelfile.Packed) (*Config, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	n := m.counts().Total
	if k := w.Weights + w.Plain; w.Weights > 0 && max(k, n)-min(k, n) > n/10 {
		return nil, fmt.Errorf("the configuration describes %d parameters and the checkpoint's packed tensors hold %d: they "+
			"are not the same model", n, k)
	}
	own := *w
	own.Bytes += 2 * (w.Plain - (n - m.packed())) // what only one of the two calls packed: 16 bits in the other
	if m.packed() == 0 || own.Bytes <= 0 {
		return nil, fmt.Errorf("the checkpoint's packed tensors (%s, %d bytes) are not those of a model with %d parameters in "+
			"its blocks' matrices", w.Kind, w.Bytes, m.packed())
	}
	d := c.of(c.Config)
	d.file = &own
	return d, nil
}

// packed is the elements of the weights that a checkpoint of the model packs.
func (m *model) packed() int64 {
	return elements(m.params, m.quant.orMatrices().packs)
}

// orMatrices stands in for a configuration that does not say what is packed; a
// checkpoint's experts are as packed as the rest.
func (z *quantization) orMatrices() *quantization {
	if z == nil {
		z = &quantization{Packing: &modelfile.Packing{}}
	}
	z.Linears = false
	return z
}

// store divides the checkpoint's bytes among the packed weights: each gets as
// much as its elements are of all, and all together make what the file has.
func (m *model) store(w *modelfile.Packed) {
	left, rest := w.Bytes, m.packed()
	z := m.quant.orMatrices()
	z.Method, z.Bits, z.file = w.Kind, w.Bits, map[*parameter]share{}
	for _, q := range m.params {
		if !z.packs(q) {
			continue
		}
		n := q.Elements()
		s := share{left, n}
		if n < rest {
			s.bytes = int64(float64(left) * (float64(n) / float64(rest)))
		}
		z.file[q] = s
		left, rest = left-s.bytes, rest-n
	}
	m.quant = z
}
