package network

import "github.com/vramscope/vramscope/internal/words"

// disentangled is DeBERTa's attention: besides tokens by tokens it scores
// tokens by relative distances (c2p) and distances by tokens (p2c), all of it
// written out. Distances are rows of one table that all layers share.
type disentangled struct {
	span       int64   // distances to either side, 0: scores of tokens alone
	key, query *Linear // of distances, nil where neither c2p nor p2c needs it; shared ones are the tokens' own
	c2p, p2c   bool
	drop       float64 // on the table of distances
}

// disentangle is the module on x. The table of distances and the mask of all
// pairs come with the shape.
func (a *Attention) disentangle(m *Machine, x *value, s shape) *value {
	byHead := func(l *Linear) *value {
		return m.of(x, l, m.CopyOf)
	}
	q, k, v := byHead(a.q), byHead(a.k), byHead(a.v)
	y := recomputed(m, q, k, v, func() *value { return a.byDistance(m, q, k, v, s) })
	m.Drop(q, k, v)
	return m.into(y, a.o, a.outDrop)
}

// byDistance are the scores, their softmax and what it makes of the values;
// most of it has names until the module returns.
func (a *Attention) byDistance(m *Machine, q, k, v *value, s shape) *value {
	r := a.relative
	pairs := s.batch * s.queries * s.keys
	scaled := m.Scale(k)
	w := m.Replace(scaled, m.Matmul(q, scaled, pairs*a.Heads))
	var bias, table *value
	if r.span > 0 {
		table = m.Dropout(s.bias, r.drop)
		if bias = a.distances(m, q, k, table, s); bias != nil {
			w = m.into(w, plus{bias})
		}
	}
	sees := m.Alloc(pairs, words.Temporary)
	hidden := m.Alloc(pairs, words.Temporary)
	w = m.Replace(w, m.Gather(w, w.N, hidden)) // masked_fill keeps its mask as a gather its index
	m.Release(hidden)
	p := m.into(m.Softmax(w, false), a.dropout)
	y := m.into(m.Matmul(p, v, s.batch*s.queries*a.Heads*a.Width), m.CopyOf)
	m.Release(sees)
	m.Drop(w, p, bias, table)
	return y
}

// distances is what is added to the scores for how far tokens are apart.
func (a *Attention) distances(m *Machine, q, k, table *value, s shape) *value {
	r := a.relative
	rows := s.batch * a.Heads * s.queries
	// project is a projection of the table by head, once for each sequence.
	project := func(l *Linear) *value {
		if l == nil {
			return nil
		}
		y := m.of(table, l, m.CopyOf)
		if s.batch == 1 {
			return m.into(y, m.CopyOf)
		}
		return m.Replace(y, m.repeat(y, s.batch, false))
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
		all := m.Matmul(by, of, rows*2*r.span)
		index := m.Alloc(8*s.queries*s.keys, words.Temporary)
		for range steps {
			next := m.Alloc(index.Bytes, words.Temporary)
			m.Release(index)
			index = next
		}
		picked := m.Gather(all, rows*s.keys, index, all.Mem) // torch.gather keeps what it picks from
		m.Drop(all)
		part := m.Scale(picked)
		if sum == nil {
			sum = m.Shift(part)
		} else {
			sum = m.Replace(sum, m.AddInPlace(sum, part))
		}
		m.Drop(part)
		names, indices = append(names, picked), append(indices, index)
	}
	if r.c2p {
		score(q, pk, 1)
	}
	if r.p2c {
		score(k, pq, 2)
	}
	m.Drop(names...)
	m.Drop(pk, pq)
	m.ReleaseAll(indices)
	return sum
}

// seenPairs are the mask of all pairs of tokens, which stays for the whole
// pass, and their distances.
func seenPairs(r *Step, seq int64, wide bool) []*storage {
	e := int64(4)
	if r.M.Modes.Padding {
		e = 8
	}
	ms := []*storage{r.M.Alloc(r.M.Pass.Batch*seq*seq*e, words.Temporary)}
	if wide {
		ms = append(ms, r.M.Alloc(8*seq*seq, words.Temporary))
	}
	return ms
}
