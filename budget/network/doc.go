// Package network has the networks of model families: the weights that a configuration describes, by name and shape, the layers
// that these make, and what a batch takes on its way through them on a machine of the package autograd.
//
//	mod, err := network.New(config, 0, nil)
//	m := &network.Machine{Machine: autograd.New(2, 2, autograd.Pass{Batch: 4}), Modes: network.Modes{Sequence: 1024}}
//	s := network.Step{M: m, Model: mod, Around: around}
//	stream := s.Forward(s.Inputs())
//
// A parameter's Val is where it lies. It knows no settings: what it asks of one are Modes, the same for a whole pass, and what
// lies between its layers where GPUs share a model is done Around them. Sizes are in elements, or said to be in bytes.
package network

import "github.com/vramscope/vramscope/budget/autograd"

// What a network is counted in.
type (
	value     = autograd.Value
	storage   = autograd.Storage
	parameter = autograd.Parameter
	layer     = autograd.Layer
)
