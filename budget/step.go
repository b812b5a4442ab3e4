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
		n := q.Elements()
		stored := p.stored(q)
		q.val = &value{st: m.alloc(stored, Weights), n: n, e: p.wide, leaf: q}
		q.packed = p.quantised(q)
	}
	for _, q := range p.adapters {
		e := p.adapterWidth()
		q.val = &value{st: m.alloc(q.Elements()*e, Weights), n: q.Elements(), e: e, leaf: q}
	}
	m.alloc(int64(p.model.buffers)+int64(p.model.wideBuffers)*p.wide, Weights)
	if p.persistentWorkspace() {
		m.alloc(m.cublas, Workspace)
		m.cublas, m.cublas1 = 0, 0
	}
	r.end(Load)
	return r
}

// adapterWidth is the width of LoRA weights.
func (p *plan) adapterWidth() int64 {
	if p.mixed || p.LoRADtype == "fp32" {
		return 4
	}
	return p.wide
}

// quantised says whether a weight is kept in 8 or 4 bits: the linear layers
// in the blocks are, embeddings, head and norms are not.
func (p *plan) quantised(q *parameter) bool {
	return (p.Precision == "int8" || p.Precision == "int4") && len(q.Shape) > 1 &&
		q.Role != RoleEmbedding && q.Role != RoleHead && q.Role != RolePosition && q.Role != RoleRouter
}

// stored is what a parameter takes on this rank: quantised, sharded, or on
// the CPU.
func (p *plan) stored(q *parameter) int64 {
	n := q.Elements()
	b := n * p.wide
	if p.quantised(q) {
		b = quantisedBytes(p.Precision, n)
	}
	if p.sharded() {
		b = (b + p.shards() - 1) / p.shards()
	}
	if p.Offload == "params" {
		return 0
	}
	return b
}

// quantisedBytes: int8 with a float32 scale per row of about 4,096, int4 as
// NF4 in blocks of 64 with double quantisation, 0.515869 bytes per element.
func quantisedBytes(precision string, n int64) int64 {
	if precision == "int8" {
		return n + n/1024
	}
	blocks := (n + 63) / 64
	return (n+1)/2 + blocks + 4*((blocks+255)/256)
}

// end notes what is alive at the end of a phase.
func (r *run) end(p Phase) { r.ends[p] = instant{r.m.live, r.m.cats} }

// trainStep is one forward and backward of a micro-batch.
func (r *run) trainStep() {
	m, p := r.m, r.p
	m.grad = true
	m.phase = Forward
	batch := r.batch()
	m.mixed = p.mixed
	h := r.network(batch)
	var logits, loss *value
	switch {
	case p.Loss == "chunked" && r.mod.languageModel():
		r.end(Forward)
		loss = r.chunked(h, batch)
	case p.Loss == "fused" && r.mod.languageModel():
		r.end(Forward)
		loss = r.fusedLoss(h)
	default:
		logits = r.logits(h)
		r.end(Forward)
		loss = r.lossOf(logits, batch, false)
	}
	m.drop(h)                                  // the model's own name for it, until it returns
	if p.Trainer && p.mixed && logits != nil { // outputs are converted to float32 on return
		f := m.cast(logits, 4)
		m.logit(f)
		m.drop(logits)
		logits = f
	}
	m.leaveAutocast()
	if p.DropOutputs {
		r.dropOutputs(&logits)
	}
	r.end(Loss)
	m.phase = Backward
	m.seed(loss)
	m.backward(0)
	r.end(Backward)
	r.dropOutputs(&logits)
	for _, s := range batch.all() {
		m.release(s)
	}
}

// dropOutputs lets the logits and the cache of a forward go.
func (r *run) dropOutputs(logits **value) {
	r.m.drop(*logits)
	*logits = nil
	for _, s := range r.m.cached {
		r.m.release(s)
	}
	r.m.cached = nil
}

// languageModel says whether the logits are words at every position.
func (mod *model) languageModel() bool {
	return mod.head != nil && (mod.task == taskCausal || mod.task == taskMasked || mod.task == taskSeq2Seq || mod.task == taskSpeech)
}

// chunkTokens is the size of a piece of the chunked loss.
const chunkTokens = 1024

// chunked is the loss in pieces, each checkpointed: only one piece's logits
// are alive at a time.
func (r *run) chunked(h *value, batch batchOf) *value {
	m := r.m
	m.phase = Loss
	var sizes []int64
	t := h.n / r.mod.wordWidth
	for left := t; left > 0 && len(sizes) < 1<<16; left -= chunkTokens {
		sizes = append(sizes, min(left, chunkTokens)*r.mod.wordWidth)
	}
	pieces := m.split(h, sizes...)
	var total *value
	for _, x := range pieces {
		l := m.checkpoint(x, func(in *value) *value {
			m.loose = m.replay.until > 0 && m.mixed
			y := r.logits(in)
			m.loose = false
			return r.lossOf(y, batch, true)
		})
		if total == nil {
			total = l
			continue
		}
		total = m.replace(total, m.add(total, l))
		m.drop(l)
	}
	m.drop(pieces...)
	return total
}

// fusedLoss is a fused linear cross entropy: gradients of the stream and of
// the head are made in the forward, from logits of a few tokens at a time.
func (r *run) fusedLoss(h *value) *value {
	m, mod := r.m, r.mod
	m.phase = Loss
	t := h.n / mod.wordWidth
	v := max(mod.vocab, 1)
	per := (v + mod.wordWidth - 1) / mod.wordWidth
	chunk := int64(1)
	for chunk < (t+per-1)/per {
		chunk *= 2
	}
	in := m.cast(h, m.narrow(h.e))
	w := m.weight(mod.head.weight)
	gx := m.alloc(in.bytes(), Temporary)
	gw := m.alloc(w.bytes(), Temporary)
	m.pulse(chunk*v*(w.e+4), Logits)
	loss := m.tensor(1, 4)
	m.record([]*value{loss}, []*value{in, w}, []*storage{gx, gw}, func(m *machine, g []*storage) []*storage {
		return []*storage{m.keep(gx), m.keep(gw)}
	})
	m.release(gx)
	m.release(gw)
	m.drop(in, w)
	return loss
}

// batchOf is what a training step is given.
type batchOf struct {
	ids, decoder, pixels, labels, mask *storage
	tokens                             int64 // rows of the logits
}

func (b batchOf) all() []*storage { return []*storage{b.ids, b.decoder, b.pixels, b.labels, b.mask} }

// batch puts the inputs of a step on the device.
func (r *run) batch() batchOf {
	p, mod := r.p, r.mod
	t := p.Batch * p.Sequence
	in := func(n int64) *storage { return r.m.alloc(n, Inputs) }
	var b batchOf
	switch {
	case mod.encoder != nil && mod.encoder.conv != nil:
		b = batchOf{pixels: in(p.Batch * mod.encoder.conv.frames * mod.encoder.conv.bins * p.wide), labels: in(8 * t), decoder: in(8 * t), tokens: t}
	case mod.encoder != nil:
		td := p.Batch * p.DecoderSeq
		b = batchOf{ids: in(8 * t), labels: in(8 * td), decoder: in(8 * td), tokens: td}
	case mod.task == taskContrast:
		b = batchOf{ids: in(8 * t), pixels: in(p.Batch * mod.vision.patch.pixels * p.wide), tokens: p.Batch}
	case mod.patch != nil:
		b = batchOf{labels: in(8 * p.Batch), pixels: in(p.Batch * mod.patch.pixels * p.wide), tokens: p.Batch}
	case mod.task == taskClassify:
		b = batchOf{ids: in(8 * t), labels: in(8 * p.Batch), tokens: p.Batch}
	default:
		b = batchOf{ids: in(8 * t), labels: in(8 * t), tokens: t}
	}
	if p.Padding {
		b.mask = in(8 * t)
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
		if mod.encoder.conv != nil {
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
	c := Activations
	if !m.grad {
		c = Temporary
	}
	return []*storage{m.alloc(seq*dim*m.cosWidth(), c), m.alloc(seq*dim*m.cosWidth(), c)}
}

// body runs embeddings, layers and the last norm.
func (r *run) body(mod *model, b batchOf, batch, seq int64, memory *value, memorySeq int64) *value {
	m := r.m
	x, names := r.embeddings(mod, b, batch, seq)
	if r.p.LoRA > 0 && r.p.Checkpointing == "full" && m.grad { // enable_input_require_grads
		m.entry(x)
	}
	defer func() { m.drop(names...) }()
	c := context{self: shape{batch: batch, queries: seq, keys: seq}, cross: shape{batch: batch, queries: seq, keys: memorySeq}, memory: memory}
	tabs := m.tables(seq, mod.ropeDim)
	masks := r.masks(mod, &c, batch, seq)
	if a := mod.first(); a != nil && a.bias != nil {
		c.self.bias = r.positionBias(a, seq)
		if mod.encoder != nil { // zeros for the attention to the encoder
			c.cross.bias = m.tensor(a.heads*seq*memorySeq, m.wide)
			if m.grad && r.p.Checkpointing == "full" {
				m.entry(c.cross.bias)
			}
		}
	}
	var args []*storage // what a checkpointed layer is given besides the stream
	if memory != nil {
		args = append(args, memory.st)
	}
	for _, b := range mod.blocks {
		run := func(in *value) *value { return r.gathered(b, func() *value { return b.forward(m, in, c) }) }
		switch {
		case !m.grad || r.p.Checkpointing == "none":
			x = m.replace(x, run(x))
		case r.p.Checkpointing == "full" || r.p.Checkpointing == "selective" && b.attn == nil:
			x = m.replace(x, m.checkpoint(x, run, args...))
		default:
			m.selective = true
			x = m.replace(x, run(x))
			m.selective = false
		}
	}
	for _, bias := range []*value{c.self.bias, c.cross.bias} {
		switch {
		case bias == nil:
		case r.p.Checkpointing == "full":
			m.onTape(bias.st)
		default:
			m.drop(bias)
		}
	}
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
	case mod.received:
		x := m.tensor(t*mod.hidden, r.p.streamWidth())
		m.become(x.st, Communication)
		m.entry(x)
		return x, nil
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

// checkpoint runs f without a graph and keeps its input and arguments;
// backward runs f again.
func (m *machine) checkpoint(x *value, f func(*value) *value, args ...*storage) *value {
	in := m.again(x)
	m.replay = replay{discard: true}
	y := f(in)
	until := m.replay.last
	m.replay = replay{}
	m.drop(in)
	y.from, y.leaf = nil, nil
	mixed := m.mixed
	keep := *x
	m.record([]*value{y}, []*value{x}, append(args, x.st), func(m *machine, g []*storage) []*storage {
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

// entry makes x the start of a graph whose gradient nobody keeps.
func (m *machine) entry(x *value) {
	x.from = &node{grads: make([]*gradient, 1), run: func(*machine, []*storage) []*storage { return nil }}
	x.slot, x.leaf = 0, nil
	m.tape = append(m.tape, x.from)
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
	if r.p.Inference && r.p.LastLogit && mod.task == taskCausal {
		x = m.replace(x, r.pooled(mod, x, r.p.Batch))
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
// Unnamed logits go as soon as the copy is made.
func (r *run) lossOf(logits *value, batch batchOf, unnamed bool) *value {
	m := r.m
	if m.phase != Backward {
		m.phase = Loss
	}
	x := m.again(logits)
	if unnamed { // nobody else holds the logits
		m.drop(logits)
	}
	if !r.mod.directLoss && r.mod.patch == nil && r.p.Loss != "cross-entropy" && r.p.Loss != "logits-only" && r.mod.task != taskBackbone {
		x = m.replace(x, m.cast(x, 4))
		m.logit(x)
	}
	if r.p.Loss == "logits-only" || r.mod.task == taskBackbone {
		l := m.mean(x)
		m.drop(x)
		return l
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

// mean is one number of all; its gradient is spread over all again.
func (m *machine) mean(x *value) *value {
	y := m.tensor(1, x.e)
	b, c := x.bytes(), gradCategory(x)
	m.record([]*value{y}, []*value{x}, nil, func(m *machine, g []*storage) []*storage {
		return []*storage{m.alloc(b, c)}
	})
	return y
}

func (m *machine) logit(v *value) {
	if v.st.cat == Temporary || v.st.cat == Activations {
		m.become(v.st, Logits)
	}
}

// toCache hands keys and values to a cache, which copies them; without one
// they stay as they are.
func (m *machine) toCache(a *attention, k, v *value) (*value, *value) {
	if m.opts.Inference && m.opts.Cache != "none" {
		e := k.e
		return m.store(k, e), m.store(v, e)
	}
	if !m.opts.UseCache || !m.grad || m.replay.discard || m.replay.until > 0 {
		return k, v
	}
	wide := k.e // the cache takes the keys' type; rotated keys are float32 under autocast
	put := func(x *value) *value {
		y := m.tensor(x.n, max(x.e, wide))
		m.record([]*value{y}, []*value{x}, nil, func(m *machine, g []*storage) []*storage {
			return []*storage{m.fit(m.keep(g[0]), x.n*x.e, Temporary)}
		})
		m.cached = append(m.cached, m.keep(y.st))
		return m.replace(x, y)
	}
	return put(k), put(v)
}
