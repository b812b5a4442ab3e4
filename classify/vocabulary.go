package classify

import (
	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/classify/rules"
)

// The vocabulary of a classification, so that who reads one needs this package alone.
// Each word is explained where it is declared.
type (
	Category  = meaning.Category
	Phase     = meaning.Phase
	Detail    = meaning.Detail
	Signal    = meaning.Signal
	Step      = meaning.Step
	PhaseSpan = meaning.PhaseSpan
	Label     = meaning.Label
	Leak      = leaks.Leak
	Site      = leaks.Site
	Tensor    = names.Tensor
)

// Categories of memory.
const (
	Unknown        = meaning.Unknown
	Weights        = meaning.Weights
	Gradients      = meaning.Gradients
	OptimizerState = meaning.OptimizerState
	Activations    = meaning.Activations
	Logits         = meaning.Logits
	KVCache        = meaning.KVCache
	Inputs         = meaning.Inputs
	AutocastCopies = meaning.AutocastCopies
	Communication  = meaning.Communication
	Workspace      = meaning.Workspace
	Temporary      = meaning.Temporary
	NumCategories  = meaning.NumCategories
)

// Phases of a program.
const (
	Setup      = meaning.Setup
	Data       = meaning.Data
	Forward    = meaning.Forward
	Backward   = meaning.Backward
	Optimizer  = meaning.Optimizer
	ZeroGrad   = meaning.ZeroGrad
	Generate   = meaning.Generate
	OtherPhase = meaning.OtherPhase
	NumPhases  = meaning.NumPhases
)

// Kinds within a category.
const (
	NoDetail        = meaning.NoDetail
	Parameter       = meaning.Parameter
	Buffer          = meaning.Buffer
	Moment1         = meaning.Moment1
	Moment2         = meaning.Moment2
	MasterWeights   = meaning.MasterWeights
	StepCounter     = meaning.StepCounter
	Recomputed      = meaning.Recomputed
	CheckpointInput = meaning.CheckpointInput
	LogitsCopy      = meaning.LogitsCopy
	LogitsGradient  = meaning.LogitsGradient
	GradientBucket  = meaning.GradientBucket
	GatheredShard   = meaning.GatheredShard
	NumDetails      = meaning.NumDetails
)

// The number of signals.
const (
	NumSignals = meaning.NumSignals
)

// Kinds of leaks.
const (
	GrowingList        = leaks.GrowingList
	RetainedGraph      = leaks.RetainedGraph
	GradientsKept      = leaks.GradientsKept
	StaleOutputs       = leaks.StaleOutputs
	VaryingShapes      = leaks.VaryingShapes
	FragmentationCreep = leaks.FragmentationCreep
	FirstStepState     = leaks.FirstStepState
)

// How sure a claim is in words, in percent.
const (
	Exact     = rules.Exact
	Likely    = rules.Likely
	Plausible = rules.Plausible
	Guess     = rules.Guess
)

// Stacked is the order of categories in pictures, what lives longest below.
var Stacked = meaning.Stacked

// LabelsOf gives what a labels file says of a timeline's allocations.
var LabelsOf = names.LabelsOf

// Holder is a variable of the program, with the allocations that it keeps alive.
type Holder = names.Holder

// HoldersOf gives what variables hold of a timeline's allocations.
var HoldersOf = names.HoldersOf

// HaveNames is true of allocations that variables and parameters hold (rules.HaveNames).
var HaveNames = rules.HaveNames
