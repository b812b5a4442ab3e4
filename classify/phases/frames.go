package phases

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// Frames is what stacks say by themselves.
var Frames = &Signal{
	ID: "frames",
	Doc: `Frames on the event's own stack name the phase: autograd's engine, an optimizer's step, a module's forward, a data
loader. In recordings of Python stacks alone, work without any frame is backward, for the engine's threads run no Python, but
for hooks, whose stacks begin in torch's own code. Of several frames, the innermost counts, but for backward, which counts
wherever the engine is on the stack.`,
	Find: func(f *facts) found { return found{named: f.named} },
}

// hint finds the phases that the events' own stacks name.
func (v *StackFacts) hint(events *snapshot.Events) []said {
	out := pages.Make[said](events.Len())
	python := v.Recorded.Allocs && !v.Recorded.Native
	last := lastAlloc(events) // what goes after it in no pass goes with the program
	over := last >= 0 && events.StackOf(last) != 0
	for i, action := range events.Action {
		switch action {
		case snapshot.Alloc, snapshot.FreeRequested, snapshot.FreeCompleted, snapshot.OOM:
		default:
			continue
		}
		if id := events.StackOf(i); id != 0 {
			e := &v.Stacks[id]
			if e.Marks&frames.Release == 0 || e.Hint != meaning.HintOf(meaning.Setup) {
				out[i] = said(e.Hint)
			}
		} else if python && (action == snapshot.Alloc || action == snapshot.OOM || v.Recorded.Frees &&
			action == snapshot.FreeRequested && (i < last || !over)) {
			out[i] = said(meaning.HintOf(meaning.Backward))
		}
	}
	return out
}

// lastAlloc is the last event that allocates: the first where none does, -1 where there is no event.
func lastAlloc(events *snapshot.Events) int {
	last := len(events.Action) - 1
	for last > 0 && events.Action[last] != snapshot.Alloc {
		last--
	}
	return last
}

// recorded says which stacks a recording has.
type recorded struct {
	Allocs, Frees bool // at least some of them have a stack
	Native        bool // with C++ frames
}

// StackFacts are what the stacks of a device's events say by themselves.
type StackFacts struct {
	Stacks   []StackMarks // by StackID
	All      frames.Marks // of any of them
	Recorded recorded
	named    []said // by event: the phase that its own stack names, used up by Follow
}

// Gather looks at a device's stacks. It needs no timeline: both may be made at the same time.
func Gather(s *snapshot.Snapshot, d *snapshot.Device) *StackFacts {
	v := &StackFacts{Stacks: judgeStacks(s)}
	for _, e := range v.Stacks {
		v.All |= e.Marks
	}
	v.Recorded = v.what(&d.Events)
	v.named = v.hint(&d.Events)
	return v
}

// what tells which stacks the events have.
func (v *StackFacts) what(events *snapshot.Events) (r recorded) {
	most := recorded{true, true, v.All&frames.Native != 0}
	for i, action := range events.Action {
		id := events.StackOf(i)
		if id == 0 || action != snapshot.Alloc && action != snapshot.FreeRequested {
			continue
		}
		r.Allocs, r.Frees = r.Allocs || action == snapshot.Alloc, r.Frees || action != snapshot.Alloc
		if r.Native = r.Native || v.Stacks[id].Marks&frames.Native != 0; r == most {
			break
		}
	}
	return r
}

// StackMarks of one distinct stack.
type StackMarks struct {
	frames.Marks
	Hint  meaning.Hint
	Depth uint8 // nesting of modules' forward
	// Called is true where a stack doesn't begin as a program does: in a thread, or a hook that the engine calls.
	Called bool
}

// frameFact is a frame's part in its stack's evidence.
type frameFact struct {
	frames.Marks
	hint         meaning.Hint
	innermost    frames.Marks // of a stack whose innermost frame of Python it is
	python, user bool
	forward      bool  // one level of a module's forward
	step         bool  // of one of torch's optimizers, which may be given a closure
	applies      int32 // the line at which a module is moved; 0: none is
	torch        bool  // torch's own code in a file
	called       bool  // no program begins there
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
			facts[i].torch = view.Owner(id) == frames.Torch && !strings.HasPrefix(s.String(f.File), "<")
			if facts[i].Marks&frames.Weight != 0 && s.String(f.Function) == "_apply" {
				facts[i].applies = f.Line
			}
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

// buffer tells of a frame that moves a module within another, which calls it, whether it moves a buffer: from PyTorch 2.6 on its
// line is so far below that for the modules within it, and that for parameters is nearer.
func (f *frameFact) buffer(facts []frameFact, callers []snapshot.FrameID) frames.Marks {
	const below = 80 // lines
	if f.applies > 0 && len(callers) > 0 && facts[callers[0]].applies > 0 && f.applies-facts[callers[0]].applies > below {
		return frames.Buffer
	}
	return 0
}

// judgeStack is the evidence of one stack.
func judgeStack(facts []frameFact, stack []snapshot.FrameID) StackMarks {
	var e StackMarks
	python, user, closure := false, false, false
	for k, f := range stack {
		fact := &facts[f]
		e.Marks |= fact.buffer(facts, stack[k+1:])
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
		if e.Marks |= m; fact.python && !python {
			python = true
			e.Marks |= fact.innermost
		}
		if (e.Hint == 0 || e.Hint == meaning.HintOf(meaning.Forward) && fact.hint == meaning.HintOf(meaning.Generate)) &&
			!(closure && fact.hint == meaning.HintOf(meaning.Optimizer)) {
			e.Hint = fact.hint
		}
		if fact.forward && e.Depth < 255 {
			e.Depth++
		}
	}
	e.finish(facts, stack)
	return e
}

// finish takes in what the outermost frame says, and what several marks mean together.
func (e *StackMarks) finish(facts []frameFact, stack []snapshot.FrameID) {
	if n := len(stack); n > 0 {
		first := &facts[stack[n-1]]
		if e.Called = first.called; first.called && first.torch && e.Hint != meaning.HintOf(meaning.Data) {
			e.Marks |= frames.Engine
		}
	}
	if e.Marks&(frames.Engine|frames.Loss) == frames.Engine|frames.Loss {
		e.Marks = e.Marks&^frames.Loss | frames.LossGrad
	}
	if e.Marks&frames.Engine != 0 && e.Hint != meaning.HintOf(meaning.Optimizer) {
		e.Hint = meaning.HintOf(meaning.Backward)
	}
}

func judgePython(function, file string, user bool) frameFact {
	fact := frameFact{python: true, user: user}
	if fact.Marks, fact.hint = frames.OfPython(function, file); user {
		fact.Marks |= frames.OfProgram(function)
		fact.innermost |= frames.UserInner
	}
	if user && function == "__init__" { // a constructor of the program's own
		fact.innermost |= frames.Named
	}
	if fact.Marks&frames.Engine != 0 && fact.Marks&frames.Rebuild == 0 {
		fact.innermost |= frames.Nested
	}
	file = strings.ReplaceAll(file, `\`, "/")
	fact.called = function != "<module>" && function != "_run_module_as_main" && !strings.Contains(file, "torch/distributed/rpc/")
	fact.step = function == "step" && strings.Contains(file, "torch/optim/") &&
		!strings.HasSuffix(file, "torch/optim/optimizer.py")
	fact.forward = function == "_call_impl" && strings.HasSuffix(file, "torch/nn/modules/module.py")
	return fact
}
