// Package frames reads recorded stacks as a person would: which lines are the
// user's own, which are a library's, and which are torch's machinery that
// nobody wants to see. Its tables (known.go) say what functions of PyTorch and of
// libraries mean for memory that is made in them.
//
//	v := frames.New(s)
//	site := v.Site(id)
//	fmt.Println(site.Function, site.File, site.Line)
package frames

import (
	"strings"

	"github.com/vramscope/vramscope/internal/traceline"
	"github.com/vramscope/vramscope/snapshot"
)

// Language is what a frame is written in.
type Language uint8

// The languages of frames.
const (
	Other Language = iota
	Python
	CPP
)

// String is the word of the exported tables.
func (l Language) String() string { return [...]string{"other", "python", "cpp"}[l] }

// Owner says whose code a frame is.
type Owner uint8

// Owners, from the most to the least interesting.
const (
	User     Owner = iota // the program under examination
	Library               // an installed package, Python's own library
	Compiled              // Python code that torch.compile wrote: its names change from run to run
	Torch                 // Python code of torch itself
	Internal              // C and C++
)

// Line is one place in Python code.
type Line struct {
	Function, File string
	Line           int
}

// Site is where an allocation was made, in the words of a summary.
type Site struct {
	// Line is the innermost line outside torch, the user's or a library's;
	// its fields are empty when there is none. In what torch.compile wrote,
	// PyTorch records the line that it was written for below its own.
	Line
	// CalledFrom is the user's innermost line when Line is a library's.
	CalledFrom Line
	// Op is the operation that allocated: an autograd node such as
	// "LogSoftmaxBackward0", else an ATen operator such as "aten::mm", else
	// "torch.compile" when code that it wrote did, between Line's and the
	// allocator; "" when the stack names none.
	Op string
}

// View answers questions about one snapshot's stacks; answers are kept.
type View struct {
	s      *snapshot.Snapshot
	frames []frameKind
	sites  []Site
	known  []bool
}

type frameKind struct {
	language Language
	owner    Owner
}

// New prepares a view; it looks at every frame once.
func New(s *snapshot.Snapshot) *View {
	v := &View{s: s, frames: make([]frameKind, len(s.Frames)), sites: make([]Site, s.NumStacks()),
		known: make([]bool, s.NumStacks())}
	type kind struct {
		file     snapshot.StringID
		language Language
	}
	owners := map[kind]Owner{} // a file's frames are many
	for i := range s.Frames {
		k := kind{s.Frames[i].File, languageOf(s, &s.Frames[i])}
		owner, ok := owners[k]
		if !ok {
			owner = ownerOf(s.String(k.file), k.language)
			owners[k] = owner
		}
		v.frames[i] = frameKind{k.language, owner}
	}
	return v
}

// Language is what a frame is written in.
func (v *View) Language(id snapshot.FrameID) Language { return v.frames[id].language }

// Owner says whose code a frame is.
func (v *View) Owner(id snapshot.FrameID) Owner { return v.frames[id].owner }

// Line is a frame as a place in code.
func (v *View) Line(id snapshot.FrameID) Line {
	f := &v.s.Frames[id]
	return Line{v.s.String(f.Function), v.s.String(f.File), int(f.Line)}
}

// Node is the node of a torch.fx graph that a generated line runs; its fields are empty
// for any other line.
type Node struct {
	Op, Name, Target, Info string
	Trace                  string // lines of the traceback of the model's code
}

// FX is the node that a frame runs.
func (v *View) FX(id snapshot.FrameID) Node {
	f := v.s.FX[v.s.Frames[id].FX]
	return Node{v.s.String(f.Op), v.s.String(f.Name), v.s.String(f.Target), v.s.String(f.Info), v.s.String(f.Trace)}
}

// User is the user's own lines of a stack, innermost first.
func (v *View) User(id snapshot.StackID) []Line {
	var lines []Line
	for _, f := range v.s.Stack(id) {
		if v.frames[f].owner == User {
			lines = append(lines, v.Line(f))
		}
	}
	return lines
}

// Site is where an allocation with this stack was made.
func (v *View) Site(id snapshot.StackID) Site {
	if !v.known[id] {
		v.sites[id], v.known[id] = v.site(v.s.Stack(id)), true
	}
	return v.sites[id]
}

func (v *View) site(frames []snapshot.FrameID) Site {
	var s Site
	first := v.innermost(frames)
	user, compiled, inner := first[User], first[Compiled], first[Library]
	if inner < 0 {
		inner = user
	}
	written := compiled >= 0 && (inner < 0 || compiled < inner)
	if inner < 0 {
		if inner = compiled; inner < 0 {
			inner = first[Torch]
		}
	}
	if inner >= 0 {
		s.Line = v.model(frames[inner])
	}
	if user >= 0 && user != inner {
		s.CalledFrom = v.model(frames[user])
	}
	if s.Op = v.Op(frames); s.Op == "" && written {
		s.Op = "torch.compile"
	}
	return s
}

// model is the line of the model that torch.fx generated a line for, the line itself
// where it is no such line.
func (v *View) model(id snapshot.FrameID) Line {
	if v.s.Frames[id].FX != 0 {
		trace := strings.TrimRight(v.FX(id).Trace, "\n")
		if at := strings.LastIndex("\n"+trace, "\n  File \""); at >= 0 {
			if file, line, function, ok := traceline.Read(trace[at:]); ok {
				return Line{function, file, int(line)}
			}
		}
	}
	return v.Line(id)
}

// innermost is where each owner's first frame is, -1 for none.
func (v *View) innermost(frames []snapshot.FrameID) [Internal + 1]int {
	first := [...]int{User: -1, Library: -1, Compiled: -1, Torch: -1, Internal: -1}
	for i, f := range frames {
		o := v.frames[f].owner
		if o == Library && (first[User] >= 0 || plumbing[v.s.String(v.s.Frames[f].Function)]) {
			continue // a library that calls the program, or says nothing
		}
		if first[o] < 0 {
			first[o] = i
		}
	}
	return first
}

// plumbing are wrappers in libraries that say nothing about what was done.
var plumbing = map[string]bool{"wrapper": true, "wrapped": true, "inner": true, "_wrapped": true, "decorate_context": true,
	"new_forward": true}

// Op is the innermost autograd node of a stack's frames, else their innermost operator.
func (v *View) Op(frames []snapshot.FrameID) string {
	op := ""
	for _, f := range frames {
		if v.frames[f].language == Python {
			continue
		}
		name := v.s.String(v.s.Frames[f].Function)
		if node, ok := strings.CutPrefix(name, "torch::autograd::generated::"); ok {
			if node, _, ok := strings.Cut(node, "::apply"); ok {
				return node
			}
		}
		if strings.HasPrefix(name, "torch::autograd::AccumulateGrad::apply") {
			return "AccumulateGrad"
		}
		if op != "" {
			continue
		}
		if rest, ok := strings.CutPrefix(name, "at::_ops::"); ok {
			if base, _, ok := strings.Cut(rest, "::"); ok && !allocators[base] {
				op = "aten::" + base
			}
		}
	}
	return op
}

// allocators are operators that only make room for another one's result.
var allocators = map[string]bool{"empty": true, "empty_strided": true, "empty_like": true, "empty_memory_format": true,
	"resize_": true, "new_empty": true, "new_empty_strided": true}

// Recorded says which languages the stacks of a device's allocations have: "all",
// "python" or "none".
func (v *View) Recorded(d *snapshot.Device) string {
	seen := make([]bool, v.s.NumStacks())
	for _, id := range d.Events.Stack {
		seen[id] = true
	}
	for i := range d.Segments {
		for _, b := range d.Segments[i].Blocks {
			seen[b.Stack] = true
		}
	}
	some := "none"
	for id := 1; id < len(seen); id++ {
		if !seen[id] {
			continue
		}
		some = "python"
		for _, f := range v.s.Stack(snapshot.StackID(id)) {
			if v.frames[f].language == CPP {
				return "all"
			}
		}
	}
	return some
}
