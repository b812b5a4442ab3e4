package phases

import "slices"

// registry are all signals, in the order in which they are asked. Those of events stand first: there is room for 16 of them
// in half a byte.
var registry = []*Signal{
	Frames,
	NamedRanges,
	OptimizerInBackward,
	FlatWeights,
	RootGradients,
	WeightsAgain,
	PassUnderWay,
	Closures,
	Rhythm,
	Setup,
	LoadedBatches,
	FreesWithoutStacks,
	Neighbors,

	Updates,
	ForwardLoops,

	UntrainedPasses,
}

// neighborsAt is the place of what is asked when nothing else has told.
var neighborsAt = slices.Index(registry, Neighbors)

// Signals are all signals, in the order in which they are asked.
func Signals() []*Signal { return registry }

// SignalOf is the signal by its number in a run or span of events; nil where none decided, but a rule that looked at what
// memory holds.
func SignalOf(n uint8) *Signal {
	if n == 0 {
		return nil
	}
	return registry[n-1]
}

// Known reports whether there is a signal with an id.
func Known(id string) bool {
	return slices.ContainsFunc(registry, func(s *Signal) bool { return s.ID == id })
}
