package autograd

import "github.com/vramscope/vramscope/internal/words"

// Sequence parallelism: between the products that tensor parallelism divides, each rank has
// its part of the tokens only. They are gathered in front of such products, and what comes
// out is summed and divided again.

// GatherTokens is a part of the tokens made whole. Megatron-LM keeps the part for backward
// and gathers it again there; DTensor keeps the whole.
func (m *Machine) GatherTokens(x *Value) *Value {
	if m.Pass.TokenRanks == 0 {
		return m.Again(x)
	}
	t := m.Pass.TokenRanks
	y := m.collected(x.N*t, x.Width)
	if m.Pass.KeepsPart {
		y.part = x.Mem
	}
	b := x.Bytes()
	m.Record([]*Value{y}, []*Value{x}, nil, func(g []*Storage) []*Storage {
		return []*Storage{m.scattered(g[0].Bytes, b)}
	})
	return y
}

// ScatterTokens is this rank's part of a sum over the ranks.
func (m *Machine) ScatterTokens(x *Value) *Value {
	if m.Pass.TokenRanks == 0 {
		return m.Again(x)
	}
	b := x.Bytes()
	ordered := m.AllocIf(m.Pass.Batch > 1, b, words.Communication)
	y := m.Kept(x.N/m.Pass.TokenRanks, x.Width, false)
	m.Release(ordered)
	m.Record([]*Value{y}, []*Value{x}, nil, func(g []*Storage) []*Storage {
		whole := m.collected(b, 1)
		return []*Storage{whole.Mem}
	})
	return y
}

// collected is what ranks have sent, put together along the sequence.
func (m *Machine) collected(n, e int64) *Value {
	if m.Pass.Batch == 1 { // parts of one sequence arrive one after another as they belong
		return m.Tensor(n, e)
	}
	flat := m.Alloc(n*e, words.Communication)
	y := m.Tensor(n, e)
	m.Release(flat)
	return y
}

// scattered is a part of what all ranks' parts are put in order for.
func (m *Machine) scattered(whole, part int64) *Storage {
	if m.Pass.Batch == 1 {
		return m.Alloc(part, words.Temporary)
	}
	ordered := m.Alloc(whole, words.Communication)
	s := m.Alloc(part, words.Temporary)
	m.Release(ordered)
	return s
}
