package budget

// disentangled is DeBERTa's attention: besides tokens by tokens it scores
// tokens by relative distances (c2p) and distances by tokens (p2c), all of it
// written out. Distances are rows of one table that all layers share.
type disentangled struct {
	span       int64   // distances to either side, 0: scores of tokens alone
	key, query *linear // of distances, nil where neither c2p nor p2c needs it; shared ones are the tokens' own
	c2p, p2c   bool
	drop       float64 // on the table of distances
}

// disentangle is the module on x. The table of distances and the mask of all
// pairs come with the shape.
func (a *attention) disentangle(m *machine, x *value, s shape) *value {
	byHead := func(l *linear) *value {
		y := m.apply(x, l)
		return m.replace(y, m.copyOf(y))
	}
	q, k, v := byHead(a.q), byHead(a.k), byHead(a.v)
	y := recomputed(m, q, k, v, func() *value { return a.byDistance(m, q, k, v, s) })
	m.drop(q, k, v)
	z := m.replace(y, m.apply(y, a.o))
	return m.replace(z, m.dropout(z, a.outDrop))
}

// byDistance are the scores, their softmax and what it makes of the values;
// most of it has names until the module returns.
func (a *attention) byDistance(m *machine, q, k, v *value, s shape) *value {
	r := a.relative
	pairs := s.batch * s.queries * s.keys
	scaled := m.scale(k)
	w := m.replace(scaled, m.matmul(q, scaled, pairs*a.heads))
	var bias, table *value
	if r.span > 0 {
		table = m.dropout(s.bias, r.drop)
		if bias = a.distances(m, q, k, table, s); bias != nil {
			w = m.replace(w, m.add(w, bias))
		}
	}
	sees := m.alloc(pairs, Temporary)
	hidden := m.alloc(pairs, Temporary)
	w = m.replace(w, m.gather(w, w.n, hidden)) // masked_fill keeps its mask as a gather its index
	m.release(hidden)
	p := m.softmax(w, false)
	p = m.replace(p, m.dropout(p, a.dropout))
	y := m.matmul(p, v, s.batch*s.queries*a.heads*a.d)
	y = m.replace(y, m.copyOf(y))
	m.release(sees)
	m.drop(w, p, bias, table)
	return y
}

// distances is what is added to the scores for how far tokens are apart.
func (a *attention) distances(m *machine, q, k, table *value, s shape) *value {
	r := a.relative
	rows := s.batch * a.heads * s.queries
	// project is a projection of the table by head, once for each sequence.
	project := func(l *linear) *value {
		if l == nil {
			return nil
		}
		y := m.apply(table, l)
		y = m.replace(y, m.copyOf(y))
		if s.batch == 1 {
			return m.replace(y, m.copyOf(y))
		}
		return m.replace(y, m.repeat(y, s.batch, false))
	}
	var pk, pq *value
	if r.key == a.k { // shared: the other way round
		pq = project(r.query)
		pk = project(r.key)
	} else {
		pk = project(r.key)
		pq = project(r.query)
	}
	var sum *value
	var names []*value
	var indices []*storage
	// score adds what the pairs pick of the scores by distance; their index is
	// worked out in as many steps.
	score := func(by, of *value, steps int) {
		all := m.matmul(by, of, rows*2*r.span)
		index := m.alloc(8*s.queries*s.keys, Temporary)
		for range steps {
			next := m.alloc(index.bytes, Temporary)
			m.release(index)
			index = next
		}
		picked := m.gather(all, rows*s.keys, index, all.st) // torch.gather keeps what it picks from
		m.drop(all)
		part := m.scale(picked)
		if sum == nil {
			sum = m.shift(part)
		} else {
			sum = m.replace(sum, m.addInPlace(sum, part))
		}
		m.drop(part)
		names, indices = append(names, picked), append(indices, index)
	}
	if r.c2p {
		score(q, pk, 1)
	}
	if r.p2c {
		score(k, pq, 2)
	}
	m.drop(names...)
	m.drop(pk, pq)
	m.releaseAll(indices)
	return sum
}

// seenPairs are the mask of all pairs of tokens, which stays for the whole
// pass, and their distances.
func seenPairs(r *run, seq int64, wide bool) []*storage {
	e := int64(4)
	if r.p.Padding {
		e = 8
	}
	ms := []*storage{r.m.alloc(r.p.Batch*seq*seq*e, Temporary)}
	if wide {
		ms = append(ms, r.m.alloc(8*seq*seq, Temporary))
	}
	return ms
}
