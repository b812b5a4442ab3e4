package settings

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
	Tells  string // of the model and the loop, for a note
	Code
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
	full16 := !s.Adapts() && (s.Precision == "bf16" || s.Precision == "fp16" || s.Precision == "")
	switch u.Where {
	case OnMany:
		return many && s.Zero == 0
	case InFull:
		return !s.Adapts()
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

// Code is how a framework's own differs from what Transformers builds of a configuration.
type Code struct {
	DropsOutputs    bool   // the loop deletes the logits before backward
	Trainer         bool   // it is Transformers' Trainer, or its child
	Reentrant       bool   // checkpointed forwards make no graph
	Accelerates     bool   // Accelerate wraps the model
	Widens          bool   // and its FSDP makes float32 weights of what is trained with mixed precision on
	SendsStates     bool   // FSDP1 sends rank 0's weights to the others
	Loss            string // that stands for the model's own
	LossInside      bool   // the loss is among the model's results
	CompilesWhole   bool   // torch.compile takes the model as one, with its loss
	CompilesLoss    bool   // or the loss beside the blocks
	LossWithFused   bool   // since the fused optimizer is the default
	OutputsInPieces bool   // the chunked loss's logits all stay
	OutputsInTiles  bool   // or are made a tile at a time, and again in backward
	WholeLogits     bool   // tensor parallelism gathers the logits

	network.Layout
	RotaryCaches   bool // of all positions
	UntiesHead     bool
	CapsStream     bool // a soft cap lies on the stream, not on the logits
	CastsLogits    bool // to float32, by the model
	BareExperts    bool // adapters of linear layers leave experts alone
	Torchao        bool // packs weights
	Fabric         bool // Lightning's Fabric runs the model
	OwnParallelism bool // Megatron's tensors, pipelines and optimizer
	Contexts       bool // it divides sequences over GPUs

	RootGoes     bool // the unit outside of the blocks goes after forward
	RootGoes28   bool // with PyTorch 2.8 and later
	OwnUnits     bool // embeddings and head may be units of their own
	ExpertsApart bool // experts are units of their own
	KeepsLast    bool // the last block's parameters stay for backward
	StagesKeep   bool // a pipeline's do
	PerOperation bool // checkpointing has a policy of operations
	OnlyWhole    bool // neither adapters nor 8-bit state

	DividesAdapters bool // tensor parallelism goes with them
	Expands         bool // its launcher sets expandable segments
}

// Fallback is the framework of settings that nothing else tells; the other name is looked at elsewhere.
const (
	Fallback = "transformers"
	titan    = "torchtitan"
)

var (
	ofTransformers = Code{Contexts: true, Accelerates: true, Widens: true, SendsStates: true, LossInside: true,
		CompilesWhole: true, WholeLogits: true}
	ofTrainer     = ofTransformers.with(func(c *Code) { c.Trainer = true })
	ofAxolotl     = ofTrainer.with(func(c *Code) { c.Reentrant, c.Widens = true, false }) // with its own way into FSDP
	ofMegatron    = Code{Contexts: true, OwnParallelism: true, BareExperts: true, OnlyWhole: true}
	megatronUsual = []Usual{{"optimizer", "adamw-fused", InFull}, {"master-weights", "true", InFull16},
		{"gradient-dtype", "fp32", InFull16}}
)

func (c Code) with(change func(*Code)) Code {
	change(&c)
	return c
}

// profiles are the frameworks; of two rows of one name that of the older versions stands first.
var profiles = []Profile{
	{Name: Fallback, Before: "4.46", Code: ofTransformers.with(func(c *Code) { c.CastsLogits = true })},
	{Name: Fallback, Code: ofTransformers},
	{Name: "accelerate", Before: "1.11", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "false", Always},
		{"sync-each-batch", "true", Always}}, Code: ofTransformers},
	{Name: "accelerate", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "false", Always}}, Code: ofTransformers},
	{Name: "trl", Usual: []Usual{{"trainer", "true", Always}, {"drop-outputs", "true", Always}, {"loss", "chunked", Always}},
		Code: ofTrainer.with(func(c *Code) {
			c.DropsOutputs, c.Loss, c.OutputsInTiles, c.CompilesWhole, c.WholeLogits = true, "chunked", true, false, false
		})},
	{Name: "axolotl", Before: "0.13", Usual: []Usual{{"trainer", "true", Always}, {"sync-each-batch", "true", OnMany}},
		Code: ofAxolotl},
	{Name: "axolotl", Usual: []Usual{{"trainer", "true", Always}}, Code: ofAxolotl},
	{Name: "llama-factory", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "full", Always},
		{"precision", "bf16-mixed", InFull}}, Code: ofTrainer},
	{Name: "ms-swift", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "full", Always}}, Code: ofTrainer},
	{Name: "unsloth", Usual: []Usual{{"trainer", "true", Always}, {"checkpointing", "offload", Always}, {"loss", "fused", Always},
		{"optimizer", "adamw-8bit", Always}}, Code: ofTrainer},
	{Name: "deepspeed", Usual: []Usual{{"master-weights", "true", ByZeRO16}},
		Tells: "--framework deepspeed takes Transformers' model: what DeepSpeed shards is said by --zero",
		Code:  Code{LossInside: true}},
	{Name: "openrlhf", Usual: []Usual{{"zero", "3", WithZeRO}, {"master-weights", "true", ByZeRO16},
		{"optimizer", "adamw-fused", ByZeRO16}, {"checkpointing", "full", Always}}, Code: Code{LossInside: true}},
	{Name: "verl", Usual: []Usual{{"precision", "bf16-mixed", Always}, {"fsdp", "full", OnMany}, {"fsdp-version", "1", OnMany},
		{"checkpointing", "full", Always}}, Code: Code{DropsOutputs: true, SendsStates: true}},
	{Name: "torchtune", Usual: []Usual{{"optimizer", "adamw-fused", Always}, {"loss", "chunked", Always},
		{"fsdp", "full", OnMany}, {"lora-dtype", "model", WithLoRA}},
		Tells: "model and loop are taken as torchtune's: --loss chunked makes 8 pieces of logits that all stay, logits are " +
			"deleted before backward; --framework transformers takes them as Transformers'",
		Code: Code{DropsOutputs: true, CompilesLoss: true, OutputsInPieces: true, RotaryCaches: true, CapsStream: true,
			Layout: network.Layout{NarrowNorms: true, SpreadsHeads: true}, CastsLogits: true, BareExperts: true, Torchao: true,
			RootGoes28: true, OwnUnits: true}},
	{Name: titan, Before: "2025", Usual: []Usual{{"precision", "bf16-mixed", Always}, {"optimizer", "adamw", Always},
		{"fsdp", "full", OnMany}}, Tells: titanTells, Code: ofTitan},
	{Name: titan, Usual: []Usual{{"precision", "bf16-mixed", Always}, {"optimizer", "adamw-fused", Always},
		{"fsdp", "full", OnMany}}, Tells: titanTells, Code: ofTitan},
	{Name: "litgpt", Usual: []Usual{{"loss", "cross-entropy", Always}, {"fsdp", "full", OnMany},
		{"checkpointing", "full", OnMany},
		{"lora-dtype", "model", WithLoRA}, {"lora-targets", "qv", WithLoRA}, {"lora-dropout", "0.05", WithLoRA}},
		Tells: "the model is taken as litgpt's: norms keep float32 results, keys and values are copied for every query head; " +
			"--framework transformers takes it as Transformers'",
		Code: Code{Layout: network.Layout{WideNorms: true, SpreadsHeads: true, JoinedQKV: true}, UntiesHead: true,
			BareExperts: true, Fabric: true}},
	{Name: "automodel", Usual: []Usual{{"precision", "bf16", Always}, {"fsdp", "full", OnMany}, {"liger", "true", Always},
		{"lora-dtype", "model", WithLoRA}},
		Tells: "the model is taken as NeMo AutoModel's: Transformers', with Liger's kernels and FSDP2 in bf16; before " +
			"Transformers 5.3 checkpointing kept four inputs of each block, not one",
		Code: ofTransformers.with(func(c *Code) { c.Accelerates, c.Widens = false, false })},
	{Name: "megatron", Usual: megatronUsual, Code: ofMegatron},
	{Name: "nemo", Usual: megatronUsual, Code: ofMegatron.with(func(c *Code) { c.OnlyWhole, c.DividesAdapters = false, true })},
}

const titanTells = "model and loop are taken as torchtitan's: norms in one kernel, keys and values copied for every query " +
	"head, logits deleted before backward; --framework transformers takes them as Transformers'"

var ofTitan = Code{Contexts: true, DropsOutputs: true, LossWithFused: true,
	Layout:      network.Layout{FusedNorms: true, ComplexRotary: true, SpreadsHeads: true},
	BareExperts: true, RootGoes: true, ExpertsApart: true, KeepsLast: true, StagesKeep: true,
	PerOperation: true, OnlyWhole: true, Expands: true}

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

// Profile is that of the setting's framework, of which an engine that serves has the layout alone.
func (s Setting) Profile() *Profile {
	x := ProfileOf(s.Framework)
	if s.Inference {
		return &Profile{Name: x.Name, Code: Code{OwnParallelism: x.OwnParallelism}}
	}
	return x
}
