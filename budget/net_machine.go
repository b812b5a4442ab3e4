package budget

import (
	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/internal/words"
)

// Category says what memory is for, as in a recording.
type Category = words.Category

// Categories of memory. Of a model's own, none is unknown.
const (
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
)

// What a step is counted in.
type (
	value      = autograd.Value
	storage    = autograd.Storage
	parameter  = autograd.Parameter
	node       = autograd.Node
	layer      = autograd.Layer
	request    = autograd.Request
	Categories = autograd.Categories // bytes by what they are for
	Phase      = autograd.Phase      // a part of a step or of serving
)

// Phases, in the order in which they come.
const (
	Load           = autograd.Load
	Forward        = autograd.Forward
	Loss           = autograd.Loss
	Backward       = autograd.Backward
	FirstOptimizer = autograd.FirstOptimizer
	Optimizer      = autograd.Optimizer
	Prefill        = autograd.Prefill
	Decode         = autograd.Decode
	numPhases      = autograd.NumPhases
)

// machine is what networks run on: the operations, and what their layers ask of a setting.
type machine struct {
	autograd.Machine
	opts *plan

	cached []*storage // keys and values that a cache holds
	shared *value     // what dropout has left of the input of more than one adapter, nil without
	bucket *storage   // that ZeRO 1 and 2 reduce gradients in
	filled int64      // elements in it
	shards *sharding  // whose groups gradients wait for, nil where parameters lie whole
}

// linear is a layer without its adapter.
func (m *machine) linear(x *value, l *linear) *value { return m.Product(x, &l.layer) }
