// Package words is the vocabulary that reports, recordings and budgets share: what
// memory is for, and what a program was doing, each in one list.
package words

import "slices"

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

var categories = [NumCategories]string{"unknown", "weights", "gradients", "optimizer_state", "activations", "logits",
	"kv_cache", "inputs", "autocast_copies", "communication", "workspace", "temporary"}

// String is the word of reports and tables.
func (c Category) String() string { return categories[c] }

// CategoryNamed finds a category by that word.
func CategoryNamed(word string) (Category, bool) {
	i := slices.Index(categories[:], word)
	return Category(max(i, 0)), i >= 0
}

// Categories are the words in the order of every table and chart: what isn't known is last.
func Categories() []string { return slices.Concat(categories[1:], categories[:1]) }

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
	return [NumPhases]string{"setup", "data", "forward", "backward", "optimizer", "zero_grad", "generate", "other"}[p]
}
