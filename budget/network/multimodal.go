package network

import "github.com/vramscope/vramscope/budget/modelfile"

// buildCLIP is both encoders with their projections, or one of them alone.
func buildCLIP(b *builder) {
	c, m := b.c, b.m
	t, v := c.Nested("text_config", "clip_text_model"), c.Nested("vision_config", "clip_vision_model")
	proj := c.Int("projection_dim")
	switch name := c.Architecture(); name {
	case "", "CLIPModel":
		m.Task, m.Vision = TaskContrast, new(Model)
		b.param("logit_scale", RoleOther)
		b.clipText(t)
		b.clipVision(v, m.Vision)
		m.Vision.Head = b.linear("visual_projection", RoleHead, m.Vision.Hidden, proj, false)
		m.Head = b.linear("text_projection", RoleHead, m.Hidden, proj, false)
		m.Vocab = proj
	case "CLIPTextModel":
		m.Task = TaskBackbone
		b.clipText(t)
		for _, bl := range m.Blocks {
			bl.Attention.uncached = true
		}
	case "CLIPVisionModel", "CLIPForImageClassification":
		m.Task = TaskBackbone
		b.clipVision(v, m)
		m.final = nil // on the class token alone, which is little and which the classifier does not take
		if name == "CLIPForImageClassification" {
			b.classifier(TaskClassify, "classifier", m.Hidden, c.Labels(), true)
		}
	default:
		b.noHead()
	}
}

// clipText is CLIP's text encoder.
func (b *builder) clipText(t *modelfile.Config) {
	m, whole := b.m, b.c
	h, a, inner := t.Int("hidden_size"), t.Int("num_attention_heads"), t.Int("intermediate_size")
	if err := t.Need("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size",
		"max_position_embeddings"); err != nil || h%a != 0 {
		b.fail("%s: a text encoder of hidden size %d and %d heads", b.c.Type, h, a)
	}
	m.Hidden, m.WordWidth = h, h
	b.c = t
	b.under("text_model.", func() {
		b.embedding("embeddings.token_embedding", t.Int("vocab_size"), h)
		m.Position = b.param("embeddings.position_embedding.weight", RolePosition, t.Int("max_position_embeddings"), h)
		b.layers("encoder.layers.", t.Int("num_hidden_layers"), func(int64) {
			bl := b.visionLayer(clipParts, h, a, inner, 0, t.Float("attention_dropout"))
			bl.Attention.bidirectional = false
			m.Blocks = append(m.Blocks, bl)
		})
		m.final = b.norm("final_layer_norm", layerNormKind, h, true)
	})
	b.c = whole
}

// clipVision is CLIP's image encoder.
func (b *builder) clipVision(v *modelfile.Config, im *Model) {
	whole := b.c
	b.c = v
	b.under("vision_model.", func() { b.sees(im, imageKinds["clip"], 0, v.Float("attention_dropout")) })
	b.c = whole
}

// buildGemma3 is the language model with its image encoder in front.
func buildGemma3(b *builder) {
	c, m := b.c, b.m
	v, t := c.Nested("vision_config", "siglip_vision_model"), c.Nested("text_config", "gemma3_text")
	b.c = v
	im := new(Model)
	b.under("model.vision_tower.", func() { b.sigLIP(im, v.Has("vision_use_head") && v.Bool("vision_use_head")) })
	b.make(parts{role: RoleVision, sizes: sizes{"text": t.Int("hidden_size")}}, "-=model.multi_modal_projector."+
		"mm_input_projection_weight:hidden_size,text -=model.multi_modal_projector.mm_soft_emb_norm.weight:hidden_size")
	for _, p := range m.Params {
		p.Role = RoleVision
	}
	m.Vision = im
	b.c = t.HeadOf(c)
	row := decoders()["gemma3_text"]
	row.Model = "model.language_model."
	buildDecoder(b, row)
	b.c = c
}
