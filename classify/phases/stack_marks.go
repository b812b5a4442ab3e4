package phases

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
)

// StackMarks of one distinct stack.
type StackMarks struct {
	frames.Marks
	Hint  meaning.Hint
	Depth uint8 // nesting of modules' forward
}

// frameFact is a frame's part in its stack's evidence.
type frameFact struct {
	frames.Marks
	hint         meaning.Hint
	python, user bool
	forward      bool // one level of a module's forward
	step         bool // of one of torch's optimizers, which may be given a closure
	builds       bool // a constructor of the program's own
}

// judgeStacks works out the evidence of every distinct stack, each frame once.
func judgeStacks(s *snapshot.Snapshot) []StackMarks {
	view := frames.New(s)
	facts := make([]frameFact, len(s.Frames))
	for i := range s.Frames {
		f := &s.Frames[i]
		id := snapshot.FrameID(i)
		if view.Language(id) == frames.Python {
			facts[i] = judgePython(s.String(f.Function), s.String(f.File), view.Owner(id) == frames.User)
		} else {
			facts[i].Marks, facts[i].hint = frames.OfNative(s.String(f.Function))
		}
	}
	out := make([]StackMarks, max(1, s.NumStacks()))
	for id := range s.NumStacks() {
		out[id] = judgeStack(facts, s.Stack(snapshot.StackID(id)))
	}
	return out
}

// judgeStack is the evidence of one stack.
//
// complexity: the frames of a stack are looked at once, for all marks
func judgeStack(facts []frameFact, stack []snapshot.FrameID) StackMarks {
	var e StackMarks
	python, user, closure := false, false, false
	for _, f := range stack {
		fact := &facts[f]
		m := fact.Marks
		// The program's own code inside a step is what the step was given to run: another forward and backward.
		user = user || fact.user
		closure = closure || user && fact.step
		if e.Hint == meaning.HintOf(meaning.Optimizer) { // what an optimizer is called from says nothing of its work
			m &^= frames.Weight | frames.InModule
		}
		if e.Marks&frames.Weight != 0 { // an optimizer makes them its own, too
			m &^= frames.State
		}
		e.Marks |= m
		if fact.builds && !python {
			e.Marks |= frames.Named
		}
		if fact.python && !python {
			python = true
			if fact.user {
				e.Marks |= frames.UserInner
			}
			if fact.Marks&frames.Engine != 0 && fact.Marks&frames.Rebuild == 0 {
				e.Marks |= frames.Nested
			}
		}
		if (e.Hint == 0 || e.Hint == meaning.HintOf(meaning.Forward) && fact.hint == meaning.HintOf(meaning.Generate)) &&
			!(closure && fact.hint == meaning.HintOf(meaning.Optimizer)) {
			e.Hint = fact.hint
		}
		if fact.forward && e.Depth < 255 {
			e.Depth++
		}
	}
	if e.Marks&(frames.Engine|frames.Loss) == frames.Engine|frames.Loss {
		e.Marks = e.Marks&^frames.Loss | frames.LossGrad
	}
	if e.Marks&frames.Engine != 0 && e.Hint != meaning.HintOf(meaning.Optimizer) {
		e.Hint = meaning.HintOf(meaning.Backward)
	}
	return e
}

func judgePython(function, file string, user bool) frameFact {
	fact := frameFact{python: true, user: user, builds: user && function == "__init__"}
	if fact.Marks, fact.hint = frames.OfPython(function, file); user {
		fact.Marks |= frames.OfProgram(function)
	}
	file = strings.ReplaceAll(file, `\`, "/")
	fact.step = function == "step" && strings.Contains(file, "torch/optim/") &&
		!strings.HasSuffix(file, "torch/optim/optimizer.py")
	fact.forward = function == "_call_impl" && strings.HasSuffix(file, "torch/nn/modules/module.py")
	return fact
}
