// Package losses has what a loss takes of a step: whole logits or some at a time, in one kernel, in steps, or in parts of the
// vocabulary.
//
//	l := losses.Loss{Step: step, How: losses.How{Kind: "default"}}
//	loss := l.Of(logits, batch, false)
//
// It knows what a setting comes down to for that alone: its How.
package losses

import (
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/words"
)

type (
	value   = autograd.Value
	storage = autograd.Storage
)

// How is how a loss is worked out.
type How struct {
	Kind     string // of --loss
	InOne    bool   // compiled: one kernel reads the logits, and another writes their gradient
	HandsOut bool   // such logits are a result of the model, too
	Wide     bool   // and that is in float32
	Parts    bool   // logits are divided over the vocabulary
	InPlace  bool   // exponentials take the place of such
	Copies   bool   // logits are as wide as they are, without the last position: Transformers until 4.45
}

// Loss is a step's.
type Loss struct {
	*network.Step
	How
}

// ChunkTokens is the size of a piece of the chunked loss.
const ChunkTokens = 1024

// AlikePieces is how many of them are worked through: of a long sequence the others take nothing else.
const AlikePieces = 64

// Chunked is the loss in pieces, each checkpointed: only one piece's logits, which are made of the stream then, are alive at a
// time.
func (r *Loss) Chunked(h *value, batch network.Batch, logits func(*value) *value) *value {
	m, t := r.M, h.N/r.Model.WordWidth
	var sizes []int64
	m.Phase = autograd.Loss
	for left := t; left > 0; left -= ChunkTokens {
		if len(sizes) == AlikePieces {
			sizes = append(sizes, left*r.Model.WordWidth)
			break
		}
		sizes = append(sizes, min(left, ChunkTokens)*r.Model.WordWidth)
	}
	pieces := m.Split(h, sizes...)
	var total *value
	for i, x := range pieces {
		var l *value
		if i < AlikePieces {
			l = m.Checkpoint(x, func(in *value) *value {
				m.Loose = m.Replay.Until > 0 && m.Mixed
				y := logits(in)
				m.Loose = false
				return r.Of(y, batch, true)
			})
		} else { // they leave what those before them leave, and their gradient
			l = m.Made(x, 1, 4, words.Temporary)
		}
		total = r.Sum(total, l)
	}
	m.Drop(pieces...)
	return total
}

// Sum adds a piece's loss to those before it, nil: there are none.
func (r *Loss) Sum(total, l *value) *value {
	if total == nil {
		return l
	}
	return r.M.Replace(l, r.M.Replace(total, r.M.Add(total, l)))
}

// tileTokens and tileWords are the sides of TRL's tiles of logits.
const (
	tileTokens = 4096
	tileWords  = 32768
)

// InTiles is TRL's loss (trl/kernels/chunked_logprob.py): a tile of logits at a time, made again in
// backward, which sums the gradients of the stream and of the head up in float32.
func (r *Loss) InTiles(h *value) *value {
	m, mod := r.M, r.Model
	m.Phase = autograd.Loss
	in := m.CopyOf(h)
	w := mod.Head.Weight.Val
	t := in.N / mod.WordWidth
	tile := min(t, tileTokens) * tileWords * m.Narrow(w.Width)
	stats := m.Alloc(8*4*t, words.Temporary)
	m.Pulse(tile+m.Cublas, words.Logits)
	m.Release(stats)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{in, w}, []*storage{in.Mem, w.Mem}, func(g []*storage) []*storage {
		made := []*storage{m.AllocIf(in.NeedsGrad(), 4*in.N, words.Temporary), m.AllocIf(w.NeedsGrad(), 4*w.N, words.Temporary)}
		logits := m.Alloc(tile, words.Logits)
		m.Pulse(m.Cublas, words.Workspace)
		made = []*storage{m.Fit(made[0], in.Bytes(), words.Gradients), m.Fit(made[1], w.Bytes(), words.Gradients)}
		m.Release(logits)
		return made
	})
	m.Drop(in)
	return loss
}

// Fused is a fused linear cross entropy: gradients of the stream and of
// the head are made in the forward, from logits of a few tokens at a time; head are the bytes of a head that is fetched for it.
func (r *Loss) Fused(h *value, head int64) *value {
	m, mod := r.M, r.Model
	m.Phase = autograd.Loss
	t := h.N / mod.WordWidth
	v := max(mod.Vocab, 1)
	per := (v + mod.WordWidth - 1) / mod.WordWidth
	chunk := int64(1)
	for chunk < (t+per-1)/per {
		chunk *= 2
	}
	in := m.Cast(h, m.Narrow(h.Width))
	fetched := m.AllocIf(head > 0, head, words.Communication)
	w := m.Weight(mod.Head.Weight)
	// a frozen head gets none
	made := []*storage{m.Alloc(in.Bytes(), words.Temporary), m.AllocIf(w.NeedsGrad(), w.Bytes(), words.Temporary)}
	m.Pulse(chunk*v*(w.Width+4), words.Logits)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{in, w}, made, func(g []*storage) []*storage {
		return []*storage{m.Keep(made[0]), m.Keep(made[1])}
	})
	m.ReleaseAll(append(made, fetched))
	m.Drop(in, w)
	return loss
}

// Of is cross entropy: the float32 copy, its log-softmax, one number.
// Unnamed logits go as soon as the copy is made.
// Whose implementation it is decides which copies there are.
func (r *Loss) Of(logits *value, batch network.Batch, unnamed bool) *value {
	m := r.M
	if m.Phase != autograd.Backward {
		m.Phase = autograd.Loss
	}
	x := m.Again(logits)
	if unnamed { // nobody else holds the logits
		m.Drop(logits)
	}
	if r.InOne && r.Model.LanguageModel() {
		return r.inOne(x, batch)
	}
	x = m.Replace(x, r.copied(x))
	if r.Kind == "logits-only" || r.Model.Task == network.TaskBackbone {
		return m.Replace(x, m.Mean(x))
	}
	if r.Parts && r.Model.LanguageModel() {
		return r.ofParts(x, batch)
	}
	if r.Kind == "log-probs-by-row" {
		return m.Replace(x, r.byRow(x, batch))
	}
	if r.Kind == "log-probs" { // log_softmax makes rows that the last position is missing of contiguous
		x = m.Replace(x, m.Slice(x))
		defer m.Release(m.AllocIf(m.Pass.Batch > 1, x.Bytes(), words.Logits))
	}
	s := m.Unary(x, false, true) // log_softmax
	m.Logit(s)
	if r.Kind == "smoothed" { // all of its negative is summed up, too
		n := m.Scale(s)
		m.Logit(n)
		m.Drop(x)
		return m.Replace(n, m.Replace(s, m.PickedAndSummed(n, batch.Labels)))
	}
	m.Drop(x)
	w := m.Replace(s, m.WideUnderAutocast(s)) // nll_loss is a float32 operation
	m.Logit(w)
	loss := m.Made(w, 1, 4, words.Logits, w.Mem, batch.Labels)
	m.Drop(w)
	return loss
}

// byRow is TRL's selective_log_softmax of float32 logits (trainer/utils.py), which saves these alone: each sequence has a sum of
// exponentials of its own, whose gradients are put together.
func (r *Loss) byRow(x *value, batch network.Batch) *value {
	m, b := r.M, x.Bytes()
	m.Pulse(b/max(m.Pass.Batch, 1), words.Logits)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{x.Mem, batch.Labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, words.Logits, b)}
	})
	return loss
}

// copied is what a loss is worked out of: the logits without the last position, in float32, or as they are.
func (r *Loss) copied(logits *value) (x *value) {
	m, mod := r.M, r.Model
	switch s := r.Kind; {
	case s == "shifted" || s == "smoothed" && mod.Task == network.TaskCausal:
		x = m.Scale(logits)
		if s == "shifted" {
			m.Cached = append(m.Cached, m.Keep(x.Mem)) // the loop's own name for it
		}
	case slices.Contains([]string{"cross-entropy", "logits-only", "smoothed"}, s), mod.DirectLoss, mod.Patch != nil,
		mod.Task == network.TaskBackbone:
		return m.Again(logits)
	case r.Copies:
		x = m.Scale(logits)
	default:
		x = m.Cast(logits, 4)
	}
	m.Logit(x)
	return x
}

// inOne is compiled cross entropy: a kernel reads the logits as they are, and another
// writes their gradient.
func (r *Loss) inOne(x *value, batch network.Batch) *value {
	m := r.M
	stat := m.Alloc(8*x.N/max(r.Model.Vocab, 1), words.Temporary)
	loss := m.Tensor(1, 4)
	b, handedOut := x.Bytes(), r.HandsOut && !r.Model.LossApart()
	wide := handedOut && r.Wide // in float32, so that these are nobody else's
	m.Record([]*value{loss}, []*value{x}, []*storage{x.Mem, stat, batch.Labels}, func(g []*storage) []*storage {
		if handedOut { // logits are a result of the model, too, whose gradient is zeros
			if wide {
				defer m.Release(m.HandIn(4*x.N, words.Logits))
				return []*storage{m.Keep(x.Mem)} // in their place
			}
			defer m.Release(m.HandIn(b, words.Logits))
		}
		return []*storage{m.Alloc(b, words.Logits)}
	})
	m.Release(stat)
	m.Drop(x)
	return loss
}

// ofParts is cross entropy of logits that are divided over the vocabulary: DTensor
// writes the log-softmax out (tensor/parallel/loss.py), Megatron-LM makes exponentials in
// the place of the logits (tensor_parallel/cross_entropy.py).
func (r *Loss) ofParts(x *value, batch network.Batch) *value {
	m := r.M
	b := x.Bytes()
	if r.InPlace {
		s := m.Replace(x, m.Shift(x))
		loss := m.Made(s, 1, 4, words.Logits, s.Mem, batch.Labels)
		m.Drop(s)
		return loss
	}
	shifted := m.Alloc(b, words.Logits)
	m.Pulse(b, words.Logits) // exponentials
	s := m.Tensor(x.N, x.Width)
	m.Logit(s)
	m.Release(shifted)
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{s.Mem, batch.Labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, words.Logits, b, b)} // minus one where the label is, and exponentials
	})
	m.Drop(s, x)
	return loss
}

// ByTokens is litgpt's (utils.py, chunked_cross_entropy) of float32 logits without the last position: each 128 tokens have a
// loss of their own, so that a chunk's gradient takes the place of what it saved, and all are joined in the end.
func (r *Loss) ByTokens(logits *value, batch network.Batch) *value {
	m, x := r.M, r.M.Again(logits)
	m.Phase = autograd.Loss
	if m.Pass.Batch > 1 {
		x = m.Replace(x, m.Scale(x))
		m.Logit(x)
	} else {
		x = m.Replace(x, m.Slice(x))
	}
	s := m.Alloc(x.Bytes(), words.Logits)
	loss := m.Made(x, 1, 4, words.Logits, s, batch.Labels)
	m.Release(s)
	m.Drop(x)
	return loss
}
