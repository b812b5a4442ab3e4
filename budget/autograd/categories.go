package autograd

import "github.com/vramscope/vramscope/internal/words"

// Categories are bytes by what they are for.
type Categories [words.NumCategories]int64

// Sum is the bytes of all categories.
func (c Categories) Sum() int64 {
	var n int64
	for _, b := range c {
		n += b
	}
	return n
}

// Map is the categories that are not empty, by name.
func (c Categories) Map() map[string]int64 {
	m := map[string]int64{}
	for i, b := range c {
		if b != 0 {
			m[words.Category(i).String()] = b
		}
	}
	return m
}

// Phase is a part of a step or of serving.
type Phase int

// Phases, in the order in which they come.
const (
	Load Phase = iota
	Forward
	Loss
	Backward
	FirstOptimizer
	Optimizer
	Prefill
	Decode
	NumPhases
)

var phaseNames = [NumPhases]string{"load", "forward", "loss", "backward", "first_optimizer_step", "optimizer", "prefill",
	"decode"}

func (p Phase) String() string { return phaseNames[p] }
