package budget

import (
	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/settings"
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

// Setting is how a model is trained or served.
type Setting = settings.Setting

// What a step is counted in.
type (
	value      = autograd.Value
	storage    = autograd.Storage
	parameter  = autograd.Parameter
	node       = autograd.Node
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
