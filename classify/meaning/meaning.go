// Package meaning is the vocabulary of a classification, and its result: the
// categories, details, phases and signals that allocations have, the steps of a
// program, and what was found for each allocation.
package meaning

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/timeline"
)

// Category is what an allocation holds.
type Category = words.Category

// The categories; they sum to the allocated bytes at every event.
const (
	Unknown        = words.Unknown
	Weights        = words.Weights
	Gradients      = words.Gradients
	OptimizerState = words.OptimizerState
	Activations    = words.Activations
	Logits         = words.Logits
	KVCache        = words.KVCache
	Inputs         = words.Inputs
	AutocastCopies = words.AutocastCopies
	Communication  = words.Communication
	Workspace      = words.Workspace
	Temporary      = words.Temporary
	NumCategories  = words.NumCategories
)

// CategoryNamed finds a category by the word of reports and tables.
var CategoryNamed = words.CategoryNamed

// Phase is what the program was doing when an allocation was made.
type Phase = words.Phase

// The phases of a program.
const (
	Setup      = words.Setup
	Data       = words.Data
	Forward    = words.Forward
	Backward   = words.Backward
	Optimizer  = words.Optimizer
	ZeroGrad   = words.ZeroGrad
	Generate   = words.Generate
	OtherPhase = words.OtherPhase
	NumPhases  = words.NumPhases
)

// Hint is a phase that something points to, such as a frame; NoHint for none.
type Hint uint8

// NoHint is what has nothing to say about the phase.
const NoHint Hint = 0

// HintOf is the hint at a phase.
func HintOf(p Phase) Hint { return Hint(p) + 1 }

// Phase is the phase that a hint points to; there is none for NoHint.
func (h Hint) Phase() Phase { return Phase(h - 1) }

// Is reports whether a hint points to one of some phases.
func (h Hint) Is(phases ...Phase) bool { return h != NoHint && slices.Contains(phases, h.Phase()) }

// Detail is the kind of thing within a category.
type Detail uint8

// The details; NoDetail where a category has one kind only or it isn't known.
const (
	NoDetail        Detail = iota
	Parameter              // weights
	Buffer                 // weights: running statistics, masks, rotary tables
	Moment1                // optimizer_state: exp_avg, momentum_buffer
	Moment2                // optimizer_state: exp_avg_sq and what follows it
	MasterWeights          // optimizer_state: fp32 copies of low-precision weights
	StepCounter            // optimizer_state: one number per parameter or optimizer
	Recomputed             // activations: made again by checkpointing's backward
	CheckpointInput        // activations: what checkpointing keeps
	Restored               // activations: copied back from the host
	LogitsCopy             // logits: float or shifted copies, log-softmax
	LogitsGradient         // logits: the gradient of one of them
	CuBLAS                 // workspace
	GradientBucket         // gradients or communication: DDP's buckets
	GatheredShard          // communication: FSDP's gathered parameters
	NumDetails      = int(GatheredShard) + 1
)

// String is the word of tables, "" for NoDetail.
func (d Detail) String() string {
	return [...]string{"", "parameter", "buffer", "first_moment", "second_moment", "master", "step", "recomputed",
		"checkpoint_input", "restored", "logits_copy", "logits_grad", "cublas", "bucket", "gathered"}[d]
}

// Signal is the evidence that decided an allocation's category.
type Signal uint8

// The signals, strongest first.
const (
	NoSignal      Signal = iota
	ByLabel              // a labels file or the recording's own metadata
	ByAnnotation         // a range that the program or a library names
	ByNativeStack        // C++ frames of the allocation
	ByFreeStack          // the stack of its free: autograd releasing a saved tensor
	ByPythonStack        // Python frames of torch and public libraries
	BySite               // what other allocations of the same stack turned out to be
	ByLife               // in which phases it was born and freed
	BySize               // sizes that recur as weight, gradient and moment; tokens × vocabulary
	NumSignals    = int(BySize) + 1
)

// String is the word of tables.
func (s Signal) String() string {
	return [...]string{"none", "label", "annotation", "native_stack", "free_stack", "python_stack", "site", "life", "size"}[s]
}

// Stacked is the order of categories in pictures, what lives longest below.
var Stacked = [NumCategories]Category{Weights, OptimizerState, Gradients, KVCache, AutocastCopies, Inputs, Communication,
	Workspace,
	Activations, Logits, Temporary, Unknown}

// Label is what somebody who knows says about one allocation.
type Label struct {
	Address  uint64
	Event    int // index of the alloc event in the device's trace; -1: whatever lies there at the end of the recording
	Category Category
	Name     string
}

// PhaseSpan is a run of events in one phase, both ends included.
type PhaseSpan struct {
	Phase                 Phase
	By                    uint8 // the signal that told: place in package phases' registry, and 1; 0: a rule did
	FirstEvent, LastEvent int
}

// Step is one iteration of a program's loop.
type Step struct {
	Number                int
	FirstEvent, LastEvent int // both included
	PeakAllocated         int64
	Phases                []PhaseSpan
}

// Result says what every allocation of a timeline is; its slices are
// parallel to the timeline's allocations.
type Result struct {
	Timeline *timeline.Timeline

	Category   []Category
	Detail     []Detail
	Confidence []uint8 // percent
	Signal     []Signal
	Rule       []uint8  // that decided: index into the registry of rules, and 1; 0: none spoke
	Phase      []Phase  // in which it was made
	Step       []int32  // in which it was made; -1: before the loop
	Name       []uint32 // index into Names, 0: unnamed; nil when nothing could be named
	Names      []string

	Steps  []Step
	Before []PhaseSpan // events before the first step

	// Untrained are the iterations of each stretch of forward passes that no
	// backward pass follows, such as a validation, in a program that trains.
	// They lie within steps, or before the first; their peaks aren't known.
	Untrained [][]Step
}

// SpanAt is the run of equal phase that an event lies in, with its step; nil where there is none.
func (c *Result) SpanAt(event int) (*PhaseSpan, *Step) {
	in, step := c.Before, (*Step)(nil)
	if i := sort.Search(len(c.Steps), func(i int) bool { return c.Steps[i].FirstEvent > event }); i > 0 {
		step = &c.Steps[i-1]
		in = step.Phases
	}
	for i := range in {
		if in[i].FirstEvent <= event && event <= in[i].LastEvent {
			return &in[i], step
		}
	}
	return nil, step
}

// UntrainedAt is the pass that an event lies in where that is one of Untrained, else nil.
func (c *Result) UntrainedAt(event int) *Step {
	i := sort.Search(len(c.Untrained), func(i int) bool { return c.Untrained[i][0].FirstEvent > event })
	if i == 0 {
		return nil
	}
	steps := c.Untrained[i-1]
	k := sort.Search(len(steps), func(k int) bool { return steps[k].FirstEvent > event })
	if s := &steps[k-1]; event <= s.LastEvent {
		return s
	}
	return nil
}
