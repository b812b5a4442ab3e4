package budget

import "github.com/vramscope/vramscope/budget/autograd"

// run holds one simulated run of a model.
type run struct {
	m       *machine
	p       *plan
	mod     *model
	ends    [numPhases]autograd.Instant
	shards  *sharding  // nil where parameters lie whole
	last    bool       // the next backward is a step's last one
	parts   []*run     // a pipeline rank's pieces, which have its machine
	outputs []*storage // of the last stage, which the schedule hands out in the end
	frozen  []frozen   // what is gathered of models beside it
	before  *storage   // what the last step's graph holds until this step's loss is there
	old     *storage   // the last step's outputs, until this one's are there
	// loaded is how many requests were made before the step.
	loaded int
}

// end notes what is alive at the end of a phase.
func (r *run) end(p Phase) { r.ends[p] = autograd.Instant{Bytes: r.m.Live, Cats: r.m.Cats} }

// forward is a micro-batch that went forward, until its backward.
type forward struct {
	batch        batchOf
	logits, loss *value
	tape         []*node
	accum        map[*parameter]*autograd.Pending
}

// trainStep is one forward and backward of a micro-batch, or a pipeline rank's step.
func (r *run) trainStep() {
	if r.parts != nil {
		r.runStages()
		return
	}
	r.backward(r.forward())
}

// forward runs the model and the loss.
func (r *run) forward() *forward {
	m, p := r.m, r.p
	m.Tape, m.Accum = nil, map[*parameter]*autograd.Pending{}
	m.Grad = true
	m.Phase = Forward
	f := &forward{batch: r.batch()}
	m.Mixed = p.mixed
	defer m.Compile(m.Compile(p.compiledWhole()))
	if r.shards != nil {
		r.shards.last = nil
	}
	if p.sharded() {
		r.unshard(r.groupOf(nil), false)
	}
	h := r.network(f.batch)
	if r.mod.sends {
		f.sent(r, h)
	} else if f.loss = r.lossInPieces(h, f.batch); f.loss == nil {
		h = f.lossOfAll(r, h)
	}
	m.Drop(h) // the model's own name for it, until it returns
	references(r, f.batch)
	m.LeaveAutocast()
	if !r.mod.sends {
		f.handOut(r)
	}
	m.Release(r.before)
	r.before = nil
	r.end(Loss)
	m.Arrived()
	f.tape, f.accum = m.Tape, m.Accum
	m.Tape, m.Accum = nil, nil
	return f
}

// sent is what a pipeline's stage hands on in the place of a loss.
func (f *forward) sent(r *run, h *value) {
	m := r.m
	r.rootDone(h)
	r.end(Forward)
	f.loss = m.Again(h)
	if r.p.buffersAhead() || r.p.waitsLast() {
		f.logits = m.Again(h)
	} else { // only its place in the graph stays
		m.Drop(f.loss)
		f.loss.Mem = m.Alloc(0, Temporary)
	}
}

// lossInPieces is one that makes the logits itself, some at a time; nil where they are made whole.
func (r *run) lossInPieces(h *value, batch batchOf) (loss *value) {
	p := r.p
	if r.end(Forward); !r.mod.languageModel() {
		return nil
	}
	switch {
	case p.Loss == "chunked":
		if !p.profile.outputsInPieces {
			r.rootDone(h)
		}
		loss = r.chunked(h, batch)
	case p.fabric() && p.LoRA > 0 && p.Loss == "cross-entropy":
		loss = r.outputsInPieces(h, batch, autograd.Parts(p.Sequence, litgptPiece))
	case p.Loss == "fused":
		r.rootDone(h)
		loss = r.fusedLoss(h)
		r.lossDone(loss)
	}
	return loss
}

// lossOfAll makes the logits, and a loss of them. It gives h back where the model has still a name for it.
func (f *forward) lossOfAll(r *run, h *value) *value {
	m, p := r.m, r.p
	logits := r.logits(h)
	if p.profile.castsLogits && logits.Width < 4 { // modules/transformer.py, unembed: the model's own cast
		logits = m.Replace(logits, m.Cast(logits, 4))
		m.Logit(logits)
	}
	r.rootDone(logits)
	r.end(Forward)
	pieces := p.fabric() && r.mod.languageModel()
	if p.Loss == "smoothed" { // by the Trainer, once the model has returned
		m.LeaveAutocast()
	}
	if p.Loss == "smoothed" || pieces {
		m.Drop(h)
		h, logits = nil, r.returned(logits)
	}
	if pieces {
		r.forgetOutputs()
		f.loss = r.lossInChunks(logits, f.batch)
	} else {
		f.loss = r.lossOf(logits, f.batch, false)
	}
	r.lossDone(f.loss)
	f.logits = logits
	return h
}

// handOut gives the program the outputs, where these were made whole.
func (f *forward) handOut(r *run) {
	if f.logits != nil {
		f.logits = r.returned(f.logits)
	}
	switch {
	case r.p.collectsOutputs() && f.logits != nil: // the schedule does it
		r.outputs = append(r.outputs, r.m.Keep(f.logits.Mem))
		r.dropOutputs(&f.logits)
	case r.p.DropOutputs:
		r.dropOutputs(&f.logits)
	}
}

// returned are the outputs as the program gets them: in float32, where Accelerate converts them, or
// Lightning's Fabric, which does so in every precision (convert_output).
func (r *run) returned(logits *value) *value {
	if !r.p.fabric() && (!r.p.Trainer || !r.p.mixed) || logits.Width == 4 {
		return logits
	}
	f := r.m.Cast(logits, 4)
	r.m.Logit(f)
	return r.m.Replace(logits, f)
}

// backward goes back through what went forward.
func (r *run) backward(f *forward) {
	m := r.m
	m.Phase = Backward
	m.Tape, m.Accum = f.tape, f.accum
	m.shards = r.shards
	m.Seed(f.loss)
	m.Backward(0)
	switch {
	case r.p.PP == 1:
		r.finishSharding()
	case r.shards != nil && r.shards.root != nil && !r.last: // the last callback of each backward
		r.reduce(r.shards.root)
	}
	m.emptyBucket()
	if !r.p.keepsPackedInputs() { // the graph goes with the loss
		m.ReleaseAll(m.Hoard)
		m.Hoard = nil
	}
	r.end(Backward)
	r.dropOutputs(&f.logits)
	m.ReleaseAll(f.batch.all())
}

// hoarded is what a step's graph still holds when it is over.
func (r *run) hoarded() (n int64) {
	seen := map[*storage]bool{}
	for _, s := range r.m.Hoard {
		if !seen[s] {
			n += s.Bytes
		}
		seen[s] = true
	}
	return n
}

// dropOutputs lets the logits and the cache of a forward go.
func (r *run) dropOutputs(logits **value) {
	r.m.Drop(*logits)
	*logits = nil
	r.m.ReleaseAll(r.m.cached)
	r.m.cached = nil
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
	in := func(n int64) *storage { return r.m.Alloc(n, Inputs) }
	var b batchOf
	switch {
	case mod.encoder != nil && mod.encoder.conv != nil:
		td := p.Batch * p.decoderTokens()
		b = batchOf{pixels: in(p.Batch * mod.encoder.conv.frames * mod.encoder.conv.bins * p.wide), labels: in(8 * td),
			decoder: in(8 * td), tokens: td}
	case mod.encoder != nil:
		td := p.Batch * p.decoderTokens()
		b = batchOf{ids: in(8 * t), labels: in(8 * td), decoder: in(8 * td), tokens: td}
	case mod.unet != nil: // latents, noise and their sum, and the text
		size := latents(p)
		n := p.Batch * size.pixels() * mod.unet.channels * p.width
		b = batchOf{ids: in(p.Batch * textTokens * mod.unet.text * p.width), pixels: in(n), labels: in(2 * n), tokens: p.Batch}
	case mod.task == taskContrast:
		b = batchOf{ids: in(8 * t), pixels: in(p.Batch * mod.vision.patch.pixels * p.wide), tokens: p.Batch}
	case mod.waves != nil:
		n := p.Batch * mod.waves.frames(p.Sequence)
		b = batchOf{labels: in(8 * n), pixels: in(t * p.wide), tokens: n}
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

// decoderTokens is what a decoder beside an encoder is given: a classifier of
// whole sequences reads its input there once more.
func (p *plan) decoderTokens() int64 {
	if p.model.task == taskClassify || p.model.task == taskTokens {
		return p.Sequence
	}
	return p.DecoderSeq
}

// network runs everything up to the head.
func (r *run) network(b batchOf) *value {
	p, mod, m := r.p, r.mod, r.m
	switch {
	case mod.unet != nil:
		return denoise(r, b)
	case mod.task == taskContrast:
		im := r.body(mod.vision, b, mod.vision.patches, nil, 0)
		first := r.pooled(mod.vision, im)
		v := m.linear(first, mod.vision.head)
		tx := r.body(mod, b, p.Sequence, nil, 0)
		m.Drop(im, first, v)
		return m.Replace(tx, r.pooled(mod, tx))
	case mod.encoder != nil:
		seq := p.Sequence
		if mod.encoder.conv != nil {
			seq = mod.encoder.patches
		}
		enc := r.body(mod.encoder, b, seq, nil, 0)
		d := b
		d.ids = b.decoder
		dec := r.body(mod, d, p.decoderTokens(), enc, seq)
		m.cached = append(m.cached, enc.Mem) // outputs carry the encoder's last states
		return dec
	case mod.patch != nil:
		return r.body(mod, b, mod.patches, nil, 0)
	case mod.waves != nil:
		return r.body(mod, b, mod.waves.frames(p.Sequence), nil, 0)
	default:
		return r.body(mod, b, p.Sequence, nil, 0)
	}
}

// pooled picks one position of every sequence; its gradient is all of them.
func (r *run) pooled(mod *model, x *value) *value {
	m := r.m
	y := m.Tensor(r.p.Batch*mod.hidden, x.Width)
	if m.Compiled { // what it is picked from makes its own gradient of one position's
		m.Record([]*value{y}, []*value{x}, nil, m.Alias)
		return y
	}
	m.UnaryNode(y, x, Temporary)
	return y
}

// pass is one through a stack of layers.
type pass struct {
	r             *run
	m             *machine
	mod           *model
	c             context
	names         []*value // that stay until the model returns
	tables, masks []*storage
	first         map[bool]int // node of the first layer without a window, and with one
}

// body runs embeddings, layers and the last norm.
func (r *run) body(mod *model, b batchOf, seq int64, memory *value, memorySeq int64) *value {
	m := r.m
	x, s := enter(r, mod, b, seq, memory, memorySeq)
	x = s.end(s.layers(s.begin(x, b.ids)))
	s.leave()
	for _, bias := range []*value{s.c.self.bias, s.c.cross.bias} {
		switch {
		case bias == nil:
		case r.p.recomputes():
			m.OnTape(bias.Mem)
		default:
			m.Drop(bias)
		}
	}
	if m.Compiled && r.p.recomputes() { // the last block's result is made again, too
		x.Remade = true
	}
	x = m.Replace(x, mod.final.forward(m, x))
	x = m.Replace(x, m.apply(x, mod.projectOut))
	x = m.Replace(x, m.Dropout(x, mod.finalDrop))
	s.releaseMasks()
	if a := mod.first(); a != nil && a.rope.spread > 0 && !r.p.recomputes() {
		m.ReleaseAll(s.tables) // layers keep what they made of them
	} else {
		for _, st := range s.tables {
			m.OnTape(st)
		}
	}
	m.Drop(s.names...)
	return x
}

// enter makes the stream, and what all layers share.
func enter(r *run, mod *model, b batchOf, seq int64, memory *value, memorySeq int64) (*value, *pass) {
	m, batch := r.m, r.p.Batch
	x, names := r.embeddings(mod, b, seq)
	if m.Compiled { // names are of no consequence
		m.Drop(names...)
		names = nil
	}
	if r.p.adapts() && r.p.recomputes() && m.Grad { // enable_input_require_grads
		m.Entry(x)
	}
	s := &pass{r: r, m: m, mod: mod, names: names, first: map[bool]int{}, c: context{memory: memory,
		self: shape{batch: batch, queries: seq, keys: seq}, cross: shape{batch: batch, queries: seq, keys: memorySeq}}}
	positions := seq
	if r.p.Inference && r.p.LastLogit && r.mod.generates() { // generate() numbers the tokens of each sequence
		positions *= batch
	}
	s.tables = m.tables(positions, mod.ropeDim)
	s.masks = s.masksOf(seq)
	s.addBiases(seq, memorySeq)
	if mod.bidirectional() && r.mod.encoder == nil { // the model's own name for what its encoder is given
		s.names = append(s.names, m.Again(x))
	}
	return x, s
}

// layers runs them all.
func (s *pass) layers(x *value) *value {
	m, d, start := s.m, s.mod.deberta, x
	if s.r.p.ActivationOffload && m.Grad {
		m.Stash = autograd.StashTorchtune
	}
	for i, b := range s.mod.passes() {
		if b.attn != nil {
			if kind := b.attn.window > 0; s.first[kind] == 0 {
				s.first[kind] = len(m.Tape)
			}
		}
		x = m.Replace(x, s.layer(i, b, x))
		if d != nil {
			if i == 0 && d.conv != nil {
				x = m.Replace(x, d.conv.forward(m, start, x, s.mod.hidden))
			}
			s.names = append(s.names, m.Again(x)) // all layers' results have a name until the model returns
		}
	}
	m.Stash = 0 // the head's stay
	return x
}

// rootDone lets what is gathered of the parameters outside blocks go once the model has
// returned y, unless it stays for backward.
func (r *run) rootDone(y *value) {
	if !r.p.sharded() || r.p.ownUnits() && r.p.headStays() { // the head's unit was last, and the model returns with the loss
		return
	}
	g := r.groupOf(nil)
	g.before = r.shards.last
	if head := r.mod.head; head != nil && r.shards.ends[head.Weight] != nil {
		g.before = r.shards.ends[head.Weight]
	}
	if !g.stays {
		r.reshard(g)
	}
	r.m.Release(r.shards.flat)
	r.shards.flat = nil
	if !r.p.lossInside() {
		r.beforeBackward(y, g)
	}
}

// lossDone is where backward comes to a model first that works its loss out itself.
func (r *run) lossDone(loss *value) {
	switch {
	case !r.p.sharded() || !r.p.lossInside():
	case r.p.ownUnits() && r.p.headStays():
		r.m.Release(r.shards.flat)
		r.shards.flat = nil
	default:
		r.beforeBackward(loss, r.groupOf(nil))
	}
}

// lossInside says whether the loss is among the model's results, as Transformers' is.
func (p *plan) lossInside() bool {
	return p.profile.lossInside && (p.Loss == "default" || p.Loss == "fused") && p.PP == 1
}

// layer runs one, checkpointed as the setting says.
func (s *pass) layer(i int, b *block, x *value) *value {
	m, r := s.m, s.r
	run := func(in *value) *value {
		defer m.Compile(m.Compile(r.p.Compile))
		return r.brought(b, in, func(in *value) *value { return b.forward(m, in, s.c) })
	}
	return r.gathered(b, x, func(x *value) *value { return s.checkpointed(i, b, x, run) })
}

func (s *pass) checkpointed(i int, b *block, x *value, run func(*value) *value) *value {
	m, how := s.m, s.r.p.Checkpointing
	var args []*storage // what a checkpointed layer is given besides the stream
	if s.c.memory != nil {
		args = append(args, s.c.memory.Mem)
	}
	args = append(args, s.c.beside.storages()...)
	n, nth := s.r.p.everyNth()
	switch {
	case !m.Grad || how == "none" || nth && int64(i+1)%n != 0:
		return run(x)
	case how == "selective" && b.attn != nil:
		m.Selective = true
		defer func() { m.Selective = false }()
		return run(x)
	}
	if !x.NeedsGrad() && trains(b.params) { // its weights are reason enough to run it again
		m.Entry(x)
	}
	m.Replay.Op = how == "op"
	return m.Checkpoint(x, run, args...)
}

// addBiases makes the table of relative positions that all layers share (t5, deberta).
func (s *pass) addBiases(seq, memorySeq int64) {
	m, a := s.m, s.mod.first()
	if d := s.mod.deberta; d != nil && d.distances != nil {
		s.c.self.bias = d.table(m)
		return
	}
	if a == nil || a.bias == nil {
		return
	}
	ids := m.Alloc(8*seq*seq, Temporary) // every pair of positions is looked up
	s.c.self.bias = m.Embedding(a.bias, seq*seq, a.heads, ids)
	m.Release(ids)
	s.c.self.bias.ByHead = true // a view of the table's rows, heads first
	if s.mod.encoder != nil {   // zeros for the attention to the encoder
		s.c.cross.bias = m.Tensor(a.heads*seq*memorySeq, m.Wide)
		if m.Grad && s.r.p.recomputes() {
			m.Entry(s.c.cross.bias)
		}
	}
}

// releaseMasks lets masks go; a layer that runs again keeps its arguments.
func (s *pass) releaseMasks() {
	m := s.m
	kinds := []int{s.first[false], s.first[true]}
	if len(s.masks) == 1 {
		if kinds[0] = min(s.first[false], s.first[true]); kinds[0] == 0 {
			kinds[0] = max(s.first[false], s.first[true])
		}
	}
	for i, st := range s.masks {
		switch at := kinds[i]; {
		case m.Compiled || !s.r.p.recomputes(): // compiled, they are made again, too, where layers are
			m.Release(st)
		case 0 < at && at < len(m.Tape):
			m.Tape[at].Saved = append(m.Tape[at].Saved, st)
		default:
			m.OnTape(st)
		}
	}
}
