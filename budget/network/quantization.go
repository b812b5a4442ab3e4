package network

import "github.com/vramscope/vramscope/budget/modelfile"

// Packing is how a model's weights are packed: as its configuration says, or its checkpoint.
type Packing struct {
	*modelfile.Packing
	File map[*parameter]share // what a checkpoint's tensors give each weight
}

// share is a weight's part of a checkpoint's packed bytes.
type share struct{ bytes, elements int64 }

// Has says whether a weight is packed.
func (z *Packing) Has(q *parameter) bool { return z != nil && z.Packs(q.Tensor) }

// BytesOf of a packed weight.
func (z *Packing) BytesOf(q *parameter) int64 {
	if s, ok := z.File[q]; ok { // a rank's part of it may be smaller than the whole
		return int64(float64(s.bytes) * (float64(q.Elements()) / float64(s.elements)))
	}
	n := len(q.Shape)
	rows, columns := q.Shape[n-2], q.Shape[n-1]
	return q.Elements() / (rows * columns) * z.Matrix(rows, columns)
}

// Packed is the elements of the weights that a checkpoint of the model packs.
func (m *Model) Packed() int64 {
	return Elements(m.Params, m.Packing.orMatrices().Has)
}

// orMatrices stands in for a configuration that doesn't say what is packed; experts are, too.
func (z *Packing) orMatrices() *Packing {
	if z == nil {
		z = &Packing{Packing: &modelfile.Packing{}}
	}
	z.Linears = false
	return z
}

// store divides the checkpoint's bytes among the packed weights: each gets as
// much as its elements are of all, and all together make what the file has.
func (m *Model) store(w *modelfile.Packed) {
	left, rest := w.Bytes, m.Packed()
	z := m.Packing.orMatrices()
	z.Method, z.Bits, z.File = w.Kind, w.Bits, map[*parameter]share{}
	for _, q := range m.Params {
		if !z.Has(q) {
			continue
		}
		n := q.Elements()
		s := share{left, n}
		if n < rest {
			s.bytes = int64(float64(left) * (float64(n) / float64(rest)))
		}
		z.File[q] = s
		left, rest = left-s.bytes, rest-n
	}
	m.Packing = z
}
