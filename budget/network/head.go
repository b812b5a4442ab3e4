package network

import "github.com/vramscope/vramscope/internal/words"

// LanguageModel says whether the logits are words at every position.
func (mod *Model) LanguageModel() bool {
	return mod.Head != nil && (mod.Task == TaskCausal || mod.Task == taskMasked || mod.Task == taskSeq2Seq ||
		mod.Task == taskSpeech)
}

// summary is what a classifier of whole sequences or images takes: the first position, and where it is twice as wide the mean
// of the others beside it.
func (r *Step) summary(mod *Model, x *value) *value {
	first := r.pooled(mod, x)
	if mod.Head == nil || mod.Head.In != 2*mod.Hidden {
		return first
	}
	mean := r.pooled(mod, x)
	y := r.M.Cat(first, mean)
	r.M.Drop(first, mean)
	return y
}

// Project makes logits of the stream: the head, and what stands in front of it.
func (r *Step) Project(h *value) *value {
	m, mod := r.M, r.Model
	x := m.GatherTokens(h)
	if mod.Task == TaskClassify && (mod.Patch != nil || mod.DirectLoss || len(mod.headParts) > 0) {
		x = m.Replace(x, r.summary(mod, x))
	}
	x = m.into(x, mod.headParts...)
	if mod.Head == nil {
		return x
	}
	if m.Modes.LastLogit && mod.Task == TaskCausal {
		x = m.Replace(x, r.pooled(mod, x))
	}
	x = m.into(x, when(mod.wideLogits, m.Wide)) // the stream may be wider than the head
	y := m.apply(x, mod.Head)
	m.Become(y.Mem, words.Logits)
	m.Drop(x)
	if m.Modes.WholeLogits && mod.LanguageModel() {
		y = m.Replace(y, m.allWords(y, y.N/mod.Head.Out*mod.Vocab))
	}
	return finished(m, mod, y)
}

// finished are logits after what a family does to a product's result.
func finished(m *Machine, mod *Model, y *value) *value {
	if mod.softcap {
		y = softcapped(m, y)
	}
	y = m.into(y, when(mod.wideLogits, 4))
	m.Become(y.Mem, words.Logits)
	if mod.plusBias {
		row := m.Tensor(mod.Vocab, m.Wide)
		y = m.Replace(row, m.Replace(y, m.Add(y, row)))
		m.Become(y.Mem, words.Logits)
	}
	if mod.scaleHead {
		y = m.Replace(y, m.Scale(y))
		m.Become(y.Mem, words.Logits)
	}
	return y
}

// softcapped is a bound times the hyperbolic tangent of x over it, which takes the place of x.
func softcapped(m *Machine, x *value) *value {
	return m.into(x, m.Scale, byOutput, m.Scale)
}

// allWords are n logits, which arrive rank by rank, and are put together for each token.
func (m *Machine) allWords(x *value, n int64) *value {
	flat := m.Alloc(n*x.Width, words.Logits)
	y := m.Tensor(n, x.Width)
	m.Release(flat)
	m.UnaryNode(y, x, words.Logits)
	m.Logit(y)
	return y
}

// PickedAndSummed is the elements that labels pick, and the sum of all, as one loss.
func (m *Machine) PickedAndSummed(x *value, labels *storage) *value {
	b := x.Bytes()
	loss := m.Tensor(1, 4)
	m.Record([]*value{loss}, []*value{x}, []*storage{labels}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, words.Logits, b)} // what is picked, and with it what is spread of the sum
	})
	return loss
}

// LossApart says whether the compiler ends its graph in front of the loss: Transformers looks a
// class's loss up by the end of its name, and warns where it finds none, as for GPT2LMHeadModel.
func (mod *Model) LossApart() bool { return mod.Config.Type == "gpt2" && mod.Task == TaskCausal }
