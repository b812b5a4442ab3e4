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
	if change := *advice.Text(Shown(&s, f.Requested, f.Capacity)); change != "" {
		return change
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

// Shown is the advice about what a request's frames do, where it asks for so much of the GPU that this is what fills it;
// "" where they show nothing that there is an advice about.
func Shown(s *evidence.Scene, requested, capacity int64) (id string) {
	if parts := partOf[s.Doing]; s.Doing == "" || parts > 0 && !asksFor(requested, capacity, parts) {
		return ""
	}
	if id = "doing." + string(s.Doing); s.Doing == evidence.Logits && s.NoGrad {
		id += ".no_grad"
	}
	if advice.Find(id).Text == "" {
		return ""
	}
	return id
}

// asksFor reports whether a request is at least one in so many parts of the GPU.
func asksFor(requested, capacity, parts int64) bool {
	return capacity > 0 && requested >= capacity/parts
}
