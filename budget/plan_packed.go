package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
)

// packing is how this plan's weights are packed: as the configuration says,
// unless the precision says otherwise or they have to be trained.
func (p *holding) packing() *network.Packing {
	z := p.model.Packing
	if z == nil || z.Matrix == nil && z.File == nil || p.Precision != "bf16" && p.Precision != "fp16" || !p.Inference &&
		(!p.Adapts() || z.Frozen) {
		return nil
	}
	return z
}

// packingNote says what became of the configuration's quantization.
func (b *Budget) packingNote(p *plan) {
	z := p.model.Packing
	if z == nil || p.Precision == "int8" || p.Precision == "int4" {
		return
	}
	method := network.Short(z.Method)
	if method == "" {
		method = "a method without a name"
	}
	switch {
	case p.packing() != nil && z.File != nil:
		b.note("the packed weights take the bytes of the checkpoint's tensors, the others %s; --precision bf16 takes all of "+
			"them unpacked", p.Precision)
	case p.packing() != nil:
		b.note("quantization_config (%s, %d bits) packs the blocks' matrices, the other weights are %s; --precision bf16 "+
			"takes all of them unpacked", method, z.Bits, p.Precision)
	case z.Matrix == nil && z.File == nil:
		b.note("quantization_config: how %s packs these weights is not known here, they are taken as %s; --precision int8 or "+
			"int4 takes the blocks' matrices in 8 or 4 bits, --model FILE the bytes of a checkpoint", method, p.Precision)
	default:
		b.note("the weights are packed (%s), and packed they cannot be trained like this: they are taken as %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.Linears && slices.ContainsFunc(p.model.Params,
		func(q *parameter) bool { return q.Role == network.RoleExpert }) {
		b.note("%s packs nn.Linear alone: the experts, which Transformers 5 keeps in one tensor for all, stay %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.Direct != "" {
		b.note("such weights stay packed on GPUs %s; elsewhere Transformers unpacks them, which --precision bf16 shows", z.Direct)
	}
}

// IsPacked says whether the configuration or its checkpoint says how weights are packed.
func (c *Config) IsPacked() bool { return c.PackedBits() < 16 }

// PackedBits is the width of the packed weights, 16 when none are.
func (c *Config) PackedBits() int64 {
	switch z := c.Packing(); {
	case c.file != nil:
		return c.file.Bits
	case z != nil && z.Matrix != nil:
		return z.Bits
	}
	return 16
}

// Unpacked is the configuration without its quantization.
func (c *Config) Unpacked() *Config {
	if c.file == nil && c.Packing() == nil {
		return c
	}
	d := c.of(c.With("quantization_config", nil).WithText("quantization_config", nil))
	d.file = nil
	return d
}

// Store is the configuration with its packed weights as a checkpoint has them.
func (c *Config) Store(w *modelfile.Packed) (*Config, error) {
	m, err := c.build()
	if err != nil {
		return nil, err
	}
	n := m.Counts().Total
	if k := w.Weights + w.Plain; w.Weights > 0 && max(k, n)-min(k, n) > n/10 {
		return nil, fmt.Errorf("the configuration describes %d parameters and the checkpoint's packed tensors hold %d: they "+
			"are not the same model", n, k)
	}
	own := *w
	own.Bytes += 2 * (w.Plain - (n - m.Packed())) // what only one of the two calls packed: 16 bits in the other
	if m.Packed() == 0 || own.Bytes <= 0 {
		return nil, fmt.Errorf("the checkpoint's packed tensors (%s, %d bytes) are not those of a model with %d parameters in "+
			"its blocks' matrices", w.Kind, w.Bytes, m.Packed())
	}
	d := c.of(c.Config)
	d.file = &own
	return d, nil
}
