package network

import (
	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/internal/words"
)

// Batch is what a training step is given.
type Batch struct {
	IDs, Decoder *storage // tokens, and those of a decoder beside an encoder
	Pixels       *storage // or samples of sound
	Labels, Mask *storage
	Tokens       int64 // rows of the logits
}

// All are those that there are.
func (b Batch) All() []*storage { return []*storage{b.IDs, b.Decoder, b.Pixels, b.Labels, b.Mask} }

// Forward runs everything up to the head.
func (r *Step) Forward(b Batch) *value {
	mod, m := r.Model, r.M
	tokens := m.Modes.Sequence
	switch {
	case mod.UNet != nil:
		return denoise(r, b)
	case mod.Task == TaskContrast:
		im := r.body(mod.Vision, b, mod.Vision.Patches, nil, 0)
		first := r.pooled(mod.Vision, im)
		v := m.linear(first, mod.Vision.Head)
		tx := r.body(mod, b, tokens, nil, 0)
		m.Drop(im, first, v)
		return m.Replace(tx, r.pooled(mod, tx))
	case mod.Encoder != nil:
		seq := tokens
		if mod.Encoder.Sound != nil {
			seq = mod.Encoder.Patches
		}
		enc := r.body(mod.Encoder, b, seq, nil, 0)
		d := b
		d.IDs = b.Decoder
		dec := r.body(mod, d, m.Modes.Target, enc, seq)
		m.Cached = append(m.Cached, enc.Mem) // outputs carry the encoder's last states
		return dec
	case mod.Patch != nil:
		return r.body(mod, b, mod.Patches, nil, 0)
	case mod.Waves != nil:
		return r.body(mod, b, mod.Waves.Frames(tokens), nil, 0)
	default:
		return r.body(mod, b, tokens, nil, 0)
	}
}

// pooled picks one position of every sequence; its gradient is all of them.
func (r *Step) pooled(mod *Model, x *value) *value {
	m := r.M
	y := m.Tensor(r.M.Pass.Batch*mod.Hidden, x.Width)
	if m.Compiled { // what it is picked from makes its own gradient of one position's
		m.Record([]*value{y}, []*value{x}, nil, m.Alias)
		return y
	}
	m.UnaryNode(y, x, words.Temporary)
	return y
}

// pass is one through a stack of layers.
type pass struct {
	r             *Step
	m             *Machine
	mod           *Model
	c             context
	names         []*value // that stay until the model returns
	tables, masks []*storage
	first         map[bool]int // node of the first layer without a window, and with one
}

// body runs embeddings, layers and the last norm.
func (r *Step) body(mod *Model, b Batch, seq int64, memory *value, memorySeq int64) *value {
	m := r.M
	x, s := enter(r, mod, b, seq, memory, memorySeq)
	x = s.end(s.layers(s.begin(x, b.IDs)))
	s.leave()
	for _, bias := range []*value{s.c.self.bias, s.c.cross.bias} {
		switch {
		case bias == nil:
		case r.M.Modes.Recomputes:
			m.OnTape(bias.Mem)
		default:
			m.Drop(bias)
		}
	}
	if m.Compiled && r.M.Modes.Recomputes { // the last block's result is made again, too
		x.Remade = true
	}
	x = m.into(x, mod.final, mod.projectOut, mod.finalDrop)
	s.releaseMasks()
	if a := mod.First(); a != nil && a.rope.spread > 0 && !r.M.Modes.Recomputes {
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
func enter(r *Step, mod *Model, b Batch, seq int64, memory *value, memorySeq int64) (*value, *pass) {
	m, batch := r.M, r.M.Pass.Batch
	x, names := r.embeddings(mod, b, seq)
	if m.Compiled { // names are of no consequence
		m.Drop(names...)
		names = nil
	}
	if m.Modes.EntersInputs && m.Grad { // enable_input_require_grads
		m.Entry(x)
	}
	s := &pass{r: r, m: m, mod: mod, names: names, first: map[bool]int{}, c: context{memory: memory,
		self: shape{batch: batch, queries: seq, keys: seq}, cross: shape{batch: batch, queries: seq, keys: memorySeq}}}
	positions := seq
	if m.Modes.LastLogit && r.Model.Generates() { // generate() numbers the tokens of each sequence
		positions *= batch
	}
	s.tables = m.tables(positions, mod.RotaryWidth)
	s.masks = s.masksOf(seq)
	s.addBiases(seq, memorySeq)
	if mod.bidirectional() && r.Model.Encoder == nil { // the model's own name for what its encoder is given
		s.names = append(s.names, m.Again(x))
	}
	return x, s
}

// layers runs them all.
func (s *pass) layers(x *value) *value {
	m, d, start := s.m, s.mod.Deberta, x
	if m.Modes.Offloads && m.Grad {
		m.Stash = autograd.StashTorchtune
	}
	for i, b := range s.mod.passes() {
		if b.Attention != nil {
			if kind := b.Attention.Window > 0; s.first[kind] == 0 {
				s.first[kind] = len(m.Tape)
			}
		}
		x = m.Replace(x, s.layer(i, b, x))
		if d != nil {
			if i == 0 && d.conv != nil {
				x = m.Replace(x, d.conv.forward(m, start, x, s.mod.Hidden))
			}
			s.names = append(s.names, m.Again(x)) // all layers' results have a name until the model returns
		}
	}
	m.Stash = 0 // the head's stay
	return x
}

// layer runs one, checkpointed as the setting says.
func (s *pass) layer(i int, b *Block, x *value) *value {
	m, r := s.m, s.r
	run := func(in *value) *value {
		defer m.Compile(m.Compile(m.Pass.Compiles))
		return r.Around.Once(b, in, func(in *value) *value { return b.forward(m, in, s.c) })
	}
	return r.Around.Layer(b, x, func(x *value) *value { return s.checkpointed(i, b, x, run) })
}

func (s *pass) checkpointed(i int, b *Block, x *value, run func(*value) *value) *value {
	m, how := s.m, s.m.Modes.Checkpointing
	var args []*storage // what a checkpointed layer is given besides the stream
	if s.c.memory != nil {
		args = append(args, s.c.memory.Mem)
	}
	args = append(args, s.c.beside.storages()...)
	n := m.Modes.Nth
	switch {
	case !m.Grad || how == "" || how == "none" || n > 0 && int64(i+1)%n != 0:
		return run(x)
	case how == "selective" && b.Attention != nil:
		m.Selective = true
		defer func() { m.Selective = false }()
		return run(x)
	}
	if !x.NeedsGrad() && Trains(b.Params) { // its weights are reason enough to run it again
		m.Entry(x)
	}
	m.Replay.Op = how == "op"
	return m.Checkpoint(x, run, args...)
}

// addBiases makes the table of relative positions that all layers share (t5, deberta).
func (s *pass) addBiases(seq, memorySeq int64) {
	m, a := s.m, s.mod.First()
	if d := s.mod.Deberta; d != nil && d.distances != nil {
		s.c.self.bias = d.table(m)
		return
	}
	if a == nil || a.bias == nil {
		return
	}
	ids := m.Alloc(8*seq*seq, words.Temporary) // every pair of positions is looked up
	s.c.self.bias = m.Embedding(a.bias, seq*seq, a.Heads, ids)
	m.Release(ids)
	s.c.self.bias.ByHead = true // a view of the table's rows, heads first
	if s.mod.Encoder != nil {   // zeros for the attention to the encoder
		s.c.cross.bias = m.Tensor(a.Heads*seq*memorySeq, m.Wide)
		if m.Grad && s.r.M.Modes.Recomputes {
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
		case m.Compiled || !s.r.M.Modes.Recomputes: // compiled, they are made again, too, where layers are
			m.Release(st)
		case 0 < at && at < len(m.Tape):
			m.Tape[at].Saved = append(m.Tape[at].Saved, st)
		default:
			m.OnTape(st)
		}
	}
}

// Inputs puts the inputs of a step on the device.
func (r *Step) Inputs() Batch {
	m, mod, size := r.M, r.Model, r.M.Pass.Batch
	t := size * m.Modes.Sequence
	in := func(n int64) *storage { return r.M.Alloc(n, words.Inputs) }
	var b Batch
	switch {
	case mod.Encoder != nil && mod.Encoder.Sound != nil:
		td := size * m.Modes.Target
		b = Batch{Pixels: in(size * mod.Encoder.Sound.frames * mod.Encoder.Sound.bins * m.Wide), Labels: in(8 * td),
			Decoder: in(8 * td), Tokens: td}
	case mod.Encoder != nil:
		td := size * m.Modes.Target
		b = Batch{IDs: in(8 * t), Labels: in(8 * td), Decoder: in(8 * td), Tokens: td}
	case mod.UNet != nil: // latents, noise and their sum, and the text
		pixels := mod.UNet.picture(m).Pixels()
		n := size * pixels * mod.UNet.channels * m.Width
		b = Batch{IDs: in(size * textTokens * mod.UNet.text * m.Width), Pixels: in(n), Labels: in(2 * n), Tokens: size}
	case mod.Task == TaskContrast:
		b = Batch{IDs: in(8 * t), Pixels: in(size * mod.Vision.Patch.pixels * m.Wide), Tokens: size}
	case mod.Waves != nil:
		n := size * mod.Waves.Frames(m.Modes.Sequence)
		b = Batch{Labels: in(8 * n), Pixels: in(t * m.Wide), Tokens: n}
	case mod.Patch != nil:
		b = Batch{Labels: in(8 * size), Pixels: in(size * mod.Patch.pixels * m.Wide), Tokens: size}
	case mod.Task == TaskClassify:
		b = Batch{IDs: in(8 * t), Labels: in(8 * size), Tokens: size}
	default:
		b = Batch{IDs: in(8 * t), Labels: in(8 * t), Tokens: t}
	}
	if m.Modes.Padding {
		b.Mask = in(8 * t)
	}
	return b
}
