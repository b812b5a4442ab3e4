package budget

import (
	"slices"

	"github.com/vramscope/vramscope/budget/network"
)

// chunkTokens is the size of a piece of the chunked loss.
const chunkTokens = 1024

// alikePieces is how many of them are worked through: of a long sequence the others take nothing else.
const alikePieces = 64

// chunked is the loss in pieces, each checkpointed: only one piece's logits
// are alive at a time.
func (r *run) chunked(h *value, batch network.Batch) *value {
	m := r.M
	var sizes []int64
	t := h.N / r.Model.WordWidth
	if r.p.profile.OutputsInPieces {
		return r.outputsInPieces(h, batch, outputPieces)
	}
	if r.p.profile.OutputsInTiles {
		return r.inTiles(h)
	}
	m.Phase = Loss
	for left := t; left > 0; left -= chunkTokens {
		if len(sizes) == alikePieces {
			sizes = append(sizes, left*r.Model.WordWidth)
			break
		}
		sizes = append(sizes, min(left, chunkTokens)*r.Model.WordWidth)
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
	m, mod := r.M, r.Model
	m.Phase = Loss
	in := m.CopyOf(h)
	w := mod.Head.Weight.Val
	t := in.N / mod.WordWidth
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
func (r *run) outputsInPieces(h *value, batch network.Batch, n int64) *value {
	m, w := r.M, r.Model.WordWidth
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
			m.Cached = append(m.Cached, y.Mem)
		}
	}
	return total
}

// fusedLoss is a fused linear cross entropy: gradients of the stream and of
// the head are made in the forward, from logits of a few tokens at a time.
func (r *run) fusedLoss(h *value) *value {
	m, mod := r.M, r.Model
	m.Phase = Loss
	t := h.N / mod.WordWidth
	v := max(mod.Vocab, 1)
	per := (v + mod.WordWidth - 1) / mod.WordWidth
	chunk := int64(1)
	for chunk < (t+per-1)/per {
		chunk *= 2
	}
	in := m.Cast(h, m.Narrow(h.Width))
	head := m.AllocIf(r.p.Offload == "params" && !r.p.sharded(), r.p.headBytes(), Communication)
	w := m.Weight(mod.Head.Weight)
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
	if r.Model.Head == nil {
		return r.Project(h)
	}
	return r.Unit(r.Model.Head.Weight, h, func(h *value) *value {
		return r.fetched(r.p.headBytes(), r.Model.Head.Weight, func() *value { return r.Project(h) })
	})
}

// wholeLogits says whether each tensor-parallel rank has the logits of all words: Transformers'
// plans gather the head's results (colwise_gather_output).
func (p *plan) wholeLogits() bool { return p.TP > 1 && p.profile.WholeLogits }

// lossOf is cross entropy: the float32 copy, its log-softmax, one number.
// Unnamed logits go as soon as the copy is made.
// Whose implementation it is decides which copies there are.
func (r *run) lossOf(logits *value, batch network.Batch, unnamed bool) *value {
	m := r.M
	if m.Phase != Backward {
		m.Phase = Loss
	}
	x := m.Again(logits)
	if unnamed { // nobody else holds the logits
		m.Drop(logits)
	}
	if r.p.compiledLoss() && r.Model.LanguageModel() && r.p.TP == 1 {
		return r.lossInOne(x, batch)
	}
	x = m.Replace(x, lossCopy(r, x))
	if r.p.Loss == "logits-only" || r.Model.Task == network.TaskBackbone {
		return m.Replace(x, m.Mean(x))
	}
	if r.p.TP > 1 && !r.p.wholeLogits() && r.Model.LanguageModel() {
		return r.lossOfParts(x, batch)
	}
	s := m.Unary(x, false, true) // log_softmax
	m.Logit(s)
	if r.p.Loss == "smoothed" { // all of its negative is summed up, too
		n := m.Scale(s)
		m.Logit(n)
		m.Drop(x)
		return m.Replace(n, m.Replace(s, m.PickedAndSummed(n, batch.Labels)))
	}
	m.Drop(x)
	w := m.Replace(s, m.WideUnderAutocast(s)) // nll_loss is a float32 operation
	m.Logit(w)
	loss := m.Made(w, 1, 4, Logits, w.Mem, batch.Labels)
	m.Drop(w)
	return loss
}

// lossCopy is what a loss is worked out of: the logits without the last position, in float32, or as they are.
func lossCopy(r *run, logits *value) (x *value) {
	m, mod := r.M, r.Model
	switch s := r.p.Loss; {
	case s == "shifted" || s == "smoothed" && mod.Task == network.TaskCausal:
		x = m.Scale(logits)
		if s == "shifted" {
			m.Cached = append(m.Cached, m.Keep(x.Mem)) // the loop's own name for it
		}
	case slices.Contains([]string{"cross-entropy", "logits-only", "smoothed"}, s), mod.DirectLoss, mod.Patch != nil,
		mod.Task == network.TaskBackbone:
		return m.Again(logits)
	default:
		x = m.Cast(logits, 4)
	}
	m.Logit(x)
	return x
}

// lossInOne is compiled cross entropy: a kernel reads the logits as they are, and another
// writes their gradient.
func (r *run) lossInOne(x *value, batch network.Batch) *value {
	m := r.M
	stat := m.Alloc(8*x.N/max(r.Model.Vocab, 1), Temporary)
	loss := m.Tensor(1, 4)
	b, handedOut := x.Bytes(), r.p.compiledWhole() && !r.Model.LossApart()
	wide := handedOut && r.p.Trainer && r.p.mixed // in float32, so that these are nobody else's
	m.Record([]*value{loss}, []*value{x}, []*storage{x.Mem, stat, batch.Labels}, func(g []*storage) []*storage {
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

// lossOfParts is cross entropy of logits that are divided over the vocabulary: DTensor
// writes the log-softmax out (tensor/parallel/loss.py), Megatron-LM makes exponentials in
// the place of the logits (tensor_parallel/cross_entropy.py).
func (r *run) lossOfParts(x *value, batch network.Batch) *value {
	m := r.M
	b := x.Bytes()
	if r.p.megatron() {
		s := m.Replace(x, m.Shift(x))
		loss := m.Made(s, 1, 4, Logits, s.Mem, batch.Labels)
		m.Drop(s)
		return loss
	}
	shifted := m.Alloc(b, Logits)
	m.Pulse(b, Logits) // exponentials
	s := m.Tensor(x.N, x.Width)
	m.Logit(s)
	m.Release(shifted)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{s.Mem, batch.Labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, Logits, b, b)} // minus one where the label is, and exponentials
	})
	m.Drop(s, x)
	return loss
}
