package frames

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
)

// Marks are what frames say about the moment a stack was taken, whoever's allocation
// it is.
type Marks uint64

// Marks of single frames.
const (
	Native       Marks = 1 << iota // has C++ frames
	Engine                         // under autograd's engine: backward
	Release                        // autograd drops a tensor that it had saved
	NodeGone                       // a node of the graph is let go, with all that it saved
	Workspace                      // room for a matrix library
	Cast                           // autocast's own casts
	Weight                         // modules are built, moved or loaded
	Input                          // batches are loaded or moved
	Cache                          // a key-value cache of a library
	Rebuild                        // checkpointing: its forward, and the recomputation
	Restore                        // save_on_cpu copies back
	Loss                           // a classification loss
	MatMul                         // the operator is a linear map
	Copying                        // the operator copies or converts
	Filled                         // the operator makes zeros, ones and the like
	State                          // an optimizer makes its state
	Comm                           // collective communication, sharding
	Bucket                         // DDP's reducer
	Flat                           // Megatron's buffers of all weights and of all gradients
	InModule                       // a module's forward
	LossGrad                       // gradient of a classification loss
	Keep                           // gradients: those that FSDP reduces are views of communication
	Inductor                       // by torch.compile: operators have no frames
	Unpacked                       // checkpointing made it again for a saved tensor's hook
	Distance                       // a loss that compares numbers: there are no logits
	PerClass                       // a loss that compares each logit with a target of its own
	Stored                         // read from a file
	Named                          // a function of the program's own says that it makes weights, or is a constructor
	Mask                           // an attention mask, which a variable holds through the whole pass
	Checkpointed                   // within the first forward of checkpointing
	Softmax                        // the operator is an exponential, as of logits
	Custom                         // a function with a backward of its own, which hides its operators
	OwnCache                       // a function of the program's own says that it makes a key-value cache

	// Marks of a stack as a whole.
	UserInner // the innermost Python frame isn't a library's
	Nested    // the innermost Python frame is where a pass runs the engine
	Buffer    // a module's buffer is moved, no parameter
)

// Hints of frames at what a program does where they run.
const (
	AtSetup     = meaning.Hint(meaning.Setup + 1)
	AtData      = meaning.Hint(meaning.Data + 1)
	AtForward   = meaning.Hint(meaning.Forward + 1)
	AtBackward  = meaning.Hint(meaning.Backward + 1)
	AtOptimizer = meaning.Hint(meaning.Optimizer + 1)
	AtZeroGrad  = meaning.Hint(meaning.ZeroGrad + 1)
	AtGenerate  = meaning.Hint(meaning.Generate + 1)
	AtOther     = meaning.Hint(meaning.OtherPhase + 1)
)

// rule says what a frame means: a Python frame by a part of its file and by its
// function, "" for any; a C++ frame by a part of its name.
type rule struct {
	file, function string
	marks          Marks
	hint           meaning.Hint
}

// OfPython is what a Python frame means, by the first rule for it. Losses are known
// by their function alone, PyTorch's or what people call their own.
func OfPython(function, file string) (Marks, meaning.Hint) {
	file = strings.ReplaceAll(file, `\`, "/")
	marks := losses[function]
	for i := range pythonRules {
		r := &pythonRules[i]
		if (r.function == "" || r.function == function) && strings.Contains(file, r.file) {
			return marks | r.marks, r.hint
		}
	}
	return marks, meaning.NoHint
}

// OfNative is what a C++ frame means: an operator by its name, others by all rules for
// them.
func OfNative(function string) (Marks, meaning.Hint) {
	if rest, ok := strings.CutPrefix(function, "at::_ops::"); ok {
		name, _, _ := strings.Cut(rest, "::")
		return Native | operators[name], meaning.NoHint
	}
	marks, hint := Native, meaning.NoHint
	for i := range nativeRules {
		if r := &nativeRules[i]; strings.Contains(function, r.function) {
			marks |= r.marks
			hint = max(hint, r.hint)
		}
	}
	return marks, hint
}

// OfProgram is what a function of the program's own says by its name:
// init_all_weights and load_params make weights, alloc_kv a cache.
func OfProgram(function string) Marks {
	name := strings.Trim(strings.ToLower(function), "_")
	for word := range strings.SplitSeq(name, "_") {
		switch word {
		case "cache", "caches", "kv", "past", "slots":
			return OwnCache
		}
	}
	if strings.Contains(name, "weight") || strings.Contains(name, "param") {
		for _, verb := range [...]string{"init", "load", "create", "make", "build", "alloc"} {
			if strings.HasPrefix(name, verb) {
				return Named
			}
		}
	}
	return 0
}
