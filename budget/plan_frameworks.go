package budget

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
)

// Profile is what a framework does that a training's flags don't say: what its own files or scripts take where nothing else
// is said, and whose code runs.
type Profile struct {
	Name   string // as --framework takes it
	Before string // the row is of versions before this one; "": of all others
	Usual  []Usual
	tells  string // of the model and the loop, for a note
	code
}

// Usual is a flag that is taken where the user says nothing of it.
type Usual struct{ Flag, Value, Where string }

// Where flags are taken.
const (
	Always   = ""
	OnMany   = "many"     // where GPUs are left to share the model
	InFull   = "full"     // without adapters
	InFull16 = "full16"   // and in 16 bits
	WithLoRA = "adapters" // with them
	WithZeRO = "zero"     // without FSDP, on many GPUs
	ByZeRO16 = "zero16"   // where ZeRO trains all parameters in 16 bits
)

// Takes says whether a flag is taken in a setting.
func (s Setting) Takes(u Usual) bool {
	many := s.GPUs > max(s.TP, 1)*max(s.PP, 1)
	full16 := !s.adapts() && (s.Precision == "bf16" || s.Precision == "fp16" || s.Precision == "")
	switch u.Where {
	case OnMany:
		return many && s.Zero == 0
	case InFull:
		return !s.adapts()
	case InFull16:
		return full16
	case WithLoRA:
		return s.LoRA > 0
	case WithZeRO:
		return many && s.FSDP == ""
	case ByZeRO16:
		return s.Zero > 0 && full16
	}
	return true
}

// code is how a framework's own differs from what Transformers builds of a configuration.
type code struct {
	dropsOutputs    bool   // the loop deletes the logits before backward
	trainer         bool   // it is Transformers' Trainer, or its child
	reentrant       bool   // checkpointed forwards make no graph
	accelerates     bool   // Accelerate wraps the model
	loss            string // that stands for the model's own
	lossInside      bool   // the loss is among the model's results
	compilesWhole   bool   // torch.compile takes the model as one, with its loss
	compilesLoss    bool   // or the loss beside the blocks
	lossWithFused   bool   // since the fused optimizer is the default
	outputsInPieces bool   // the chunked loss's logits all stay
	outputsInTiles  bool   // or are made a tile at a time, and again in backward
	wholeLogits     bool   // tensor parallelism gathers the logits

	network.Layout
	rotaryCaches   bool // of all positions
	untiesHead     bool
	capsStream     bool // a soft cap lies on the stream, not on the logits
	castsLogits    bool // to float32, by the model
	bareExperts    bool // adapters of linear layers leave experts alone
	torchao        bool // packs weights
	fabric         bool // Lightning's Fabric runs the model
	ownParallelism bool // Megatron's tensors, pipelines and optimizer
	contexts       bool // it divides sequences over GPUs

	rootGoes     bool // the unit outside of the blocks goes after forward
	rootGoes28   bool // with PyTorch 2.8 and later
	ownUnits     bool // embeddings and head may be units of their own
	expertsApart bool // experts are units of their own
	keepsLast    bool // the last block's parameters stay for backward
	stagesKeep   bool // a pipeline's do
	perOperation bool // checkpointing has a policy of operations
	onlyWhole    bool // neither adapters nor 8-bit state

	dividesAdapters bool // tensor parallelism goes with them
	expands         bool // its launcher sets expandable segments
}

// Names that are looked at elsewhere.
const (
	fallback = "transformers"
	titan    = "torchtitan"
)

var (
	ofTransformers = code{contexts: true, accelerates: true, lossInside: true, compilesWhole: true, wholeLogits: true}
	ofTrainer      = ofTransformers.with(func(c *code) { c.trainer = true })
	ofAxolotl      = ofTrainer.with(func(c *code) { c.reentrant = true })
	ofMegatron     = code{contexts: true, ownParallelism: true, bareExperts: true, onlyWhole: true}
	megatronUsual  = []Usual{{"optimizer", "adamw-fused", InFull}, {"master-weights", "true", InFull16},
		{"gradient-dtype", "fp32", InFull16}}
)

func (c code) with(change func(*code)) code {
	change(&c)
	return c
}

// profiles are the frameworks; of two rows of one name that of the older versions stands first.
var profiles = []Profile{
	{Name: fallback, code: ofTransformers},
	{Name: "accelerate", Before: "1.11", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "false", Always},
		{"sync-each-batch", "true", Always}}, code: ofTransformers},
	{Name: "accelerate", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "false", Always}}, code: ofTransformers},
	{Name: "trl", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "true", Always}, {"loss", "chunked", Always}},
		code: ofTrainer.with(func(c *code) {
			c.dropsOutputs, c.loss, c.outputsInTiles, c.compilesWhole, c.wholeLogits = true, "chunked", true, false, false
		})},
	{Name: "axolotl", Before: "0.13", Usual: []Usual{{"trainer", "true", Always}, {"sync-each-batch", "true", OnMany}},
		code: ofAxolotl},
	{Name: "axolotl", Usual: []Usual{{"trainer", "true", Always}}, code: ofAxolotl},
	{Name: "llama-factory", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "full", Always},
		{"precision", "bf16-mixed", InFull}}, code: ofTrainer},
	{Name: "ms-swift", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "full", Always}}, code: ofTrainer},
	{Name: "unsloth", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "offload", Always}, {"loss", "fused", Always},
		{"optimizer", "adamw-8bit", Always}}, code: ofTrainer},
	{Name: "deepspeed", Usual: []Usual{{"master-weights", "true", ByZeRO16}},
		tells: "--framework deepspeed takes Transformers' model: what DeepSpeed shards is said by --zero",
		code:  code{lossInside: true}},
	{Name: "openrlhf", Usual: []Usual{{"zero", "3", WithZeRO}, {"master-weights", "true", ByZeRO16},
		{"optimizer", "adamw-fused", ByZeRO16}, {"checkpointing", "full", Always}}, code: code{lossInside: true}},
	{Name: "verl", Usual: []Usual{{"precision", "bf16-mixed", Always}, {"fsdp", "full", OnMany}, {"fsdp-version", "1", OnMany},
		{"checkpointing", "full", Always}}, code: code{dropsOutputs: true}},
	{Name: "torchtune", Usual: []Usual{{"optimizer", "adamw-fused", Always}, {"loss", "chunked", Always},
		{"fsdp", "full", OnMany}, {"lora-dtype", "model", WithLoRA}},
		tells: "model and loop are taken as torchtune's: --loss chunked makes 8 pieces of logits that all stay, logits are " +
			"deleted before backward; --framework transformers takes them as Transformers'",
		code: code{dropsOutputs: true, compilesLoss: true, outputsInPieces: true, rotaryCaches: true, capsStream: true,
			Layout: network.Layout{NarrowNorms: true, SpreadsHeads: true}, castsLogits: true, bareExperts: true, torchao: true,
			rootGoes28: true, ownUnits: true}},
	{Name: titan, Before: "2025", Usual: []Usual{{"precision", "bf16-mixed", Always}, {"optimizer", "adamw", Always},
		{"fsdp", "full", OnMany}}, tells: titanTells, code: ofTitan},
	{Name: titan, Usual: []Usual{{"precision", "bf16-mixed", Always}, {"optimizer", "adamw-fused", Always},
		{"fsdp", "full", OnMany}}, tells: titanTells, code: ofTitan},
	{Name: "litgpt", Usual: []Usual{{"loss", "cross-entropy", Always}, {"fsdp", "full", OnMany},
		{"checkpointing", "full", OnMany},
		{"lora-dtype", "model", WithLoRA}, {"lora-targets", "qv", WithLoRA}, {"lora-dropout", "0.05", WithLoRA}},
		tells: "the model is taken as litgpt's: norms keep float32 results, keys and values are copied for every query head; " +
			"--framework transformers takes it as Transformers'",
		code: code{Layout: network.Layout{WideNorms: true, SpreadsHeads: true, JoinedQKV: true}, untiesHead: true,
			bareExperts: true, fabric: true}},
	{Name: "automodel", Usual: []Usual{{"precision", "bf16", Always}, {"fsdp", "full", OnMany}, {"liger", "true", Always},
		{"lora-dtype", "model", WithLoRA}},
		tells: "the model is taken as NeMo AutoModel's: Transformers', with Liger's kernels and FSDP2 in bf16; before " +
			"Transformers 5.3 checkpointing kept four inputs of each block, not one",
		code: ofTransformers.with(func(c *code) { c.accelerates = false })},
	{Name: "megatron", Usual: megatronUsual, code: ofMegatron},
	{Name: "nemo", Usual: megatronUsual, code: ofMegatron.with(func(c *code) { c.onlyWhole, c.dividesAdapters = false, true })},
}

const titanTells = "model and loop are taken as torchtitan's: norms in one kernel, keys and values copied for every query " +
	"head, logits deleted before backward; --framework transformers takes them as Transformers'"

var ofTitan = code{contexts: true, dropsOutputs: true, lossWithFused: true,
	Layout:      network.Layout{FusedNorms: true, ComplexRotary: true, SpreadsHeads: true},
	bareExperts: true, rootGoes: true, expertsApart: true, keepsLast: true, stagesKeep: true,
	perOperation: true, onlyWhole: true, expands: true}

// ProfileOf is that of a framework, which may have a version after it: "torchtitan@2024.12". It is an empty one for a name
// that nobody has.
func ProfileOf(name string) *Profile {
	name, version, _ := strings.Cut(name, "@")
	for i := range profiles {
		x := &profiles[i]
		if x.Name == name && (x.Before == "" || version != "" && olderThan(version, x.Before)) {
			return x
		}
	}
	return &Profile{}
}

// olderThan compares versions part by part.
func olderThan(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		var n, m int
		if i < len(x) {
			n, _ = strconv.Atoi(x[i])
		}
		if i < len(y) {
			m, _ = strconv.Atoi(y[i])
		}
		if n != m {
			return n < m
		}
	}
	return false
}

// Frameworks are the names of those that have profiles.
func Frameworks() (names []string) {
	for _, x := range profiles {
		if !slices.Contains(names, x.Name) {
			names = append(names, x.Name)
		}
	}
	return names
}

// name is the framework's as it was given, without a version where the profile knows it.
func (x *Profile) name(given string) string { return cmp.Or(x.Name, given) }

// profile is that of the setting's framework, of which an engine that serves has the layout alone.
func (s Setting) profile() *Profile {
	x := ProfileOf(s.Framework)
	if s.Inference {
		return &Profile{Name: x.Name, code: code{ownParallelism: x.ownParallelism}}
	}
	return x
}

// What frameworks' own models have otherwise than the ones that Transformers builds of a configuration.

// builtBy is the configuration as the framework builds its model.
func (c *Config) builtBy(s Setting) *Config {
	if s.profile().fabric && c.Str("hidden_act") == "gelu_new" { // litgpt/model.py: F.gelu with approximate="tanh"
		c = c.with("hidden_act", "gelu_pytorch_tanh")
	}
	switch {
	case s.profile().untiesHead && c.Tied(): // litgpt/model.py: the head has a weight of its own
		return c.with("tie_word_embeddings", false)
	case s.profile().capsStream && c.Float("final_logit_softcapping") > 0: // Gemma2FinalNorm caps the stream, not the logits
		return c.with("final_logit_softcapping", 0.0)
	}
	return c
}

// fabric says whether Lightning's Fabric runs the model.
func (p *plan) fabric() bool { return p.profile.fabric }

// lastOutputs are those that a step leaves: the loop of litgpt's scripts has a name for its logits, which the next ones take.
func (p *plan) lastOutputs() int64 {
	if !p.fabric() || p.model.Head == nil || p.PP > 1 {
		return 0
	}
	return 4 * p.Batch * p.Sequence * p.model.Vocab / p.TP
}

// forgetOutputs lets those go when new ones are there.
func (r *run) forgetOutputs() {
	r.M.Release(r.old)
	r.old = nil
}

// lossInChunks is litgpt's (utils.py, chunked_cross_entropy) of float32 logits without the last position: each 128 tokens have a
// loss of their own, so that a chunk's gradient takes the place of what it saved, and all are joined in the end.
func (r *run) lossInChunks(logits *value, batch network.Batch) *value {
	m, x := r.M, r.M.Again(logits)
	m.Phase = Loss
	if r.p.Batch > 1 {
		x = m.Replace(x, m.Scale(x))
		m.Logit(x)
	} else {
		x = m.Replace(x, m.Slice(x))
	}
	s := m.Alloc(x.Bytes(), Logits)
	loss := m.Made(x, 1, 4, Logits, s, batch.Labels)
	m.Release(s)
	m.Drop(x)
	return loss
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
	c := p.model.Config
	positions := c.Int("max_position_embeddings")
	if !p.profile.rotaryCaches || len(p.model.Blocks) == 0 || p.model.Blocks[0].Attention == nil {
		return 0
	}
	n := 4 * positions * p.model.Blocks[0].Attention.Rotated()
	if c.Type == "qwen2" || c.Type == "phi3" { // each pair's numbers twice
		n *= 2
	}
	if p.adapts() && (c.Type != "llama" || positions <= sharedRotary) {
		n *= int64(len(p.model.Blocks))
	}
	return n
}
