package budget

// What frameworks' own models have otherwise than the ones that Transformers builds of a configuration.

// builtBy is the configuration as the framework builds its model.
func (c *Config) builtBy(s Setting) *Config {
	if s.Profile().Fabric && c.Str("hidden_act") == "gelu_new" { // litgpt/model.py: F.gelu with approximate="tanh"
		c = c.with("hidden_act", "gelu_pytorch_tanh")
	}
	switch {
	case s.Profile().UntiesHead && c.Tied(): // litgpt/model.py: the head has a weight of its own
		return c.with("tie_word_embeddings", false)
	case s.Profile().CapsStream && c.Float("final_logit_softcapping") > 0: // Gemma2FinalNorm caps the stream, not the logits
		return c.with("final_logit_softcapping", 0.0)
	}
	return c
}

// fabric says whether Lightning's Fabric runs the model.
func (p *setup) fabric() bool { return p.profile.Fabric }

// lastOutputs are those that a step leaves: a loop may have a name for its logits, which the next ones take, as that of
// litgpt's scripts has.
func (p *holding) lastOutputs() int64 {
	tokens, width := p.Sequence, p.width
	switch own := p.OutputsStay && !p.DropOutputs && p.model.LanguageModel() && (p.Loss == "default" || p.Loss == "smoothed"); {
	case p.PP > 1 || !own && (!p.fabric() || p.model.Head == nil):
		return 0
	case p.fabric() || p.Trainer && p.mixed || p.castsLogits():
		width = 4
	}
	if p.model.Config.Bool("is_encoder_decoder") {
		tokens = p.DecoderSeq
	}
	return width * p.labelled(p.Batch*tokens) * p.model.Vocab / p.TP
}

// forgetOutputs lets those go when new ones are there.
func (r *run) forgetOutputs() {
	r.M.Release(r.old)
	r.old = nil
}

// stableEmbedding says whether the embeddings are there twice, with a gradient: litgpt since 0.5.0 (finetune/lora.py) puts
// bitsandbytes' in their place beside packed weights, which nobody freezes and no optimizer knows, so that their gradient is
// never set to zero; main() has a name for the old ones.
func (p *holding) stableEmbedding() bool {
	return p.fabric() && p.Adapts() && p.frozenPacked() && !p.pinnedBitsandbytes()
}

// fusesAdapters says whether LoRA runs in the framework's kernels: Unsloth's (kernels/fast_lora.py) and axolotl's, which are on
// unless a file says otherwise, without FSDP1 and 8-bit weights (utils/schemas/config.py). Those with dropout save more.
func (p *setup) fusesAdapters() bool {
	return p.profile.FusesAdapters && !p.PlainAdapters && p.LoRADropout == 0 && !p.flatUnits() && p.Precision != "int8" &&
		p.References == 0 && !p.Inference
}

// sharedRotary is up to how many positions Llama's adapters have a cache in each layer: Llama 3.1 and
// later share one (torchtune/models/llama3_1/_component_builders.py).
const sharedRotary = 8192

// rotaryCaches are torchtune's: float32 cosines and sines of all positions that the model is built for, in one
// module that all layers share; layers with adapters have one each.
func (p *holding) rotaryCaches() int64 {
	c := p.model.Config
	positions := c.Int("max_position_embeddings")
	if !p.profile.RotaryCaches || len(p.model.Blocks) == 0 || p.model.Blocks[0].Attention == nil {
		return 0
	}
	n := 4 * positions * p.model.Blocks[0].Attention.Rotated()
	if c.Type == "qwen2" || c.Type == "phi3" { // each pair's numbers twice
		n *= 2
	}
	if p.Adapts() && (c.Type != "llama" || positions <= sharedRotary) {
		n *= int64(len(p.model.Blocks))
	}
	return n
}
