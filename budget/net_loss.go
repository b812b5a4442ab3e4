package budget

import "slices"

// languageModel says whether the logits are words at every position.
func (mod *model) languageModel() bool {
	return mod.head != nil && (mod.task == taskCausal || mod.task == taskMasked || mod.task == taskSeq2Seq ||
		mod.task == taskSpeech)
}

// chunkTokens is the size of a piece of the chunked loss.
const chunkTokens = 1024

// alikePieces is how many of them are worked through: of a long sequence the others take nothing else.
const alikePieces = 64

// chunked is the loss in pieces, each checkpointed: only one piece's logits
// are alive at a time.
func (r *run) chunked(h *value, batch batchOf) *value {
	m := r.m
	var sizes []int64
	t := h.N / r.mod.wordWidth
	if r.p.profile.outputsInPieces {
		return r.outputsInPieces(h, batch, outputPieces)
	}
	if r.p.profile.outputsInTiles {
		return r.inTiles(h)
	}
	m.Phase = Loss
	for left := t; left > 0; left -= chunkTokens {
		if len(sizes) == alikePieces {
			sizes = append(sizes, left*r.mod.wordWidth)
			break
		}
		sizes = append(sizes, min(left, chunkTokens)*r.mod.wordWidth)
	}
	pieces := m.Split(h, sizes...)
	var total *value
	for i, x := range pieces {
		var l *value
		if i < alikePieces {
			l = m.Checkpoint(x, func(in *value) *value {
				m.Loose = m.Replay.Until > 0 && m.Mixed
				y := r.logits(in)
				m.Loose = false
				return r.lossOf(y, batch, true)
			})
		} else { // they leave what those before them leave, and their gradient
			l = m.Made(x, 1, 4, Temporary)
		}
		if total == nil {
			total = l
			continue
		}
		total = m.Replace(l, m.Replace(total, m.Add(total, l)))
	}
	m.Drop(pieces...)
	return total
}

// tileTokens and tileWords are the sides of TRL's tiles of logits.
const (
	tileTokens = 4096
	tileWords  = 32768
)

// inTiles is TRL's loss (trl/kernels/chunked_logprob.py): a tile of logits at a time, made again in
// backward, which sums the gradients of the stream and of the head up in float32.
func (r *run) inTiles(h *value) *value {
	m, mod := r.m, r.mod
	m.Phase = Loss
	in := m.CopyOf(h)
	w := mod.head.Weight.Val
	t := in.N / mod.wordWidth
	tile := min(t, tileTokens) * tileWords * m.Narrow(w.Width)
	stats := m.Alloc(8*4*t, Temporary)
	m.Pulse(tile+m.Cublas, Logits)
	m.Release(stats)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{in, w}, []*storage{in.Mem, w.Mem}, func(g []*storage) []*storage {
		made := []*storage{m.AllocIf(in.NeedsGrad(), 4*in.N, Temporary), m.AllocIf(w.NeedsGrad(), 4*w.N, Temporary)}
		logits := m.Alloc(tile, Logits)
		m.Pulse(m.Cublas, Workspace)
		made = []*storage{m.Fit(made[0], in.Bytes(), Gradients), m.Fit(made[1], w.Bytes(), Gradients)}
		m.Release(logits)
		return made
	})
	m.Drop(in)
	return loss
}

// outputPieces is into how many the outputs of torchtune's models are cut, litgptPiece how
// many positions are in each of litgpt's (lm_head_chunk_size).
const (
	outputPieces = 8
	litgptPiece  = 128
)

// outputsInPieces are torchtune's (modules/loss/ce_chunked_output_loss.py): the head makes
// the logits piece by piece, all of which stay, and each has a loss of its own.
func (r *run) outputsInPieces(h *value, batch batchOf, n int64) *value {
	m, w := r.m, r.mod.wordWidth
	n = max(min(n, h.N/w), 1)
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = (h.N/w*int64(i+1)/n - h.N/w*int64(i)/n) * w
	}
	m.Phase = Forward
	pieces := m.Split(h, sizes...)
	logits := make([]*value, n)
	for i, x := range pieces {
		logits[i] = r.logits(x)
	}
	m.Drop(pieces...)
	r.rootDone(logits[n-1]) // backward comes to the last one first
	wide := make([]*value, n)
	for i, y := range logits {
		wide[i] = r.returned(m.Again(y))
	}
	m.Drop(logits...)
	logits = wide
	r.forgetOutputs()
	if r.shards != nil {
		m.Release(r.shards.flat)
		r.shards.flat = nil
	}
	m.Phase = Loss
	var total *value
	for _, y := range logits {
		l := r.lossOf(y, batch, false)
		if total != nil {
			l = m.Replace(l, m.Replace(total, m.Add(total, l)))
		}
		total = l
	}
	for _, y := range logits {
		if r.p.DropOutputs {
			m.Drop(y)
		} else {
			m.cached = append(m.cached, y.Mem)
		}
	}
	return total
}

// fusedLoss is a fused linear cross entropy: gradients of the stream and of
// the head are made in the forward, from logits of a few tokens at a time.
func (r *run) fusedLoss(h *value) *value {
	m, mod := r.m, r.mod
	m.Phase = Loss
	t := h.N / mod.wordWidth
	v := max(mod.vocab, 1)
	per := (v + mod.wordWidth - 1) / mod.wordWidth
	chunk := int64(1)
	for chunk < (t+per-1)/per {
		chunk *= 2
	}
	in := m.Cast(h, m.Narrow(h.Width))
	head := m.AllocIf(r.p.Offload == "params" && !r.p.sharded(), r.p.headBytes(), Communication)
	w := m.Weight(mod.head.Weight)
	made := []*storage{m.Alloc(in.Bytes(), Temporary), m.AllocIf(w.NeedsGrad(), w.Bytes(), Temporary)} // a frozen head gets none
	m.Pulse(chunk*v*(w.Width+4), Logits)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{in, w}, made, func(g []*storage) []*storage {
		return []*storage{m.Keep(made[0]), m.Keep(made[1])}
	})
	m.ReleaseAll(append(made, head))
	m.Drop(in, w)
	return loss
}

// logits is the head on the stream.
func (r *run) logits(h *value) *value {
	if r.mod.head == nil {
		return r.projected(h)
	}
	return r.unit(r.mod.head.Weight, h, func(h *value) *value {
		return r.fetched(r.p.headBytes(), r.mod.head.Weight, func() *value { return r.projected(h) })
	})
}

// summary is what a classifier of whole sequences or images takes: the first position, and where it is twice as wide the mean
// of the others beside it.
func (r *run) summary(mod *model, x *value) *value {
	first := r.pooled(mod, x)
	if mod.head == nil || mod.head.In != 2*mod.hidden {
		return first
	}
	mean := r.pooled(mod, x)
	y := r.m.Cat(first, mean)
	r.m.Drop(first, mean)
	return y
}

func (r *run) projected(h *value) *value {
	m, mod := r.m, r.mod
	x := m.GatherTokens(h)
	if mod.task == taskClassify && (mod.patch != nil || mod.directLoss || len(mod.headParts) > 0) {
		x = m.Replace(x, r.summary(mod, x))
	}
	for _, part := range mod.headParts {
		x = m.Replace(x, part.forward(m, x))
	}
	if mod.head == nil {
		return x
	}
	if r.p.Inference && r.p.LastLogit && mod.task == taskCausal {
		x = m.Replace(x, r.pooled(mod, x))
	}
	if mod.wideLogits { // the stream may be wider than the head
		x = m.Replace(x, m.Cast(x, m.Wide))
	}
	y := m.apply(x, mod.head)
	m.Become(y.Mem, Logits)
	m.Drop(x)
	if r.p.wholeLogits() && mod.languageModel() {
		y = m.Replace(y, m.allWords(y, y.N/mod.head.Out*mod.vocab))
	}
	return finished(m, mod, y)
}

// finished are logits after what a family does to a product's result.
func finished(m *machine, mod *model, y *value) *value {
	if mod.softcap {
		y = softcapped(m, y)
	}
	if mod.wideLogits {
		y = m.Replace(y, m.Cast(y, 4))
	}
	m.Become(y.Mem, Logits)
	if mod.plusBias {
		row := m.Tensor(mod.vocab, m.Wide)
		y = m.Replace(row, m.Replace(y, m.Add(y, row)))
		m.Become(y.Mem, Logits)
	}
	if mod.scaleHead {
		y = m.Replace(y, m.Scale(y))
		m.Become(y.Mem, Logits)
	}
	return y
}

// softcapped is a bound times the hyperbolic tangent of x over it, which takes the place of x.
func softcapped(m *machine, x *value) *value {
	x = m.Replace(x, m.Scale(x))
	x = m.Replace(x, m.Unary(x, false, true))
	return m.Replace(x, m.Scale(x))
}

// wholeLogits says whether each tensor-parallel rank has the logits of all words: Transformers'
// plans gather the head's results (colwise_gather_output).
func (p *plan) wholeLogits() bool { return p.TP > 1 && p.profile.wholeLogits }

// allWords are n logits, of which each rank has some: they arrive rank by rank, and are put
// together for each token.
func (m *machine) allWords(x *value, n int64) *value {
	flat := m.Alloc(n*x.Width, Logits)
	y := m.Tensor(n, x.Width)
	m.Release(flat)
	m.UnaryNode(y, x, Logits)
	m.Logit(y)
	return y
}

// lossOf is cross entropy: the float32 copy, its log-softmax, one number.
// Unnamed logits go as soon as the copy is made.
// Whose implementation it is decides which copies there are.
func (r *run) lossOf(logits *value, batch batchOf, unnamed bool) *value {
	m := r.m
	if m.Phase != Backward {
		m.Phase = Loss
	}
	x := m.Again(logits)
	if unnamed { // nobody else holds the logits
		m.Drop(logits)
	}
	if r.p.compiledLoss() && r.mod.languageModel() && r.p.TP == 1 {
		return r.lossInOne(x, batch)
	}
	x = m.Replace(x, lossCopy(r, x))
	if r.p.Loss == "logits-only" || r.mod.task == taskBackbone {
		return m.Replace(x, m.Mean(x))
	}
	if r.p.TP > 1 && !r.p.wholeLogits() && r.mod.languageModel() {
		return r.lossOfParts(x, batch)
	}
	s := m.Unary(x, false, true) // log_softmax
	m.Logit(s)
	if r.p.Loss == "smoothed" { // all of its negative is summed up, too
		n := m.Scale(s)
		m.Logit(n)
		m.Drop(x)
		return m.Replace(n, m.Replace(s, m.pickedAndSummed(n, batch.labels)))
	}
	m.Drop(x)
	w := m.Replace(s, m.WideUnderAutocast(s)) // nll_loss is a float32 operation
	m.Logit(w)
	loss := m.Made(w, 1, 4, Logits, w.Mem, batch.labels)
	m.Drop(w)
	return loss
}

// lossCopy is what a loss is worked out of: the logits without the last position, in float32, or as they are.
func lossCopy(r *run, logits *value) (x *value) {
	m, mod := r.m, r.mod
	switch s := r.p.Loss; {
	case s == "shifted" || s == "smoothed" && mod.task == taskCausal:
		x = m.Scale(logits)
		if s == "shifted" {
			m.cached = append(m.cached, m.Keep(x.Mem)) // the loop's own name for it
		}
	case slices.Contains([]string{"cross-entropy", "logits-only", "smoothed"}, s), mod.directLoss, mod.patch != nil,
		mod.task == taskBackbone:
		return m.Again(logits)
	default:
		x = m.Cast(logits, 4)
	}
	m.Logit(x)
	return x
}

// pickedAndSummed is the elements that labels pick, and the sum of all, as one loss.
func (m *machine) pickedAndSummed(x *value, labels *storage) *value {
	b := x.Bytes()
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, Logits, b)} // what is picked, and with it what is spread of the sum
	})
	return loss
}

// lossInOne is compiled cross entropy: a kernel reads the logits as they are, and another
// writes their gradient.
func (r *run) lossInOne(x *value, batch batchOf) *value {
	m := r.m
	stat := m.Alloc(8*x.N/max(r.mod.vocab, 1), Temporary)
	loss := m.Tensor(1, 4)
	b, handedOut := x.Bytes(), r.p.compiledWhole() && !r.mod.lossApart()
	wide := handedOut && r.p.Trainer && r.p.mixed // in float32, so that these are nobody else's
	m.Record([]*value{loss}, []*value{x}, []*storage{x.Mem, stat, batch.labels}, func(g []*storage) []*storage {
		if handedOut { // logits are a result of the model, too, whose gradient is zeros
			if wide {
				defer m.Release(m.HandIn(4*x.N, Logits))
				return []*storage{m.Keep(x.Mem)} // in their place
			}
			defer m.Release(m.HandIn(b, Logits))
		}
		return []*storage{m.Alloc(b, Logits)}
	})
	m.Release(stat)
	m.Drop(x)
	return loss
}

// lossApart says whether the compiler ends its graph in front of the loss: Transformers looks a
// class's loss up by the end of its name, and warns where it finds none, as for GPT2LMHeadModel.
func (mod *model) lossApart() bool { return mod.config.Type == "gpt2" && mod.task == taskCausal }

// lossOfParts is cross entropy of logits that are divided over the vocabulary: DTensor
// writes the log-softmax out (tensor/parallel/loss.py), Megatron-LM makes exponentials in
// the place of the logits (tensor_parallel/cross_entropy.py).
func (r *run) lossOfParts(x *value, batch batchOf) *value {
	m := r.m
	b := x.Bytes()
	if r.p.megatron() {
		s := m.Replace(x, m.Shift(x))
		loss := m.Made(s, 1, 4, Logits, s.Mem, batch.labels)
		m.Drop(s)
		return loss
	}
	shifted := m.Alloc(b, Logits)
	m.Pulse(b, Logits) // exponentials
	s := m.Tensor(x.N, x.Width)
	m.Logit(s)
	m.Release(shifted)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{s.Mem, batch.labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, Logits, b, b)} // minus one where the label is, and exponentials
	})
	m.Drop(s, x)
	return loss
}
