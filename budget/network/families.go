package network

import (
	"maps"
	"slices"
	"strings"
)

// handmade are the model_types whose networks a function builds; most decoders are rows of a table instead (decoders.txt).
var handmade = []struct {
	build func(*builder)
	types string
}{
	{buildText, "bert albert roberta xlm-roberta camembert electra distilbert"},
	{buildDeBERTa, "deberta-v2"},
	{buildModernBERT, "modernbert modernbert-decoder"},
	{buildConvNext, "convnext convnextv2"},
	{buildSwin, "swin swinv2"},
	{buildImages, "vit deit dinov2 dinov2_with_registers"},
	{buildDINO3, "dinov3_vit"},
	{buildWaves, "wav2vec2 hubert"},
	{buildCLIP, "clip"},
	{buildSigLIP, "siglip siglip_vision_model"},
	{buildGemma3, "gemma3"},
	{buildT5, "t5 mt5"},
	{buildBART, "bart blenderbot blenderbot-small m2m_100 marian mbart pegasus"},
	{buildWhisper, "whisper"},
	{buildMamba, "mamba"},
	{buildMamba2, "mamba2"},
	{buildNemotron, "nemotron_h"},
	{buildZamba2, "zamba2"},
	{buildMiMo, "mimo"},
	{func(b *builder) { buildDecoder(b, decoders()["gpt_neox"]) }, "gpt_neox_reward_model"},
	{buildUNet, UNetClass},
}

// familyOf is the function that builds a model_type's network, nil for one that is not known.
func familyOf(name string) func(*builder) {
	if as := alike[name]; as != "" {
		return func(b *builder) {
			b.c = b.c.Like(as)
			familyOf(as)(b)
		}
	}
	for _, h := range handmade {
		if slices.Contains(strings.Fields(h.types), name) {
			return h.build
		}
	}
	if d, ok := decoders()[name]; ok {
		return func(b *builder) { buildDecoder(b, d) }
	}
	if s, ok := sights[name]; ok {
		return func(b *builder) { buildSight(b, s) }
	}
	return nil
}

// Uncounted are families that people ask for, and why there is no budget for them.
var Uncounted = map[string]string{
	"zamba": sharedLayers,
}

const (
	sharedLayers = "its layers share their weights"
)

// alike are families that another one's classes, or copies of them, are built for.
var alike = map[string]string{"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3",
	"qwen3_vl_moe_text": "qwen3_moe", "exaone": "llama", "internlm3": "llama", "iquestcoder": "llama", "gpt-sw3": "gpt2",
	"sarvam_mla": "deepseek_v3", "sarvam_moe": "glm4_moe", "glm4v_text": "glm4", "plbart": "bart"}

// Unmeasured are families of which only the parameters were checked, to the last one: what their steps take is put together from
// operations that were measured with others.
func Unmeasured(name string) bool {
	switch name {
	case "llama4_text", "qwen3_5_text", "dinov3_vit", "mt5", "siglip", "siglip_vision_model", "falcon_h1", "jamba",
		"granitemoehybrid", "mistral4", "hunyuan_v1_moe", "hy_v3", "marian", "modernbert-decoder":
		return true
	}
	return sights[name].part != ""
}

// Known says whether there is a network for a model_type.
func Known(family string) bool { return familyOf(family) != nil }

// Families are the model_types, sorted.
func Families() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(decoders())), maps.Keys(sights))
	for _, h := range handmade {
		names = append(names, strings.Fields(h.types)...)
	}
	for name := range alike {
		if !strings.HasSuffix(name, "_text") { // of which a whole has another name
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// activation is what a field names.
func (b *builder) activation(field string) activation {
	s := b.c.Str(field)
	if a, ok := activations[s]; ok || s == "" {
		return a
	}
	return actGelu
}

// activationOf is one by its name, or by the field that has it.
func (b *builder) activationOf(name string) activation {
	if a, ok := activations[name]; ok {
		return a
	}
	return b.activation(name)
}

var activations = map[string]activation{"silu": actSilu, "swish": actSilu, "gelu": actGelu, "gelu_new": actGeluNew,
	"relu": actRelu, "quick_gelu": actQuickGelu, "relu2": actReluSquared, "tanh": actTanh, "bloom_gelu": actBloomGelu}

// heads checks that heads divide evenly.
func (b *builder) heads(h, a, k int64) {
	switch {
	case a <= 0 || k <= 0:
		b.fail("%s: %d attention heads and %d key-value heads make no attention", b.c.Type, a, k)
	case a%k != 0:
		b.fail("%s: %d attention heads cannot share %d key-value heads evenly", b.c.Type, a, k)
	case h <= 0:
		b.fail("%s: a hidden size of %d", b.c.Type, h)
	}
}

// headDim is the width of a head: the file's, the class's, or h/a.
func (b *builder) headDim(h, a int64) int64 {
	if d := b.c.Int("head_dim"); d > 0 {
		return d
	}
	divided(b, h, a)
	return h / a
}

// headKinds says what stands on a family's backbone, by the end of its class's name.
var headKinds = []struct {
	suffix string
	kind   headKind
}{
	{"ForCausalLM", headLM}, {"LMHeadModel", headLM}, {"ForMaskedLM", headMasked}, {"ForPreTraining", headPreTraining},
	{"ForSequenceClassification", headSequence},
	{"MTModel", headSeq2Seq}, {"ForCTC", headToken}, {"ForTokenClassification", headToken}, {"ForQuestionAnswering", headSpan},
	{"ForImageClassification", headImage}, {"ForConditionalGeneration", headSeq2Seq}, {"DoubleHeadsModel", headDouble},
	{"ForMultipleChoice", headChoice}, {"RewardModel", headReward}, {"EncoderModel", headEncoder}, {"Model", headNone},
}

// noHead refuses a class that the family's network is not built for.
func (b *builder) noHead() {
	b.fail("%s has no head like %s: give the checkpoint's header with --model FILE.safetensors", b.c.Type,
		Short(b.c.Architecture()))
}

type headKind int

const (
	headDefault headKind = iota // no architectures in the file
	headLM
	headMasked
	headPreTraining
	headSequence
	headToken
	headSpan
	headImage
	headSeq2Seq
	headChoice
	headReward
	headEncoder
	headDouble // words, and one score for each choice
	headNone
)

// headWords are what rows of heads.txt call them.
var headWords = map[headKind]string{headDefault: "default", headLM: "lm", headMasked: "masked", headPreTraining: "pretraining",
	headSequence: "sequence", headToken: "token", headSpan: "span", headChoice: "choice", headNone: "none"}

// headKind reads what stands on the backbone. An unknown class is refused.
func (b *builder) headKind() headKind {
	name := b.c.Architecture()
	if name == "" {
		return headDefault
	}
	for _, h := range headKinds {
		if len(name) > len(h.suffix) && strings.HasSuffix(name, h.suffix) {
			return h.kind
		}
	}
	b.fail("the head of architecture %q is not known: give the checkpoint's header with --model FILE.safetensors, or its size "+
		"with --params", Short(name))
	return headNone
}

// headUnder is the kind of head, in front of which the stack's tensors have a prefix: not where the class is the stack alone,
// or one of those that are bare.
func (b *builder) headUnder(prefix string, bare ...headKind) headKind {
	kind := b.headKind()
	if kind != headNone && !slices.Contains(bare, kind) {
		b.prefix = prefix
	}
	return kind
}
