package oom

import (
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/words"
)

// partOf is from which part of the GPU on a request tells what fills it, where a traceback shows what the tensor asked for is.
var partOf = map[evidence.Doing]int64{evidence.Logits: partOfScores, evidence.Attention: partOfLayers,
	evidence.Convolution: partOfLayers,
	evidence.Messages:    partOfLayers, evidence.ToDevice: LargeTensors}

// From which part of the GPU on, one in so many, a request tells of what fills it:
const (
	partOfLayers = 400 // where each layer keeps such tensors
	partOfScores = 100 // of logits, which there are a few copies of
	LargeTensors = 10  // where the traceback doesn't show what the tensor is
)

// changeShown is what to do by what the traceback shows, "" where that is no
// more than the phase.
// The most telling one is tried first.
func (f *Failure) changeShown() string {
	s := f.Scene
	if s.Server != "" {
		return *advice.Text("server." + s.Server)
	}
	if parts := partOf[s.Doing]; parts == 0 || f.asksFor(parts) {
		id := "doing." + string(s.Doing)
		if s.Doing == evidence.Logits && s.NoGrad {
			id += ".no_grad"
		}
		if change := *advice.Text(id); change != "" {
			return change
		}
	}
	id := ""
	switch {
	case s.Evaluating && !s.NoGrad && (f.PhaseName == words.Forward.String() || f.PhaseName == ""):
		id = "evaluate"
	case s.Evaluating && f.PhaseName == words.Forward.String():
		id = "evaluate.no_grad"
	case f.PhaseName == words.Forward.String() && s.NoGrad:
		id = "no_grad"
	case s.Checkpointing && (f.PhaseName == words.Forward.String() || f.PhaseName == words.Backward.String()):
		id = "checkpointed"
	}
	return *advice.Text(id)
}

// asksFor reports whether the request is at least one in so many parts of the GPU.
func (f *Failure) asksFor(parts int64) bool {
	return f.Capacity > 0 && f.Requested >= f.Capacity/parts
}
