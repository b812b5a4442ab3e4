package network

import (
	"cmp"

	"github.com/vramscope/vramscope/internal/words"
)

// Attention is one attention module.
type Attention struct {
	q, k, v, o    *Linear
	fused         bool  // q is one projection for all three; v stays a view of it
	Heads, KV     int64 // heads of queries, and of keys and values
	Width, dv     int64 // elements of a head of queries and keys, and of values
	qNorm, kNorm  *norm
	rope          rotary
	dropout       float64 // on the scores
	outDrop       float64
	softcap       bool
	downcast      bool       // a plain softmax's result is cast to the values' type (gpt2)
	plainSoftmax  bool       // no cast to float32 (gpt2, bert)
	wideScores    bool       // q and k are cast to float32 first (gpt_neo, gptj)
	alibi         bool       // an additive bias per head
	bias          *parameter // a table of relative positions, made once per stack (t5)
	sinks         *parameter
	lateSinks     bool  // which scale what comes out, by a sum of each row of scores (granite_swa)
	Window        int64 // 0: none
	byHead        bool  // q is made contiguous by head (whisper, bart)
	eagerOnly     bool
	Kernels       bool // but flash and flex attention have kernels for it (gpt-oss)
	clips         bool // q, k and v are clamped at once (mpt)
	byScale       bool // q is scaled before the scores are made (opt)
	addmm         bool // the bias is added inside the product (bloom)
	masked        bool // the model always hands an explicit mask over (falcon)
	narrowSoftmax bool // the softmax stays in the stream's type (falcon)
	keepNames     bool // every stage of the scores keeps a name until the module returns (bloom, falcon)
	pick          bool // k and v are copied out of the fused projection (falcon-7b)
	broadcast     bool // k and v are spread over all query heads (falcon-40b)
	uncached      bool // an encoder's: nothing to generate
	bidirectional bool
	t5            bool          // adds a position bias and never scales
	takes, gives  bool          // another layer's keys and values, its own to others (gemma3n)
	vNorm         *norm         // without a weight
	keysAsValues  bool          // values are keys before their norm (gemma4)
	gated         bool          // q is projected twice as wide; half of it gates the output (qwen3_next)
	relative      *disentangled // scores by distance, too (deberta-v2)
	latent        *latent       // keys and values through a narrow latent (deepseek)
}

// WritesScores says whether all scores are there at once.
func (a *Attention) WritesScores(o *Modes) bool {
	return o.Eager || a.eagerOnly && !(a.Kernels && o.Flash)
}

// Rotated is how many of a head's elements are turned by position.
func (a *Attention) Rotated() int64 { return a.rope.dim }

// Linears are its projections.
func (a *Attention) Linears() []*Linear {
	if a == nil {
		return nil
	}
	switch l, r := a.latent, a.relative; {
	case l != nil:
		return present(a.q, l.qb, l.kva, l.kvb, a.o)
	case a.fused:
		return present(a.q, a.o)
	case r != nil && r.key != a.k:
		return present(a.q, a.k, a.v, a.o, r.key, r.query)
	}
	return present(a.q, a.k, a.v, a.o) // gpt2's cross-attention makes keys and values in one
}

// shape is what one call of attention sees.
type shape struct {
	batch   int64
	queries int64 // per sequence
	keys    int64
	mask    *storage // a shared additive mask, nil without one
	masked  bool     // the kernel gets an explicit mask
	biasOf  int64    // sequences that it is of, 0: all
	bias    *value   // a position bias added to the scores; deberta's table of distances
	beside  *beside
	others  *storage // all ranks' keys and values, where these stay for backward
}

// forward is the module on x, with keys and values of memory.
func (a *Attention) forward(m *Machine, x, memory *value, s shape) *value {
	if a.relative != nil {
		return a.disentangle(m, x, s)
	}
	if a.takes {
		kv := s.beside.keys[a.Window > 0]
		return a.output(m, a.query(m, x, s), m.Again(kv[0]), m.Again(kv[1]), nil, s)
	}
	q, k, v, gate := a.project(m, x, memory)
	q = m.into(q, when(a.byScale, m.Scale))
	if a.byHead && s.batch > 0 && s.queries > 1 && a.Heads > 1 {
		q, k, v = m.Replace(q, m.CopyOf(q)), m.Replace(k, m.CopyOf(k)), m.Replace(v, m.CopyOf(v))
		q.ByHead, k.ByHead, v.ByHead = true, true, true
	}
	if a.rope.kind != ropeNone {
		q, k = a.rope.both(m, q, k, s.queries)
	}
	if a.latent == nil && !a.uncached {
		k, v = a.toCache(m, k, v)
	}
	if a.gives {
		a.give(m, k, v, s.beside)
	}
	if m.Grad && m.Modes.SpreadsHeads {
		k, v = a.spread(m, k, v, a.Heads/a.KV)
	}
	return a.output(m, q, k, v, gate, s)
}

// query is all that a layer makes which takes another's keys and values.
func (a *Attention) query(m *Machine, x *value, s shape) *value {
	q := m.of(x, a.q, a.qNorm)
	return m.Replace(q, a.rope.forward(m, q, a.rope.tables(m, s.queries)...))
}

// give leaves keys and values to later layers. A layer that runs again for backward gives none, and what the first run made of
// them has no graph.
func (a *Attention) give(m *Machine, k, v *value, to *beside) {
	if m.Replay.Until > 0 {
		return
	}
	kv := [2]*value{m.Again(k), m.Again(v)}
	if m.Replay.Discard {
		for _, x := range kv {
			x.From, x.Leaf = nil, nil
		}
	}
	to.keys[a.Window > 0] = kv
}

// output is attention of what is there, and its projection.
func (a *Attention) output(m *Machine, q, k, v, gate *value, s shape) *value {
	s.others = gatherKeys(m, k.Bytes()+v.Bytes())
	var y *value
	if a.WritesScores(&m.Modes) {
		y = recomputed(m, q, k, v, func() *value { return a.eager(m, q, k, v, s) })
	} else {
		y = a.fusedKernel(m, q, k, v, s)
	}
	if gate != nil {
		y = m.into(y, multiplies{m.Unary(gate, false, true)})
		m.Drop(gate)
	}
	z := m.into(m.Replace(y, m.of(y, a.o, m.ScatterTokens)), a.outDrop)
	m.Drop(q, k, v)
	return z
}

// project makes queries, keys and values, and what gates the output.
func (a *Attention) project(m *Machine, x, memory *value) (q, k, v, gate *value) {
	tq := x.N / a.q.In
	hq := tq * a.Heads * a.Width
	switch {
	case a.latent != nil:
		q, k, v = a.latentHeads(m, x, tq)
	case a.fused:
		p := m.of(x, a.q, when(a.clips, byInput))
		hk := tq * a.KV * a.Width
		vs := m.Split(p, hq, hk, hk)
		q, k, v = vs[0], vs[1], vs[2]
		if a.pick {
			k, v = m.Replace(k, pickHead(m, k, p)), m.Replace(v, pickHead(m, v, p))
		}
		if a.broadcast {
			k, v = a.spread(m, k, v, a.Heads/a.KV)
		}
		m.Drop(p)
	default:
		defer m.shareDropout(x, a.q, a.k, a.v)()
		q = m.apply(x, a.q)
		if a.gated { // half of the projection gates the output
			vs := m.Split(q, hq, hq)
			m.Drop(q)
			q, gate = vs[0], vs[1]
		}
		q = m.into(q, when(!a.kNormLate(), a.qNorm))
		k = m.apply(memory, a.k)
		if a.keysAsValues {
			v = m.Again(k)
		} else {
			v = m.apply(memory, a.v)
		}
		if m.Modes.JoinedQKV && m.Grad && a.Heads == a.KV { // all three are views of one product
			m.Release(v.Mem)
			v.Mem = m.Alloc(q.Bytes()+k.Bytes()+v.Bytes(), words.Temporary)
		}
	}
	return m.into(q, when(a.kNormLate(), a.qNorm)), m.into(k, a.kNorm), m.into(v, a.vNorm), gate
}

// kNormLate: q and k are projected before either is normalised.
func (a *Attention) kNormLate() bool { return a.qNorm != nil && a.qNorm.size == a.Width }

// repeat copies key or value heads for every query head; a single one is spread without a copy.
func (m *Machine) repeat(x *value, times int64, single bool) *value {
	if times <= 1 {
		return m.Again(x)
	}
	b, full := x.Bytes(), x.N*times*x.Width
	var y *value
	if single {
		y = m.View(x, x.N*times)
	} else {
		y = m.Tensor(x.N*times, x.Width)
		y.ByHead = true
	}
	m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		if g[0].Bytes != full {
			return []*storage{m.Keep(g[0])}
		}
		return []*storage{m.Alloc(b, words.Temporary)} // summed over the copies
	})
	return y
}

// kernelMasked says whether a kernel gets a mask or a bias: flash attention's own know windows and padding without one.
func (a *Attention) kernelMasked(m *Machine, s shape) bool {
	return !m.Modes.Flash && (s.masked || a.Window > 0 && a.Window <= s.keys) || a.alibi || a.t5
}

// fusedKernel is scaled_dot_product_attention: flash in half types without a mask, else the memory-efficient kernel.
func (a *Attention) fusedKernel(m *Machine, q, k, v *value, s shape) *value {
	masked, w := a.kernelMasked(m, s), m.Width
	rep := a.Heads / a.KV
	if a.broadcast || a.pick || k.N == q.N {
		rep = 1 // already spread, or spread by the kernel
	}
	kk, vv := m.Again(k), m.Again(v)
	if masked || a.Width > 256 {
		kk, vv = a.spread(m, kk, vv, rep)
		rep = 1
	}
	cq, ck, cv := m.Cast(q, w), m.Cast(kk, w), m.Cast(vv, w)
	m.Drop(kk, vv)
	flash := w == 2 && !masked
	ins := []*value{cq, ck, cv}
	bias, added := a.kernelBias(m, s, masked)
	if added.NeedsGrad() {
		ins = append(ins, added)
	}
	t := s.batch * s.queries
	y := m.Kept(t*a.Heads*a.dv, w, false)
	y.ByHead = q.ByHead && flash // the other kernel writes token by token
	if m.Modes.ContextRanks > 1 && !m.Modes.PassesRound {
		y.ByHead = true // PyTorch's ring attention merges what it gets from each rank (_attention.py)
	}
	stat := m.Kept(a.Heads*t, 4, false)
	lse := stat.Mem
	qb, kb, vb := cq.Bytes(), ck.Bytes(), cv.Bytes()
	wide := t * a.Heads * a.Width
	keys := s.batch * s.keys * a.Heads
	saved := []*storage{cq.Mem, ck.Mem, cv.Mem, y.Mem, lse, bias, s.others}
	scores := s.batch * a.Heads * s.queries * s.keys * w
	m.Record([]*value{y}, ins, saved, func(g []*storage) []*storage {
		r := []*storage{m.Alloc(qb, words.Temporary), m.Alloc(kb, words.Temporary), m.Alloc(vb, words.Temporary)}
		if len(ins) > 3 {
			r = append(r, m.Fit(m.Alloc(scores, words.Temporary), added.Bytes(), words.Temporary))
		}
		tmp := []*storage{m.Alloc(4*a.Heads*t, words.Temporary), m.Alloc(4*wide, words.Temporary)}
		if rep > 1 {
			tmp = append(tmp, m.Alloc(keys*a.Width*w, words.Temporary), m.Alloc(keys*a.dv*w, words.Temporary))
		}
		m.ReleaseAll(append(tmp, m.ringSums(qb, kb+vb)...))
		return r
	})
	m.ReleaseAll([]*storage{lse, bias, s.others})
	m.Drop(cq, ck, cv, added)
	return m.into(y, when(y.ByHead, m.CopyOf))
}

// gatherKeys joins other ranks' keys and values beside this one's, of so many bytes; compiled, they may stay for backward.
func gatherKeys(m *Machine, mine int64) *storage {
	switch o := &m.Modes; {
	case o.ContextRanks < 2:
		return nil
	case !o.KeepsKeys || !m.Grad:
		m.Pulse(o.othersKeys(mine), words.Communication)
		return nil
	case m.Replay.Until > 0: // they are there
		return nil
	}
	s := m.Alloc(m.Modes.ContextRanks*mine, words.Activations)
	m.Pulse(mine, words.Communication)
	if m.Replay.Discard {
		m.Replay.Gathered = append(m.Replay.Gathered, s)
		return nil
	}
	return s
}

// ringSums are what backward of context parallelism has beside a kernel's own: all ranks' keys and values, float32 sums, and
// those that are sent on.
func (m *Machine) ringSums(queries, keys int64) []*storage {
	if m.Modes.ContextRanks < 2 || m.Pass.Inference {
		return nil
	}
	others := m.Modes.othersKeys(keys)
	if m.Modes.KeepsKeys {
		others = keys
	}
	return []*storage{m.Alloc(others, words.Communication), m.Alloc(2*queries+7*keys, words.Communication)}
}

// kernelBias is what the kernel adds to the scores, and the position bias in it, whose gradient the kernel makes, too.
func (a *Attention) kernelBias(m *Machine, s shape, masked bool) (bias *storage, added *value) {
	w := m.Width
	row := (s.keys + 7) / 8 * 8 // to which the kernel has rows of a mask padded
	padded := func(heads int64) *storage {
		n := s.batch * heads * s.queries * w
		if row > s.keys {
			before := m.Alloc(n*s.keys, words.Temporary)
			defer m.Release(before)
		}
		return m.Alloc(n*row, words.Temporary)
	}
	switch {
	case a.t5 && s.bias != nil: // a contiguous copy of the position bias, for all sequences
		if s.bias.ByHead {
			added = m.CopyOf(s.bias)
		} else {
			added = m.Again(s.bias)
		}
		added = m.Replace(added, m.Cast(added, w))
		if bias = m.Keep(added.Mem); row > s.keys || m.Modes.Padding && a.bidirectional { // the sum with each sequence's own mask
			m.Release(bias)
			bias = m.Alloc(cmp.Or(s.biasOf, s.batch)*a.Heads*s.queries*row*w, words.Temporary)
		}
	case s.mask != nil && (m.Compiled || a.alibi && m.Width == m.Wide && row == s.keys): // one mask for all layers
		bias = m.Keep(s.mask)
	case a.alibi:
		bias = padded(a.Heads)
	case masked:
		bias = padded(1)
	}
	return bias, added
}

// spread has keys and values as many times as query heads need them, in the place of the ones that are given.
func (a *Attention) spread(m *Machine, k, v *value, times int64) (*value, *value) {
	one := a.KV == 1 && !a.broadcast
	return m.Replace(k, m.repeat(k, times, one)), m.Replace(v, m.repeat(v, times, one))
}

// pickHead copies one head out of a fused projection; its gradient is the whole one's.
func pickHead(m *Machine, x, whole *value) *value {
	y := m.Tensor(x.N, x.Width)
	b := whole.Bytes()
	m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		m.Pulse(b, words.Temporary)
		return []*storage{m.Keep(g[0])}
	})
	return y
}

// eager writes the scores out.
func (a *Attention) eager(m *Machine, q, k, v *value, s shape) *value {
	rep := a.Heads / a.KV
	if a.broadcast {
		rep = 1
	}
	kk, vv := m.repeat(k, rep, a.KV == 1), m.repeat(v, rep, a.KV == 1)
	n := s.batch * a.Heads * s.queries * s.keys
	var names []*value
	next := func(old, v *value) *value {
		if a.keepNames {
			names = append(names, old)
			return v
		}
		return m.Replace(old, v)
	}
	w := a.scored(m, q, kk, n, s)
	if a.alibi && a.narrowSoftmax { // falcon: in float32, the bias per head added first
		w = next(w, m.Cast(w, 4))
		w = next(w, m.Shift(w))
	}
	w = m.into(w, when(s.bias != nil, plus{s.bias}))
	if s.mask != nil {
		mask := &value{Mem: s.mask, N: s.batch * s.queries * s.keys, Width: m.Wide}
		w = next(w, m.Add(w, mask))
	}
	var scale *value
	if a.lateSinks {
		scale = m.into(m.Gather(w, w.N/max(s.keys, 1), w.Mem), 4, byOutput, q.Width)
	} else if a.sinks != nil { // one more column, and the maximum taken off
		w = m.into(w, m.CopyOf, m.Shift)
	}
	if a.narrowSoftmax {
		w = next(w, m.Cast(w, m.Wide))
	}
	p := m.Softmax(w, !a.plainSoftmax && !a.narrowSoftmax)
	p = next(w, m.into(p, a.weightWidth(q, v, p)))
	p = m.into(p, a.dropout)
	cp := m.Cast(p, m.Narrow(p.Width))
	cv := m.Cast(vv, m.Narrow(vv.Width))
	cv2 := m.physical(cv, s.batch)
	y := m.Matmul(cp, cv2, s.batch*s.queries*a.Heads*a.dv)
	m.Drop(cp, cv, cv2)
	if scale != nil {
		y = m.into(y, times{scale})
	}
	z := m.CopyOf(y)
	m.Drop(y, p, kk, vv, scale)
	m.Drop(names...)
	return z
}

// weightWidth is how wide the softmax's result is for its product with the values.
func (a *Attention) weightWidth(q, v, softmax *value) int64 {
	switch {
	case a.plainSoftmax && !a.downcast: // stays in the softmax's own type
		return softmax.Width
	case a.plainSoftmax || a.wideScores || a.narrowSoftmax:
		return v.Width
	}
	return q.Width
}

// scored are the scores of queries and keys, scaled and capped.
func (a *Attention) scored(m *Machine, q, k *value, n int64, s shape) *value {
	fq, fk := m.Again(q), m.Again(k)
	if a.wideScores {
		fq, fk = m.Replace(fq, m.Cast(q, 4)), m.Replace(fk, m.Cast(k, 4))
	}
	w := scores(m, fq, fk, n, s)
	m.Drop(fq, fk)
	w = m.into(w, when(!a.narrowSoftmax && !a.addmm, m.Scale))
	if a.softcap {
		w = softcapped(m, w)
	}
	return w
}

// scores is q times k transposed, both copied into the layout of a batched product.
func scores(m *Machine, q, k *value, n int64, s shape) *value {
	e := m.Narrow(max(q.Width, k.Width))
	cq, ck := m.Cast(q, e), m.Cast(k, e)
	pq, pk := m.physical(cq, s.batch), m.physical(ck, s.batch)
	w := m.Matmul(pq, pk, n)
	m.Drop(cq, ck, pq, pk)
	return w
}

// physical is the copy that folding batch and heads into one dimension takes;
// with one sequence it is a view, as it is for a tensor already laid out by head.
func (m *Machine) physical(x *value, batch int64) *value {
	if batch == 1 || x.ByHead {
		return m.Again(x)
	}
	return m.CopyOf(x)
}

// recomputed makes scores again in backward where that is asked for.
func recomputed(m *Machine, q, k, v *value, f func() *value) *value {
	if !m.Selective || !m.Grad {
		return f()
	}
	join := m.Cat(q, k, v)
	m.Release(join.Mem)
	join.Mem = m.Alloc(0, words.Temporary)
	y := m.Checkpoint(join, func(in *value) *value {
		old := [3]value{*q, *k, *v}
		for _, x := range []*value{q, k, v} {
			x.From, x.Slot, x.Leaf = in.From, in.Slot, in.Leaf
		}
		z := f()
		*q, *k, *v = old[0], old[1], old[2]
		return z
	})
	for _, x := range []*value{q, k, v} {
		m.Keep(x.Mem)
		m.OnTape(x.Mem)
	}
	m.Drop(join)
	return y
}

// Cached is what a layer keeps of one token: keys and values, or their latent.
func (a *Attention) Cached() (elements, head int64) {
	if a.latent != nil {
		return a.latent.rank + a.latent.rope, a.latent.rank
	}
	return a.KV * (a.Width + a.dv), a.Width
}
