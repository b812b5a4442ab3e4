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
	t := h.n / r.mod.wordWidth
	if r.p.profile.outputsInPieces {
		return r.outputsInPieces(h, batch, outputPieces)
	}
	if r.p.profile.outputsInTiles {
		return r.inTiles(h)
	}
	m.phase = Loss
	for left := t; left > 0; left -= chunkTokens {
		if len(sizes) == alikePieces {
			sizes = append(sizes, left*r.mod.wordWidth)
			break
		}
		sizes = append(sizes, min(left, chunkTokens)*r.mod.wordWidth)
	}
	pieces := m.split(h, sizes...)
	var total *value
	for i, x := range pieces {
		var l *value
		if i < alikePieces {
			l = m.checkpoint(x, func(in *value) *value {
				m.loose = m.replay.until > 0 && m.mixed
				y := r.logits(in)
				m.loose = false
				return r.lossOf(y, batch, true)
			})
		} else { // they leave what those before them leave, and their gradient
			l = m.tensor(1, 4)
			m.unaryNode(l, x, Temporary)
		}
		if total == nil {
			total = l
			continue
		}
		total = m.replace(l, m.replace(total, m.add(total, l)))
	}
	m.drop(pieces...)
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
	m.phase = Loss
	in := m.copyOf(h)
	w := mod.head.weight.val
	t := in.n / mod.wordWidth
	tile := min(t, tileTokens) * tileWords * m.narrow(w.e)
	stats := m.alloc(8*4*t, Temporary)
	m.pulse(tile+m.cublas, Logits)
	m.release(stats)
	loss := m.tensor(1, 4)
	m.record([]*value{loss}, []*value{in, w}, []*storage{in.st, w.st}, func(g []*storage) []*storage {
		made := make([]*storage, 2)
		for i, v := range []*value{in, w} {
			if v.needsGrad() {
				made[i] = m.alloc(4*v.n, Temporary)
			}
		}
		logits := m.alloc(tile, Logits)
		m.pulse(m.cublas, Workspace)
		for i, v := range []*value{in, w} {
			if made[i] != nil {
				made[i] = m.fit(made[i], v.bytes(), Gradients)
			}
		}
		m.release(logits)
		return made
	})
	m.drop(in)
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
	n = max(min(n, h.n/w), 1)
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = (h.n/w*int64(i+1)/n - h.n/w*int64(i)/n) * w
	}
	m.phase = Forward
	pieces := m.split(h, sizes...)
	logits := make([]*value, n)
	for i, x := range pieces {
		logits[i] = r.logits(x)
	}
	m.drop(pieces...)
	r.rootDone(logits[n-1]) // backward comes to the last one first
	wide := make([]*value, n)
	for i, y := range logits {
		wide[i] = r.returned(m.again(y))
	}
	m.drop(logits...)
	logits = wide
	r.forgetOutputs()
	if r.shards != nil {
		m.release(r.shards.flat)
		r.shards.flat = nil
	}
	m.phase = Loss
	var total *value
	for _, y := range logits {
		l := r.lossOf(y, batch, false)
		if total != nil {
			l = m.replace(l, m.replace(total, m.add(total, l)))
		}
		total = l
	}
	for _, y := range logits {
		if r.p.DropOutputs {
			m.drop(y)
		} else {
			m.cached = append(m.cached, y.st)
		}
	}
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
	var head *storage
	if r.p.Offload == "params" && !r.p.sharded() {
		head = m.alloc(r.p.headBytes(), Communication)
	}
	w := m.weight(mod.head.weight)
	made := []*storage{m.alloc(in.bytes(), Temporary), nil}
	if w.needsGrad() { // a frozen head gets none
		made[1] = m.alloc(w.bytes(), Temporary)
	}
	m.pulse(chunk*v*(w.e+4), Logits)
	loss := m.tensor(1, 4)
	m.record([]*value{loss}, []*value{in, w}, made, func(g []*storage) []*storage {
		return []*storage{m.keep(made[0]), m.keep(made[1])}
	})
	for _, g := range append(made, head) {
		m.release(g)
	}
	m.drop(in, w)
	return loss
}

// logits is the head on the stream.
func (r *run) logits(h *value) *value {
	if r.mod.head == nil {
		return r.projected(h)
	}
	return r.unit(r.mod.head.weight, h, func(h *value) *value {
		return r.fetched(r.p.headBytes(), r.mod.head.weight, func() *value { return r.projected(h) })
	})
}

// summary is what a classifier of whole sequences or images takes: the first position, and where it is twice as wide the mean
// of the others beside it.
func (r *run) summary(mod *model, x *value) *value {
	first := r.pooled(mod, x)
	if mod.head == nil || mod.head.in != 2*mod.hidden {
		return first
	}
	mean := r.pooled(mod, x)
	y := r.m.cat(first, mean)
	r.m.drop(first, mean)
	return y
}

func (r *run) projected(h *value) *value {
	m, mod := r.m, r.mod
	x := m.gatherTokens(h)
	if mod.task == taskClassify && (mod.patch != nil || mod.directLoss || len(mod.headParts) > 0) {
		x = m.replace(x, r.summary(mod, x))
	}
	for _, part := range mod.headParts {
		x = m.replace(x, part.forward(m, x))
	}
	if mod.head == nil {
		return x
	}
	if r.p.Inference && r.p.LastLogit && mod.task == taskCausal {
		x = m.replace(x, r.pooled(mod, x))
	}
	if mod.wideLogits { // the stream may be wider than the head
		x = m.replace(x, m.cast(x, m.wide))
	}
	y := m.apply(x, mod.head)
	m.become(y.st, Logits)
	m.drop(x)
	if r.p.wholeLogits() && mod.languageModel() {
		y = m.replace(y, m.allWords(y, y.n/mod.head.out*mod.vocab))
	}
	return finished(m, mod, y)
}

// finished are logits after what a family does to a product's result.
func finished(m *machine, mod *model, y *value) *value {
	if mod.softcap {
		y = softcapped(m, y)
	}
	if mod.wideLogits {
		y = m.replace(y, m.cast(y, 4))
	}
	m.become(y.st, Logits)
	if mod.plusBias {
		row := m.tensor(mod.vocab, m.wide)
		y = m.replace(row, m.replace(y, m.add(y, row)))
		m.become(y.st, Logits)
	}
	if mod.scaleHead {
		y = m.replace(y, m.scale(y))
		m.become(y.st, Logits)
	}
	return y
}

// softcapped is a bound times the hyperbolic tangent of x over it, which takes the place of x.
func softcapped(m *machine, x *value) *value {
	x = m.replace(x, m.scale(x))
	x = m.replace(x, m.unary(x, false, true))
	return m.replace(x, m.scale(x))
}

// wholeLogits says whether each tensor-parallel rank has the logits of all words: Transformers'
// plans gather the head's results (colwise_gather_output).
func (p *plan) wholeLogits() bool { return p.TP > 1 && p.profile.wholeLogits }

// allWords are n logits, of which each rank has some: they arrive rank by rank, and are put
// together for each token.
func (m *machine) allWords(x *value, n int64) *value {
	flat := m.alloc(n*x.e, Logits)
	y := m.tensor(n, x.e)
	m.release(flat)
	m.unaryNode(y, x, Logits)
	m.logit(y)
	return y
}

// lossOf is cross entropy: the float32 copy, its log-softmax, one number.
// Unnamed logits go as soon as the copy is made.
// Whose implementation it is decides which copies there are.
func (r *run) lossOf(logits *value, batch batchOf, unnamed bool) *value {
	m := r.m
	if m.phase != Backward {
		m.phase = Loss
	}
	x := m.again(logits)
	if unnamed { // nobody else holds the logits
		m.drop(logits)
	}
	if r.p.compiledLoss() && r.mod.languageModel() && r.p.TP == 1 {
		return r.lossInOne(x, batch)
	}
	x = m.replace(x, lossCopy(r, x))
	if r.p.Loss == "logits-only" || r.mod.task == taskBackbone {
		return m.replace(x, m.mean(x))
	}
	if r.p.TP > 1 && !r.p.wholeLogits() && r.mod.languageModel() {
		return r.lossOfParts(x, batch)
	}
	s := m.unary(x, false, true) // log_softmax
	m.logit(s)
	if r.p.Loss == "smoothed" { // all of its negative is summed up, too
		n := m.scale(s)
		m.logit(n)
		m.drop(x)
		return m.replace(n, m.replace(s, m.pickedAndSummed(n, batch.labels)))
	}
	m.drop(x)
	w := m.replace(s, m.wideUnderAutocast(s)) // nll_loss is a float32 operation
	m.logit(w)
	loss := m.tensor(1, 4)
	m.unaryNode(loss, w, Logits, w.st, batch.labels)
	m.drop(w)
	return loss
}

// lossCopy is what a loss is worked out of: the logits without the last position, in float32, or as they are.
func lossCopy(r *run, logits *value) (x *value) {
	m, mod := r.m, r.mod
	switch s := r.p.Loss; {
	case s == "shifted" || s == "smoothed" && mod.task == taskCausal:
		x = m.scale(logits)
		if s == "shifted" {
			m.cached = append(m.cached, m.keep(x.st)) // the loop's own name for it
		}
	case slices.Contains([]string{"cross-entropy", "logits-only", "smoothed"}, s), mod.directLoss, mod.patch != nil,
		mod.task == taskBackbone:
		return m.again(logits)
	default:
		x = m.cast(logits, 4)
	}
	m.logit(x)
	return x
}

// pickedAndSummed is the elements that labels pick, and the sum of all, as one loss.
func (m *machine) pickedAndSummed(x *value, labels *storage) *value {
	b := x.bytes()
	loss := m.tensor(1, 4)
	m.record([]*value{loss}, []*value{x}, []*storage{labels}, func(g []*storage) []*storage {
		return []*storage{m.amid(b, Logits, b)} // what is picked, and with it what is spread of the sum
	})
	return loss
}

// lossInOne is compiled cross entropy: a kernel reads the logits as they are, and another
// writes their gradient.
func (r *run) lossInOne(x *value, batch batchOf) *value {
	m := r.m
	stat := m.alloc(8*x.n/max(r.mod.vocab, 1), Temporary)
	loss := m.tensor(1, 4)
	b, handedOut := x.bytes(), r.p.compiledWhole() && !r.mod.lossApart()
	wide := handedOut && r.p.Trainer && r.p.mixed // in float32, so that these are nobody else's
	m.record([]*value{loss}, []*value{x}, []*storage{x.st, stat, batch.labels}, func(g []*storage) []*storage {
		if handedOut { // logits are a result of the model, too, whose gradient is zeros
			if wide {
				defer m.release(m.handIn(4*x.n, Logits))
				return []*storage{m.keep(x.st)} // in their place
			}
			defer m.release(m.handIn(b, Logits))
		}
		return []*storage{m.alloc(b, Logits)}
	})
	m.release(stat)
	m.drop(x)
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
	b := x.bytes()
	if r.p.megatron() {
		s := m.replace(x, m.shift(x))
		loss := m.tensor(1, 4)
		m.unaryNode(loss, s, Logits, s.st, batch.labels)
		m.drop(s)
		return loss
	}
	shifted := m.alloc(b, Logits)
	m.pulse(b, Logits) // exponentials
	s := m.tensor(x.n, x.e)
	m.logit(s)
	m.release(shifted)
	loss := m.tensor(1, 4)
	m.record([]*value{loss}, []*value{x}, []*storage{s.st, batch.labels}, func(g []*storage) []*storage {
		return []*storage{m.amid(b, Logits, b, b)} // minus one where the label is, and exponentials
	})
	m.drop(s, x)
	return loss
}
