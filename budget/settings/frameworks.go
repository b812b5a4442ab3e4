package settings

import (
	"cmp"
	_ "embed"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	EndsApart       bool   // and its FSDP2 has the head and the embeddings in units of their own
	Widens          bool   // and makes float32 weights of what is trained with mixed precision on
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
	WideEnds       bool // embeddings and head are float32 in full training
	FusesAdapters  bool // its kernels run layers with their adapters
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

// Fallback is the framework of settings that nothing else tells.
const Fallback = "transformers"

//go:embed frameworks.txt
var frameworksText string

// profiles are those of frameworks.txt, whose faults any test finds.
var profiles = sync.OnceValue(readProfiles)

func readProfiles() (all []Profile) {
	for block := range strings.SplitSeq(strings.TrimSpace(frameworksText), "\n\n") {
		x := Profile{}
		for line := range strings.Lines(block) {
			key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch words := strings.Fields(rest); key {
			case "framework":
				x.Name, x.Before, _ = strings.Cut(rest, " before ")
			case "like":
				for _, y := range all {
					if y.Name == rest { // the newest
						x.Code = y.Code
					}
				}
			case "usual":
				for _, word := range words {
					flag, where, _ := strings.Cut(word, "/")
					name, value, _ := strings.Cut(flag, "=")
					x.Usual = append(x.Usual, Usual{name, value, where})
				}
			case "tells":
				x.Tells = rest
			case "code", "without":
				for _, word := range words {
					if code := reflect.ValueOf(&x.Code).Elem(); key == "code" && strings.HasPrefix(word, "Loss=") {
						x.Loss = word[len("Loss="):]
					} else {
						code.FieldByName(word).SetBool(key == "code")
					}
				}
			}
		}
		if x.Name != "" {
			all = append(all, x)
		}
	}
	return all
}

// ProfileOf is that of a framework, which may have a version after it: "torchtitan@2024.12". It is an empty one for a name
// that nobody has.
func ProfileOf(name string) *Profile {
	name, version, _ := strings.Cut(name, "@")
	for i := range profiles() {
		x := &profiles()[i]
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
	for _, x := range profiles() {
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
