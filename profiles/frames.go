package profiles

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// place is a frame as it is shown.
type place struct {
	name   string // "modeling_qwen2.forward", "aten::mm", "LogSoftmaxBackward0"
	full   string // as recorded
	file   string
	line   int
	python bool
}

// Frames that stand for stacks of which nothing can be shown.
var (
	older    = place{name: "[older than the recording]", python: true}
	nameless = place{name: "[C++ without names]"}
)

// unrecorded stands for a missing stack: backward passes have none where only
// Python's were recorded.
var unrecorded = func() (out [classify.NumPhases]place) {
	for i := range out {
		out[i] = place{name: "[" + classify.Phase(i).String() + ", no stack recorded]", python: true}
	}
	return out
}()

// stackKey names a stack as it is shown. Where id is 0, the others say what is
// known instead.
type stackKey struct {
	id    snapshot.StackID
	older bool
	phase classify.Phase
}

func (d Device) stackOf(id timeline.AllocationID) stackKey {
	t := d.Timeline
	switch stack := t.Stack(id); {
	case stack != 0:
		return stackKey{id: stack}
	case t.BornAt(id) == timeline.NoEvent && t.Device.Events.Len() > 0:
		return stackKey{older: true}
	}
	return stackKey{phase: d.Classes.Phase[id]}
}

// shownFrames are the frames of a snapshot as they are shown, each looked at once.
type shownFrames struct {
	view   *frames.View
	s      *snapshot.Snapshot
	seen   []bool
	places []place // by FrameID; without a name: not shown
}

func newFrames(r Recording) *shownFrames {
	f := &shownFrames{view: r.View}
	if len(r.Devices) > 0 {
		f.s = r.Devices[0].Timeline.Snapshot
		f.seen, f.places = make([]bool, len(f.s.Frames)), make([]place, len(f.s.Frames))
	}
	return f
}

// stack is the frames of a stack that are shown, innermost first; never none.
func (f *shownFrames) stack(k stackKey) []*place {
	switch {
	case k.older:
		return []*place{&older}
	case k.id == 0:
		return []*place{&unrecorded[k.phase]}
	}
	var out []*place
	for _, frame := range f.s.Stack(k.id) {
		if p := f.place(frame); p.name != "" {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		out = append(out, &nameless)
	}
	return out
}

// place is a frame as it is shown.
func (f *shownFrames) place(id snapshot.FrameID) *place {
	p := &f.places[id]
	if !f.seen[id] {
		f.seen[id] = true
		if *p = f.raw(id); !p.python && machinery(p.full, p.file) {
			p.name = ""
		}
	}
	return p
}

func (f *shownFrames) raw(id snapshot.FrameID) place {
	l := f.view.Line(id)
	p := place{full: valid(l.Function), file: valid(l.File), line: l.Line, python: f.view.Language(id) == frames.Python}
	if p.python {
		p.name = pythonName(p.full, p.file)
		return p
	}
	p.name = nativeName(p.full)
	if p.file == "??" {
		p.file = ""
	}
	if ext := path.Ext(p.file); ext == ".so" || strings.Contains(p.file, ".so.") || ext == "" {
		p.line = 0 // an offset into a library
	}
	return p
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// pythonName is a function with its module, since half of all functions of a
// model are called forward.
func pythonName(function, file string) string {
	if function == "" {
		function = "?"
	}
	file = strings.ReplaceAll(file, `\`, "/")
	dir, module := path.Split(file)
	if strings.HasPrefix(file, "<") {
		module = file
	}
	module = strings.TrimSuffix(module, ".py")
	if module == "__init__" {
		if parent := path.Base(dir); parent != "." && parent != "/" {
			module = parent
		}
	}
	if module == "" {
		return function
	}
	return module + "." + function
}

// operators is where PyTorch's dispatcher enters an operator.
const operators = "at::_ops::"

// nativeName is a C++ function without its types: "aten::mm" for an operator,
// as PyTorch's own profiler has it, and "MmBackward0" for an autograd node.
func nativeName(full string) string {
	name := withoutTypes(full)
	if rest, ok := strings.CutPrefix(name, operators); ok {
		if op, ok := strings.CutSuffix(rest, "::call"); ok {
			return "aten::" + op
		}
	}
	if rest, ok := strings.CutPrefix(name, "torch::autograd::generated::"); ok {
		if node, ok := strings.CutSuffix(rest, "::apply"); ok {
			return node
		}
	}
	if name == "torch::autograd::AccumulateGrad::apply" {
		return "AccumulateGrad"
	}
	return name
}

// withoutTypes takes arguments, template arguments, the type of the result and
// what follows the arguments off a demangled function.
func withoutTypes(full string) string {
	if !strings.ContainsAny(full, "(<") {
		return full
	}
	var b strings.Builder
	depth := 0
	for i := 0; i < len(full); i++ {
		rest := full[i:]
		switch c := full[i]; {
		case depth == 0 && strings.HasPrefix(rest, "(anonymous namespace)"):
			b.WriteString("(anonymous_namespace)")
			i += len("(anonymous namespace)") - 1
		case depth == 0 && strings.HasPrefix(rest, "operator"):
			operator := operatorName(rest)
			b.WriteString(operator)
			i += len(operator) - 1
		case strings.HasPrefix(rest, "->"):
			i++
		case c == '(' || c == '<' || c == '{':
			depth++
		case c == ')' || c == '>' || c == '}':
			depth--
		case depth == 0 && c == ' ' && b.Len() > 0 && strings.HasSuffix(full[:i], ")"):
			i = len(full) // " const", " [clone …]"
		case depth == 0:
			b.WriteByte(c)
		}
		if depth < 0 {
			return full
		}
	}
	name := b.String()
	name = strings.TrimLeft(name[strings.LastIndexByte(name, ' ')+1:], "*&")
	if depth != 0 || name == "" {
		return full
	}
	name = strings.ReplaceAll(name, "::::", "::") // where a lambda was
	return strings.ReplaceAll(name, "(anonymous_namespace)", "(anonymous namespace)")
}

// operatorName is "operator()", "operator<<" or the like at the beginning of s.
func operatorName(s string) string {
	n := len("operator")
	if strings.HasPrefix(s[n:], "()") {
		return s[:n+2]
	}
	for n < len(s) && strings.IndexByte("<>=-+*/%&|^!~[]", s[n]) >= 0 {
		n++
	}
	return s[:n]
}

// machines are beginnings of C++ functions that do the recording, hand out
// memory, dispatch, or lead from Python into an operator: they are on every
// stack and tell nothing about it.
var machines = []string{"torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::(anonymous namespace)::gather",
	"c10::", "std::", "pybind11::", "at::detail::", "at::meta::", "at::(anonymous namespace)::", "at::TensorIterator",
	"at::TensorBase", "at::empty", "at::native::empty", "at::_ops::empty", "at::_ops::new_empty", "at::native::resize_",
	"at::_ops::resize_", "torch::autograd::VariableType::", "torch::autograd::THPVariable_",
	"torch::autograd::TypeError_to_NotImplemented_", "torch::autograd::Node::operator", "torch::autograd::Engine::thread_",
	"torch::autograd::python::PythonEngine::thread_",
	"torch::handle_torch_function", "torch::detail::(anonymous namespace)::ConcretePyInterpreter"}

// cMachines are the same of functions in C.
var cMachines = []string{"THP", "pybind11", "Py", "_Py", "pymain_", "_start", "__libc_start", "start_thread", "clone3", "__clone"}

// machinery reports whether a C++ frame says nothing to the reader of a profile.
func machinery(full, file string) bool {
	if full == "" || full == "??" {
		return true
	}
	name := withoutTypes(full)
	if strings.HasPrefix(name, operators) && strings.HasSuffix(name, "::redispatch") {
		return true
	}
	known := machines
	if !strings.Contains(name, "::") {
		if known = cMachines; interpreter(file) {
			return true
		}
	}
	for _, m := range known {
		if strings.HasPrefix(name, m) {
			return true
		}
	}
	return false
}

// interpreter reports whether a file belongs to CPython: its sources as built, its
// library or its executable.
func interpreter(file string) bool {
	base := path.Base(file)
	if strings.HasPrefix(base, "libpython") || strings.HasPrefix(base, "python") && path.Ext(base) != ".py" &&
		!strings.HasSuffix(base, ".cpp") {
		return true
	}
	if !strings.HasSuffix(base, ".c") && !strings.HasSuffix(base, ".h") {
		return false
	}
	for _, folder := range []string{"/Python/", "/Objects/", "/Modules/", "/Include/", "Python/", "Objects/", "Modules/",
		"Include/"} {
		if strings.HasPrefix(file, folder) || strings.Contains(file, folder) {
			return true
		}
	}
	return false
}
