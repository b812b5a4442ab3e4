package budget

// Sequence parallelism: between the products that tensor parallelism divides, each rank has
// its part of the tokens only. They are gathered in front of such products, and what comes
// out is summed and divided again.

// gatherTokens is a part of the tokens made whole. Megatron-LM keeps the part for backward
// and gathers it again there; DTensor keeps the whole.
func (m *machine) gatherTokens(x *value) *value {
	if !m.opts.SequenceParallel {
		return m.again(x)
	}
	t := m.opts.TP
	y := m.collected(x.n*t, x.e)
	if m.opts.megatron() {
		y.part = x.st
	}
	b := x.bytes()
	m.record([]*value{y}, []*value{x}, nil, func(m *machine, g []*storage) []*storage {
		return []*storage{m.scattered(g[0].bytes, b)}
	})
	return y
}

// scatterTokens is this rank's part of a sum over the ranks.
func (m *machine) scatterTokens(x *value) *value {
	if !m.opts.SequenceParallel {
		return m.again(x)
	}
	b := x.bytes()
	var ordered *storage
	if m.opts.Batch > 1 {
		ordered = m.alloc(b, Communication)
	}
	y := m.kept(x.n/m.opts.TP, x.e, false)
	m.release(ordered)
	m.record([]*value{y}, []*value{x}, nil, func(m *machine, g []*storage) []*storage {
		whole := m.collected(b, 1)
		return []*storage{whole.st}
	})
	return y
}

// symmetric is the workspace of asynchronous tensor parallelism, one for the group, as large as
// the largest product asks for: a product whose results are summed over the ranks sends two of a
// rank's pieces by turns, one whose input is gathered has its own piece there
// (torch/distributed/_symmetric_memory, _pipelined_produce_and_all2all). It is mapped in pages of 2 MiB.
func (p *plan) symmetric() int64 {
	if !p.AsyncTP || p.TP == 1 || !p.SequenceParallel || !p.Compile || p.Inference {
		return 0
	}
	return parts(2*p.Batch*parts(p.Sequence, p.TP)*p.model.hidden*p.width, 2*mib) * 2 * mib
}

// applyWhole is a layer whose inputs are divided over the ranks, with the sum over them.
func (m *machine) applyWhole(x *value, l *linear) *value {
	y := m.apply(x, l)
	return m.replace(y, m.scatterTokens(y))
}

// collected is what ranks have sent: it arrives rank by rank, and is put together along the
// sequence.
func (m *machine) collected(n, e int64) *value {
	if m.opts.Batch == 1 { // parts of one sequence arrive one after another as they belong
		return m.tensor(n, e)
	}
	flat := m.alloc(n*e, Communication)
	y := m.tensor(n, e)
	m.release(flat)
	return y
}

// scattered is a part of what all ranks' parts are put in order for.
func (m *machine) scattered(whole, part int64) *storage {
	if m.opts.Batch == 1 {
		return m.alloc(part, Temporary)
	}
	ordered := m.alloc(whole, Communication)
	s := m.alloc(part, Temporary)
	m.release(ordered)
	return s
}
