package network

import "github.com/vramscope/vramscope/internal/words"

// debertaStack is what DeBERTa's encoder has around its layers.
type debertaStack struct {
	distances *parameter // a row for each distance between two tokens, nil without
	norm      *norm      // on that table
	conv      *debertaConv
}

// debertaConv is a convolution beside the first layer, which is added to its result.
type debertaConv struct {
	weight, bias *parameter
	kernel       int64
	act          activation
	drop         float64
	norm         *norm
}

// maxSpan bounds the distances that a table has rows for; real ones have 512.
const maxSpan = 1 << 20

func buildDeBERTa(b *builder) {
	c, m := b.c, b.m
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
		"intermediate_size")
	kind := b.headUnder("deberta.", headDefault)
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	b.headDim(h, a)
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.Int("vocab_size"), true
	hiddenDrop := b.drop("hidden_dropout_prob")
	stack := &debertaStack{}
	m.Deberta = stack
	b.debertaEmbeddings(h)
	span := int64(0)
	if c.Bool("relative_attention") {
		if span = c.IntOr("position_buckets", -1); span <= 0 {
			if span = c.IntOr("max_relative_positions", -1); span < 1 {
				span = c.Int("max_position_embeddings")
			}
		}
		if span > maxSpan {
			b.fail("%s: distances of up to %d tokens", c.Type, span)
		}
	}
	b.layers("encoder.layer.", c.Int("num_hidden_layers"), func(int64) {
		at := b.looks(h, a, b.drop("attention_probs_dropout_prob"), hiddenDrop)
		at.eagerOnly = true
		bl := &Block{Attention: at, FF: &mlp{act: b.activation("hidden_act"), drop: hiddenDrop}, postNorm: true}
		inner := c.Int("intermediate_size")
		b.fill(bl, nil, h, inner, "q=attention.self.query_proj+ k=attention.self.key_proj+ v=attention.self.value_proj+")
		at.relative = b.distances(at, h, span)
		b.fill(bl, nil, h, inner, "o=attention.output.dense+ attnOut=attention.output.LayerNorm+ "+bertLike.fed)
		m.Blocks = append(m.Blocks, bl)
	})
	if span > 0 {
		stack.distances = b.param("encoder.rel_embeddings.weight", RolePosition, 2*span, h)
	}
	for _, n := range c.Words("norm_rel_ebd") {
		if n == "layer_norm" {
			stack.norm = b.norm("encoder.LayerNorm", layerNormKind, h, true)
		}
	}
	if k := c.Int("conv_kernel_size"); k > 0 {
		stack.conv = &debertaConv{kernel: k, act: actTanh, drop: hiddenDrop}
		if c.Has("conv_act") {
			stack.conv.act = b.activation("conv_act")
		}
		b.make(parts{to: []any{stack.conv}, role: RoleOther, sizes: sizes{"h": h, "each": h / max(c.IntOr("conv_groups", 1), 1)}},
			"weight=encoder.conv.conv.weight:h,each,kernel bias=encoder.conv.conv.bias:h norm=encoder.conv.LayerNorm+")
	}
	b.prefix = ""
	heads := "deberta"
	if c.Has("legacy") && !c.Bool("legacy") { // products with the words' own vectors
		heads += "-new"
	}
	b.headOf(heads, "", kind, h)
}

func (b *builder) debertaEmbeddings(h int64) {
	c, m := b.c, b.m
	e := c.IntOr("embedding_size", h)
	b.embedding("embeddings.word_embeddings", m.Vocab, e)
	if c.Bool("position_biased_input") {
		m.Position = b.param("embeddings.position_embeddings.weight", RolePosition, c.Int("max_position_embeddings"), e)
	}
	if n := c.Int("type_vocab_size"); n > 0 {
		m.types = b.param("embeddings.token_type_embeddings.weight", RoleEmbedding, n, e)
	}
	if e != h {
		if m.Position != nil || m.types != nil {
			b.fail("%s: word vectors of %d beside a stream of %d, with positions or types", c.Type, e, h)
		}
		m.projectIn = b.linear("embeddings.embed_proj", RoleEmbedding, e, h, false)
	}
	m.embedNorm = b.norm("embeddings.LayerNorm", layerNormKind, h, true)
	m.embedDrop = b.drop("hidden_dropout_prob")
}

// distances are the projections by which a layer scores how far tokens are apart.
func (b *builder) distances(at *Attention, h, span int64) *disentangled {
	r := &disentangled{}
	if span == 0 {
		return r
	}
	r.span, r.drop = span, b.drop("hidden_dropout_prob")
	for _, kind := range b.c.Words("pos_att_type") {
		r.c2p, r.p2c = r.c2p || kind == "c2p", r.p2c || kind == "p2c"
	}
	if b.c.Bool("share_att_key") {
		r.key, r.query = at.k, at.q
		return r
	}
	if r.c2p {
		r.key = b.linear("attention.self.pos_key_proj", RoleAttention, h, h, true)
	}
	if r.p2c {
		r.query = b.linear("attention.self.pos_query_proj", RoleAttention, h, h, true)
	}
	return r
}

// table is what layers look distances up in.
func (d *debertaStack) table(m *Machine) *value {
	return d.norm.forward(m, d.distances.Val)
}

// forward adds the convolution of the layers' input to the first one's result.
func (c *debertaConv) forward(m *Machine, in, out *value, width int64) *value {
	x := m.of(in, m.CopyOf, convolves{c.weight, c.bias, in.N, 0}, m.CopyOf)
	tokens := x.N / width
	padding := m.Alloc(tokens, words.Temporary)
	y := m.Again(x)
	m.Record([]*value{y}, []*value{x}, []*storage{padding}, func(g []*storage) []*storage {
		return []*storage{m.Alloc(g[0].Bytes, words.Temporary)}
	})
	m.Release(padding)
	x = m.into(m.Replace(x, y), c.drop, c.act)
	x = m.into(m.Replace(x, m.Add(out, x)), c.norm)
	return m.Replace(x, perToken(m, x, tokens))
}

// perToken multiplies the stream by one number for each token.
func perToken(m *Machine, x *value, tokens int64) *value {
	return m.of(x, multiplies{m.Tensor(tokens, x.Width)})
}

// disentangled is DeBERTa's attention, which scores tokens by distances (c2p) and distances by tokens (p2c), too, all of it
// written out. Distances are rows of one table that all layers share.
type disentangled struct {
	span       int64   // distances to either side, 0: scores of tokens alone
	key, query *Linear // of distances, nil where neither c2p nor p2c needs it; shared ones are the tokens' own
	c2p, p2c   bool
	drop       float64 // on the table of distances
}

// disentangle is the module on x.
func (a *Attention) disentangle(m *Machine, x *value, s shape) *value {
	byHead := func(l *Linear) *value {
		return m.of(x, l, m.CopyOf)
	}
	q, k, v := byHead(a.q), byHead(a.k), byHead(a.v)
	y := recomputed(m, q, k, v, func() *value { return a.byDistance(m, q, k, v, s) })
	m.Drop(q, k, v)
	return m.into(y, a.o, a.outDrop)
}

// byDistance is what values become; most of it has names until the module returns.
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
	// score adds what pairs pick of the scores by distance, their index worked out in steps.
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

// seenPairs are the mask of all pairs of tokens and their distances.
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
