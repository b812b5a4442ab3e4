// Package classify says what every allocation of a device is for: its
// category with a confidence and the signal that decided, the phase and the
// step in which it was made, and which lines leak.
//
//	t := timeline.New(s, &s.Devices[0])
//	c := classify.New(t, classify.Options{})
//	for id := range t.Len() {
//		fmt.Println(c.Category[id], c.Confidence[id], c.Signal[id], c.Phase[id], c.Step[id])
//	}
//
// It goes in three passes, each linear in the events:
//
// Phases (phases.go) come from the marks of stacks (package frames), which are worked
// out once for every distinct stack, and from annotated ranges
// (annotations.go, fused.go). Where there are no stacks, a backward pass is
// seen by its root gradient, one number that lives as long as the pass while
// saved tensors are freed in the opposite order of their birth (rhythm.go,
// roots.go).
//
// Steps (steps.go) end with the last of their optimizers, else with their
// backward pass; loops that only run forward are cut where a batch is loaded or
// where what happens once per pass comes back (anchor.go). So are validations
// and the like in programs that train (untrained.go).
//
// Categories are claimed by independent signals: labels, annotated ranges, C++
// frames of the birth, of the free, Python frames (signals.go), the phases in
// which a block was born and freed (life.go), sizes (sizes.go and what it asks:
// scores around a loss, growing caches, halves of weights, recomputation,
// copies of all weights, packed ones, buckets, blocks older than the trace).
// Every claim says how sure it is and join (claim.go) is the one place where they
// meet. What stays unsure asks the other allocations of its site (sites.go).
package classify

import (
	"sync"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Category is what an allocation holds.
type Category uint8

// The categories; they sum to the allocated bytes at every event.
const (
	Unknown Category = iota
	Weights
	Gradients
	OptimizerState
	Activations
	Logits
	KVCache
	Inputs
	AutocastCopies
	Communication
	Workspace
	Temporary
	NumCategories = int(Temporary) + 1
)

var categoryNames = [NumCategories]string{"unknown", "weights", "gradients", "optimizer_state", "activations", "logits",
	"kv_cache", "inputs", "autocast_copies", "communication", "workspace", "temporary"}

// String is the word of reports and tables.
func (c Category) String() string { return categoryNames[c] }

// categoryNamed finds a category by the word of reports and tables.
func categoryNamed(word string) (Category, bool) {
	for i, name := range categoryNames {
		if name == word {
			return Category(i), true
		}
	}
	return Unknown, false
}

// Phase is what the program was doing when an allocation was made.
type Phase uint8

// The phases of a program.
const (
	Setup Phase = iota
	Data
	Forward
	Backward
	Optimizer
	ZeroGrad
	Generate
	OtherPhase
	NumPhases = int(OtherPhase) + 1
)

// String is the word of reports and tables.
func (p Phase) String() string {
	return [...]string{"setup", "data", "forward", "backward", "optimizer", "zero_grad", "generate", "other"}[p]
}

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

// Label is what somebody who knows says about one allocation.
type Label struct {
	Address  uint64
	Event    int // index of the alloc event in the device's trace; -1: whatever lies there at the end of the recording
	Category Category
	Name     string
}

// Options are facts from outside the recording.
type Options struct {
	Labels   []Label
	Tensors  []Tensor  // the model's, in the order in which it lists them
	Evidence *Evidence // of the device, used up by New; nil: New gathers it
}

// PhaseSpan is a run of events in one phase, both ends included.
type PhaseSpan struct {
	Phase                 Phase
	FirstEvent, LastEvent int
}

// Step is one iteration of a program's loop.
type Step struct {
	Number                int
	FirstEvent, LastEvent int // both included
	PeakAllocated         int64
	Phases                []PhaseSpan
}

// Classification says what every allocation of a timeline is; its slices are
// parallel to the timeline's allocations.
type Classification struct {
	Timeline *timeline.Timeline

	Category   []Category
	Detail     []Detail
	Confidence []uint8 // percent
	Signal     []Signal
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

	leaks struct {
		sync.Once
		found []Leak
	}
}

// Leaks are found when they are first asked for.
func (c *Classification) Leaks() []Leak {
	c.leaks.Do(func() { c.leaks.found = c.findLeaks(frames.New(c.Timeline.Snapshot)) })
	return c.leaks.found
}

// New classifies the allocations of a timeline.
func New(t *timeline.Timeline, o Options) *Classification {
	v := o.Evidence
	if v == nil {
		v = Gather(t.Snapshot, t.Device)
	}
	if v.followed == nil {
		v.Follow(t)
	}
	a := v.followed
	a.labels = a.readLabels(o.Labels)
	together.Do(func() { a.join(a.signals()) }, a.peaks)
	a.joinOlder()
	a.joinSites()
	a.findDetails()
	a.tellFailedLoss()
	a.findNames(o.Tensors)
	return a.Classification
}

// Follow looks at births and deaths, too: phases, steps and what signals ask
// for. The timeline may be one that was only begun.
func (v *Evidence) Follow(t *timeline.Timeline) {
	n := t.Len()
	c := &Classification{
		Timeline: t,
		Category: pages.Make[Category](n), Detail: pages.Make[Detail](n), Confidence: pages.Make[uint8](n),
		Signal: pages.Make[Signal](n), Phase: pages.Make[Phase](n), Step: pages.Make[int32](n),
	}
	a := &analysis{Classification: c, Evidence: v, t: t, events: &t.Device.Events, last: t.Device.Events.Len()}
	v.followed = a
	for i, action := range a.events.Action {
		switch action {
		case snapshot.OOM:
			a.ooms = append(a.ooms, i)
		case snapshot.Alloc:
			a.stop = i + 1
		}
	}
	a.findPhases()
	a.findRuns()
	together.Do(a.assignPhases, a.findSteps, a.findUntrained)
	a.prepare()
}
