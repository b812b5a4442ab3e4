package network

import (
	"cmp"
	"strconv"
	"strings"

	weights "github.com/vramscope/vramscope/budget/families"
	"github.com/vramscope/vramscope/budget/modelfile"
)

// sight is a language model with an encoder of images in front: whatever text_config names, beside weights
// that are listed. A step is one of the language model.
type sight struct {
	part  string // of budget/families
	eyes  string // the encoder's configuration
	any   bool   // any that budget/families lists
	at    string // where that stands, vision_config without
	words string // the language model's, where the file doesn't say
	names string // what stands in the place of "model." in its names
	head  string // and in front of lm_head
}

var sights = map[string]sight{
	"qwen2_vl":        {part: "qwen2_vl", eyes: "qwen2_vl_vision", words: "qwen2_vl_text"},
	"qwen2_5_vl":      {part: "qwen2_5_vl", eyes: "qwen2_5_vl_vision", words: "qwen2_5_vl_text"},
	"qwen3_vl":        {part: "qwen3_vl", eyes: "qwen3_vl_vision", words: "qwen3_vl_text"},
	"qwen3_vl_moe":    {part: "qwen3_vl", eyes: "qwen3_vl_moe_vision", words: "qwen3_vl_moe_text"},
	"qwen3_5":         {part: "qwen3_5", eyes: "qwen3_5_vision", words: "qwen3_5_text"},
	"qwen3_5_moe":     {part: "qwen3_5", eyes: "qwen3_5_moe_vision", words: "qwen3_5_moe_text"},
	"mistral3":        {part: "mistral3", eyes: "pixtral", words: "mistral"},
	"llava":           {part: "llava", eyes: "clip_vision_model", any: true, words: "llama"},
	"paligemma":       {part: "paligemma", eyes: "siglip_vision_model", words: "gemma"},
	"idefics3":        {part: "idefics3", eyes: "idefics3_vision", words: "llama", names: "model.text_model."},
	"smolvlm":         {part: "idefics3", eyes: "smolvlm_vision", words: "llama", names: "model.text_model."},
	"internvl":        {part: "internvl", eyes: "internvl_vision", words: "qwen2"},
	"glm4v":           {part: "glm4v", eyes: "glm4v_vision", words: "glm4v_text"},
	"glm46v":          {part: "glm4v", eyes: "glm4v_vision", words: "glm4v_text"},
	"llava_next":      {part: "llava_next", eyes: "clip_vision_model", any: true, words: "llama"},
	"llava_onevision": {part: "llava_onevision", eyes: "siglip_vision_model", any: true, words: "qwen2"},
	"cohere2_vision":  {part: "cohere2_vision", eyes: "siglip_vision_model", words: "cohere2"},
	"lfm2_vl":         {part: "lfm2_vl", eyes: "siglip2_vision_model", words: "lfm2"},
	"lighton_ocr":     {part: "lighton_ocr", eyes: "pixtral", words: "qwen3"},
	"qwen2_audio":     {part: "qwen2_audio", eyes: "qwen2_audio_encoder", at: "audio_config", words: "qwen2"},
	"voxtral":         {part: "voxtral", eyes: "voxtral_encoder", at: "audio_config", words: "llama"},
	"gemma3n":         {part: "gemma3n", eyes: "gemma3n_vision", words: "gemma3n_text"},
	"gemma4":          {part: "gemma4", eyes: "gemma4_vision", words: "gemma4_text"},
	"llama4": {part: "llama4", eyes: "llama4_vision_model", words: "llama4_text", names: "language_model.model.",
		head: "language_model."},
}

func buildSight(b *builder, s sight) {
	c, m := b.c, b.m
	eyes := c.Map(cmp.Or(s.at, "vision_config"))
	v, odd := s.encoder(c, eyes)
	t := c.Nested("text_config", s.words)
	if own := t.Str("model_type"); own != "" && familyOf(own) == nil {
		b.fail("%s: its language model is a %q, of which the tensors aren't known", c.Type, Short(own))
	}
	if odd {
		b.fail("%s: only an encoder as this family has it is known, with its %s", c.Type, cmp.Or(s.at, "vision_config"))
	}
	if !c.Has("text_config") { // older files have its fields beside those of the whole
		t = c.As(s.words)
	}
	ws, err := weights.Weights(s.part, v.Type, func(name string) int64 { return sizeOf(name, v, t, c) })
	if err != nil {
		b.fail("%s: %w", c.Type, err)
	}
	m.Vision = new(Model)
	b.seen(ws)
	b.language(c, t, s)
}

// encoder is the encoder's configuration, odd where that isn't as the family has it.
func (s *sight) encoder(c *modelfile.Config, own map[string]any) (v *modelfile.Config, odd bool) {
	v = modelfile.New(s.eyes, own)
	kind, timm := v.Str("model_type"), v.Str("architecture")
	known := s.any && weights.Sees(kind)
	if known {
		v = modelfile.New(kind, own)
	}
	return v, own == nil || kind == "timm_wrapper" || s.any && kind != "" && !known ||
		timm != "" && timm != "mobilenetv5_300m_enc" || len(c.List("vision_feature_layer")) > 1 ||
		c.Has("downsample_ratio") && c.Float("downsample_ratio") != 0.5
}

// seen are the weights of the encoder, those of a layer in a block of its own.
func (b *builder) seen(ws []weights.Weight) {
	im := b.m.Vision
	for _, w := range ws {
		p := b.param(w.Name, RoleVision, w.Shape...)
		p.Trainable = !w.Fixed
		if w.Layer < 0 {
			continue
		}
		for w.Layer >= int64(len(im.Blocks)) {
			im.Blocks = append(im.Blocks, &Block{})
		}
		im.Blocks[w.Layer].Params = append(im.Blocks[w.Layer].Params, p)
	}
}

// language puts a language model behind what is there, whose head is tied as the whole says.
func (b *builder) language(c, t *modelfile.Config, s sight) {
	before := len(b.m.Params)
	tied := c.Tied() || s.at == "" && t.Has("tie_word_embeddings") && t.Tied() && !c.Has("tie_word_embeddings")
	b.c = t.With("tie_word_embeddings", tied).HeadOf(c)
	bare := c.Architecture() != "" && b.headKind() == headNone
	familyOf(t.Type)(b)
	b.c = c
	names := cmp.Or(s.names, "model.language_model.")
	for i, p := range b.m.Params {
		rest, inside := strings.CutPrefix(p.Name, "model.")
		switch {
		case i < before && bare:
			p.Name = rest
		case i < before:
		case bare:
			p.Name = strings.TrimPrefix(names, "model.") + rest
		case inside:
			p.Name = names + rest
		default:
			p.Name = s.head + p.Name
		}
	}
}

// sizeOf looks a size of a part up, in the configuration that its name begins with.
func sizeOf(name string, eyes, text, whole *modelfile.Config) int64 {
	c := eyes
	if rest, ok := strings.CutPrefix(name, "text."); ok {
		c, name = text, rest
	} else if rest, ok := strings.CutPrefix(name, "top."); ok {
		c, name = whole, rest
	} else if rest, ok := strings.CutPrefix(name, "audio."); ok { // an encoder of sound, which a file may leave out
		own := whole.Map("audio_config")
		if own == nil {
			return 0
		}
		c, name = modelfile.New(whole.Type+"_audio", own), rest
	}
	if list, at, ok := strings.Cut(name, "."); ok { // one of a list, or of a list in it
		return modelfile.AsInt(inList(c.List(list), at))
	}
	if rest, ok := strings.CutPrefix(name, "#"); ok {
		return int64(len(c.List(rest)))
	}
	if l := c.List(name); len(l) > 0 { // an image's height, as large as its width
		return modelfile.AsInt(l[0])
	}
	return c.Int(name)
}

// inList is what stands at a place of a list, "1.0" the first of its second.
func inList(l []any, at string) any {
	place, rest, deeper := strings.Cut(at, ".")
	i, err := strconv.Atoi(place)
	if err != nil || i < 0 || i >= len(l) {
		return nil
	}
	if inner, ok := l[i].([]any); ok && deeper {
		return inList(inner, rest)
	}
	return l[i]
}
