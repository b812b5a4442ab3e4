package budget

import "slices"

// What frameworks' own models have otherwise than the ones that Transformers builds of a configuration.

// builtBy is the configuration as the framework builds its model.
func (c *Config) builtBy(s Setting) *Config {
	switch {
	case s.Inference:
	case s.Framework == "litgpt" && c.tied(): // litgpt/model.py: the head has a weight of its own
		return c.with("tie_word_embeddings", false)
	case s.Framework == "torchtune" && c.Float("final_logit_softcapping") > 0: // Gemma2FinalNorm caps the stream, not the logits
		return c.with("final_logit_softcapping", 0.0)
	}
	return c
}

// fabric says whether Lightning's Fabric runs the model.
func (p *plan) fabric() bool { return p.Framework == "litgpt" && !p.Inference }

// lastOutputs are those that a step leaves: the loop of litgpt's scripts has a name for its logits, which the next ones take.
func (p *plan) lastOutputs() int64 {
	if !p.fabric() || p.model.head == nil || p.PP > 1 {
		return 0
	}
	return 4 * p.Batch * p.Sequence * p.model.vocab / p.TP
}

// forgetOutputs lets those go when new ones are there.
func (r *run) forgetOutputs() {
	r.m.release(r.old)
	r.old = nil
}

// lossInChunks is litgpt's (utils.py, chunked_cross_entropy) of float32 logits without the last position: each 128 tokens have a
// loss of their own, so that a chunk's gradient takes the place of what it saved, and all are joined in the end.
func (r *run) lossInChunks(logits *value, batch batchOf) *value {
	m, x := r.m, r.m.again(logits)
	m.phase = Loss
	if r.p.Batch > 1 {
		x = m.replace(x, m.scale(x))
		m.logit(x)
	} else {
		x = m.replace(x, m.slice(x))
	}
	s := m.alloc(x.bytes(), Logits)
	loss := m.tensor(1, 4)
	m.unaryNode(loss, x, Logits, s, batch.labels)
	m.release(s)
	m.drop(x)
	return loss
}

// slice is a view of most of x, whose gradient is as wide as x.
func (m *machine) slice(x *value) *value {
	y := m.again(x)
	m.unaryNode(y, x, gradCategory(x))
	return y
}

// shareDropout drops parts of x once for all adapters of a layer's queries, keys and values, which are one layer of litgpt's
// (LoRAQKVLinear), and gives what ends that.
func (m *machine) shareDropout(x *value, ls ...*linear) func() {
	adapted := slices.ContainsFunc(ls, func(l *linear) bool { return l.adapter != nil })
	if !adapted || m.opts.Framework != "litgpt" || m.opts.LoRADropout <= 0 {
		return func() {}
	}
	m.shared = m.dropout(x, m.opts.LoRADropout)
	return func() {
		m.drop(m.shared)
		m.shared = nil
	}
}

// dropped is an adapter's input after dropout.
func (m *machine) dropped(x *value) *value {
	if m.shared != nil {
		return m.again(m.shared)
	}
	return m.dropout(x, m.opts.LoRADropout)
}

// stableEmbedding says whether the embeddings are there twice, with a gradient: litgpt since 0.5.0 (finetune/lora.py) puts
// bitsandbytes' in their place beside packed weights, which nobody freezes and no optimizer knows, so that their gradient is
// never set to zero; main() has a name for the old ones.
func (p *plan) stableEmbedding() bool {
	return p.fabric() && p.adapts() && p.frozenPacked() && !p.pinnedBitsandbytes()
}

// sharedRotary is up to how many positions Llama's adapters have a cache in each layer: Llama 3.1 and
// later share one (torchtune/models/llama3_1/_component_builders.py).
const sharedRotary = 8192

// rotaryCaches are torchtune's: float32 cosines and sines of all positions that the model is built for, in one
// module that all layers share; layers with adapters have one each.
func (p *plan) rotaryCaches() int64 {
	c := p.model.config
	positions := c.Int("max_position_embeddings")
	if p.Framework != "torchtune" || p.Inference || len(p.model.blocks) == 0 || p.model.blocks[0].attn == nil {
		return 0
	}
	n := 4 * positions * p.model.blocks[0].attn.rope.dim
	if c.Type == "qwen2" || c.Type == "phi3" { // each pair's numbers twice
		n *= 2
	}
	if p.adapts() && (c.Type != "llama" || positions <= sharedRotary) {
		n *= int64(len(p.model.blocks))
	}
	return n
}
