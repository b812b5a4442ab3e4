package budget

// run holds one simulated run of a model.
type run struct {
	m    *machine
	p    *plan
	mod  *model
	ends [numPhases]instant
}

// newRun loads the weights.
func newRun(p *plan) *run {
	m := newMachine()
	m.opts, m.width, m.wide, m.low = p, p.width, p.wide, p.width == 2
	m.cublas, m.cublas1 = p.workspaces()
	r := &run{m: m, p: p, mod: p.model}
	m.phase = Load
	for _, q := range p.model.params {
		e := p.bytesOf(q)
		q.val = &value{st: m.alloc(q.Elements()*e, Weights), n: q.Elements(), e: e, leaf: q}
	}
	return r
}

// bytesOf is the width of a parameter in memory.
func (p *plan) bytesOf(q *parameter) int64 { return p.wide }

// inputs puts a batch on the device.
func (r *run) input(bytes int64) *storage { return r.m.alloc(bytes, Inputs) }

// end notes what is alive at the end of a phase.
func (r *run) end(p Phase) { r.ends[p] = instant{r.m.live, r.m.cats} }

// trainStep is one forward and backward.
func (r *run) trainStep() {
	m, p, mod := r.m, r.p, r.mod
	m.grad = true
	m.phase = Forward
	batch := r.batch()
	m.mixed = p.mixed
	h := r.network(batch)
	logits := r.logits(h)
	r.end(Forward)
	loss := r.lossOf(logits, batch)
	m.drop(h) // the model's own name for it, until it returns
	m.leaveAutocast()
	if p.DropOutputs {
		m.drop(logits)
		logits = nil
	}
	r.end(Loss)
	m.phase = Backward
	m.seed(loss)
	m.backward(0)
	r.end(Backward)
	m.drop(logits)
	for _, s := range batch.all() {
		m.release(s)
	}
	_ = mod
}

// batchOf is what a training step is given.
type batchOf struct {
	ids, decoder, pixels, labels *storage
	tokens                       int64 // rows of the logits
}

func (b batchOf) all() []*storage { return []*storage{b.ids, b.decoder, b.pixels, b.labels} }

// batch puts the inputs of a step on the device.
func (r *run) batch() batchOf {
	p, mod := r.p, r.mod
	t := p.Batch * p.Sequence
	in := func(n int64) *storage { return r.m.alloc(n, Inputs) }
	var b batchOf
	switch mod.task {
	case taskSeq2Seq:
		td := p.Batch * p.DecoderSeq
		b = batchOf{ids: in(8 * t), labels: in(8 * td), decoder: in(8 * td), tokens: td}
	case taskSpeech:
		b = batchOf{pixels: in(p.Batch * mod.encoder.conv.frames * mod.encoder.conv.bins * p.wide), labels: in(8 * t), decoder: in(8 * t), tokens: t}
	case taskContrast:
		b = batchOf{ids: in(8 * t), pixels: in(p.Batch * mod.vision.patch.pixels * p.wide), tokens: p.Batch}
	case taskClassify:
		b = batchOf{labels: in(8 * p.Batch), tokens: p.Batch}
		if mod.patch != nil {
			b.pixels = in(p.Batch * mod.patch.pixels * p.wide)
		} else {
			b.ids = in(8 * t)
		}
	default:
		b = batchOf{ids: in(8 * t), labels: in(8 * t), tokens: t}
	}
	if p.Padding {
		b.pixels = in(8 * t)
	}
	return b
}

// network runs everything up to the head.
func (r *run) network(b batchOf) *value {
	p, mod, m := r.p, r.mod, r.m
	switch {
	case mod.task == taskContrast:
		im := r.body(mod.vision, b, p.Batch, mod.vision.patches, nil, 0)
		first := r.pooled(mod.vision, im, p.Batch)
		v := m.linear(first, mod.vision.head)
		tx := r.body(mod, b, p.Batch, p.Sequence, nil, 0)
		m.drop(im, first, v)
		return m.replace(tx, r.pooled(mod, tx, p.Batch))
	case mod.encoder != nil:
		seq := p.Sequence
		if mod.encoder.conv != nil {
			seq = mod.encoder.patches
		}
		enc := r.body(mod.encoder, b, p.Batch, seq, nil, 0)
		d := b
		d.ids = b.decoder
		n := p.DecoderSeq
		if mod.task == taskSpeech {
			n = p.Sequence
		}
		dec := r.body(mod, d, p.Batch, n, enc, seq)
		m.drop(enc)
		return dec
	case mod.patch != nil:
		return r.body(mod, b, p.Batch, mod.patches, nil, 0)
	default:
		return r.body(mod, b, p.Batch, p.Sequence, nil, 0)
	}
}

// pooled picks one position of every sequence; its gradient is all of them.
func (r *run) pooled(mod *model, x *value, batch int64) *value {
	m := r.m
	y := m.tensor(batch*mod.hidden, x.e)
	b := x.bytes()
	m.record([]*value{y}, []*value{x}, nil, func(m *machine, g []*storage) []*storage {
		return []*storage{m.alloc(b, Temporary)}
	})
	return y
}

// seed gives the loss its gradient.
func (m *machine) seed(v *value) {
	if v.from != nil {
		v.from.grads[v.slot] = &gradient{m.alloc(v.bytes(), Temporary), false}
	}
	m.drop(v)
}

// tables are cos and sin of every position, kept by the first layers that use them.
func (m *machine) tables(seq, dim int64) []*storage {
	if dim == 0 {
		return nil
	}
	return []*storage{m.alloc(seq*dim*m.cosWidth(), Activations), m.alloc(seq*dim*m.cosWidth(), Activations)}
}

// body runs embeddings, layers and the last norm.
func (r *run) body(mod *model, b batchOf, batch, seq int64, memory *value, memorySeq int64) *value {
	m := r.m
	x, names := r.embeddings(mod, b, batch, seq)
	defer func() { m.drop(names...) }()
	c := context{self: shape{batch: batch, queries: seq, keys: seq}, cross: shape{batch: batch, queries: seq, keys: memorySeq}, memory: memory}
	tabs := m.tables(seq, mod.ropeDim)
	masks := r.masks(mod, &c, batch, seq)
	if a := mod.first(); a != nil && a.bias != nil {
		c.self.bias = r.positionBias(a, seq)
		if mod.encoder != nil { // zeros for the attention to the encoder
			c.cross.bias = m.tensor(a.heads*seq*memorySeq, m.wide)
		}
	}
	for _, b := range mod.blocks {
		if r.p.Checkpointing == "full" && m.grad {
			x = m.replace(x, m.checkpoint(x, func(in *value) *value { return b.forward(m, in, c) }))
		} else {
			x = m.replace(x, b.forward(m, x, c))
		}
	}
	m.drop(c.self.bias, c.cross.bias)
	if mod.final != nil {
		x = m.replace(x, mod.final.forward(m, x))
	}
	if mod.projectOut != nil {
		x = m.replace(x, m.apply(x, mod.projectOut))
	}
	if mod.finalDrop > 0 {
		x = m.replace(x, m.dropout(x, mod.finalDrop))
	}
	if r.p.Checkpointing == "full" {
		tabs = append(tabs, masks...) // checkpoints keep their arguments
		masks = nil
	}
	for _, s := range masks {
		m.release(s)
	}
	for _, s := range tabs {
		m.onTape(s)
	}
	return x
}

// onTape ties a storage's life to the oldest node of the tape.
func (m *machine) onTape(s *storage) {
	if m.grad && len(m.tape) > 0 {
		m.tape[0].saved = append(m.tape[0].saved, s)
		return
	}
	m.release(s)
}

// positionBias looks every pair of positions up in the table of relative ones.
func (r *run) positionBias(a *attention, seq int64) *value {
	m := r.m
	ids := m.alloc(8*seq*seq, Temporary)
	v := m.embedding(a.bias, seq*seq, a.heads, ids)
	m.release(ids)
	return v
}

// masks makes the masks that eager attention, padding and windows need: one
// for the layers that see everything, one for those with a window.
func (r *run) masks(mod *model, c *context, batch, seq int64) []*storage {
	m, at := r.m, mod.first()
	if at == nil {
		return nil
	}
	var kinds int64
	window := int64(0)
	full := false
	for _, b := range mod.blocks {
		if b.attn != nil && b.attn.window > 0 {
			window = b.attn.window
		} else if b.attn != nil {
			full = true
		}
	}
	if full {
		kinds++
	}
	if window > 0 {
		kinds++
	}
	var ms []*storage
	if r.p.eager() || at.eagerOnly {
		if at.bidirectional && !r.p.Padding {
			return nil
		}
		for range kinds {
			ms = append(ms, m.alloc(batch*seq*seq*m.wide, Temporary))
		}
		c.self.mask = ms[0]
		return ms
	}
	c.self.masked = r.p.Padding || at.masked
	if at.alibi {
		c.self.mask = m.alloc(batch*at.heads*seq*seq*m.wide, Temporary)
		return []*storage{c.self.mask}
	}
	if c.self.masked || window > 0 && window < seq {
		for i := range kinds {
			if c.self.masked || i == 0 {
				ms = append(ms, m.alloc(batch*seq*seq, Temporary))
			}
		}
	}
	return ms
}

func (mod *model) first() *attention {
	for _, b := range mod.blocks {
		if b.attn != nil {
			return b.attn
		}
	}
	return nil
}

func (mod *model) bidirectional() bool { a := mod.first(); return a != nil && a.bidirectional }

// embeddings turns tokens into the stream. The word and position vectors
// keep a name of their own until the model returns.
func (r *run) embeddings(mod *model, b batchOf, batch, seq int64) (*value, []*value) {
	m := r.m
	t := batch * seq
	switch {
	case mod.conv != nil:
		return r.sound(mod, b, batch), nil
	case mod.patch != nil:
		return r.image(mod, b, batch), nil
	}
	x := m.embedding(mod.embed, t, mod.wordWidth, b.ids)
	if mod.scaled {
		x = m.replace(x, m.scale(x))
	}
	names := []*value{m.again(x)}
	if mod.projectIn != nil {
		x = m.replace(x, m.apply(x, mod.projectIn))
	}
	plus := func(p *parameter, rows int64, index *storage) {
		e := m.embedding(p, rows, mod.hidden, index)
		names = append(names, e)
		x = m.replace(x, m.add(x, e))
	}
	if mod.types != nil {
		plus(mod.types, t, nil)
	}
	if mod.position != nil {
		ps := m.alloc(8*seq, Temporary)
		plus(mod.position, seq, ps)
		m.release(ps)
	}
	if mod.embedNorm != nil {
		x = m.replace(x, mod.embedNorm.forward(m, x))
	}
	if mod.embedDrop > 0 {
		x = m.replace(x, m.dropout(x, mod.embedDrop))
	}
	if mod.bidirectional() { // embeddings are a module of their own, whose names go when it returns
		m.drop(names...)
		names = nil
	}
	return x, names
}

// checkpoint runs f without a graph and keeps its input; backward runs f again.
func (m *machine) checkpoint(x *value, f func(*value) *value) *value {
	in := m.again(x)
	m.replay = replay{discard: true}
	y := f(in)
	until := m.replay.last
	m.replay = replay{}
	m.drop(in)
	y.from, y.leaf = nil, nil
	mixed := m.mixed
	keep := *x
	m.record([]*value{y}, []*value{x}, []*storage{x.st}, func(m *machine, g []*storage) []*storage {
		was := m.mixed
		m.mixed = mixed
		again := &value{st: m.keep(keep.st), n: keep.n, e: keep.e, byHead: keep.byHead}
		catch := &caught{}
		entry := &node{grads: make([]*gradient, 1), run: func(m *machine, g []*storage) []*storage {
			catch.st = m.keep(g[0])
			return nil
		}}
		from := len(m.tape)
		m.tape = append(m.tape, entry)
		again.from = entry
		m.replay = replay{until: until}
		z := f(again)
		m.replay = replay{}
		m.drop(again)
		m.leaveAutocast()
		m.mixed = was
		if z.from != nil {
			z.from.grads[z.slot] = &gradient{m.keep(g[0]), false}
		}
		m.drop(z)
		m.backward(from)
		return []*storage{catch.st}
	})
	return y
}

// caught is the gradient that reaches a checkpoint's input.
type caught struct{ st *storage }

// logits is the head on the stream.
func (r *run) logits(h *value) *value {
	m, mod := r.m, r.mod
	x := m.again(h)
	for _, part := range mod.headParts {
		switch part.kind {
		case 0:
			x = m.replace(x, m.apply(x, part.lin))
		case 1:
			x = m.replace(x, m.activate(x, part.act))
		default:
			x = m.replace(x, part.norm.forward(m, x))
		}
	}
	if mod.head == nil {
		return x
	}
	if mod.task == taskClassify && (mod.patch != nil || mod.directLoss) {
		x = m.replace(x, r.pooled(mod, x, r.p.Batch))
	}
	y := m.linear(x, mod.head)
	m.become(y.st, Logits)
	m.drop(x)
	if mod.softcap {
		y = m.replace(y, m.scale(y))
		y = m.replace(y, m.unary(y, false, true))
		y = m.replace(y, m.scale(y))
		m.become(y.st, Logits)
	}
	if mod.scaleHead {
		y = m.replace(y, m.scale(y))
		m.become(y.st, Logits)
	}
	return y
}

// lossOf is cross entropy: the float32 copy, its log-softmax, one number.
func (r *run) lossOf(logits *value, batch batchOf) *value {
	m := r.m
	m.phase = Loss
	x := m.again(logits)
	if !r.mod.directLoss && r.mod.patch == nil && r.p.Loss != "cross-entropy" {
		x = m.replace(x, m.cast(x, 4))
		m.logit(x)
	}
	s := m.unary(x, false, true) // log_softmax
	m.logit(s)
	m.drop(x)
	w := m.wideUnderAutocast(s) // nll_loss is a float32 operation
	m.logit(w)
	m.drop(s)
	loss := m.tensor(1, 4)
	b := w.bytes()
	m.record([]*value{loss}, []*value{w}, []*storage{w.st, batch.labels}, func(m *machine, g []*storage) []*storage {
		return []*storage{m.alloc(b, Logits)}
	})
	m.drop(w)
	return loss
}

func (m *machine) logit(v *value) {
	if v.st.cat == Temporary || v.st.cat == Activations {
		m.become(v.st, Logits)
	}
}

// workspaces of a plain product and of one with a bias epilogue.
func (p *plan) workspaces() (int64, int64) { return 32 << 20, 1 << 20 }

// toCache hands keys and values to a cache; without one they stay as they are.
func (m *machine) toCache(a *attention, k, v *value) (*value, *value) { return k, v }
