package budget

// Sequence parallelism: between the products that tensor parallelism divides, each rank has
// its part of the tokens only. They are gathered in front of such products, and what comes
// out is summed and divided again.

// gatherTokens is a part of the tokens made whole. Megatron-LM keeps the part for backward
// and gathers it again there; DTensor keeps the whole.
func (m *Machine) gatherTokens(x *value) *value {
	if m.pass.TokenRanks == 0 {
		return m.again(x)
	}
	t := m.pass.TokenRanks
	y := m.collected(x.n*t, x.e)
	if m.pass.KeepsPart {
		y.part = x.st
	}
	b := x.bytes()
	m.record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		return []*storage{m.scattered(g[0].bytes, b)}
	})
	return y
}

// scatterTokens is this rank's part of a sum over the ranks.
func (m *Machine) scatterTokens(x *value) *value {
	if m.pass.TokenRanks == 0 {
		return m.again(x)
	}
	b := x.bytes()
	var ordered *storage
	if m.pass.Batch > 1 {
		ordered = m.alloc(b, Communication)
	}
	y := m.kept(x.n/m.pass.TokenRanks, x.e, false)
	m.release(ordered)
	m.record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		whole := m.collected(b, 1)
		return []*storage{whole.st}
	})
	return y
}

// collected is what ranks have sent: it arrives rank by rank, and is put together along the
// sequence.
func (m *Machine) collected(n, e int64) *value {
	if m.pass.Batch == 1 { // parts of one sequence arrive one after another as they belong
		return m.tensor(n, e)
	}
	flat := m.alloc(n*e, Communication)
	y := m.tensor(n, e)
	m.release(flat)
	return y
}

// scattered is a part of what all ranks' parts are put in order for.
func (m *Machine) scattered(whole, part int64) *storage {
	if m.pass.Batch == 1 {
		return m.alloc(part, Temporary)
	}
	ordered := m.alloc(whole, Communication)
	s := m.alloc(part, Temporary)
	m.release(ordered)
	return s
}
