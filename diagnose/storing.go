package diagnose

import (
	"fmt"
	"path"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/source"
	"github.com/vramscope/vramscope/timeline"
)

// maxShown bounds a line of code that a report quotes, in bytes.
const maxShown = 160

// stored finds the statement that keeps what a leak holds.
func (e *examination) stored(l *classify.Leak, x *report.Leak) {
	if e.options.Code == nil || !l.Defect || len(l.Path) == 0 {
		return
	}
	s := source.Search{Open: e.code, Loop: l.Loop, Graph: l.Kind == classify.RetainedGraph, OfGrads: l.OfBackward,
		OfObject: l.Category == classify.OptimizerState}
	for _, line := range l.Path {
		s.Path = append(s.Path, source.Call{File: line.File, Function: line.Function, Line: line.Line})
	}
	if len(x.Holders) > 0 && !x.Holders[0].Cycle {
		s.Container = lastName(x.Holders[0].Path)
	}
	p, ok := s.Find()
	if !ok {
		return
	}
	code := p.Code[:min(len(p.Code), maxShown)]
	x.StoredFile, x.StoredLine, x.StoredCode = &p.File.Name, &p.Line, &code
	edit, why := p.Fix(e.kept(l))
	if why == "" {
		x.FixCode = edit.Inline()
	}
	switch {
	case e.options.Patch == nil:
	case why == "":
		e.options.Patch.Add(edit)
	default:
		why = fmt.Sprintf("%s:%d: %s", path.Base(p.File.Name), p.Line, why)
		e.options.Patch.Untold = append(e.options.Patch.Untold, why)
	}
}

// kept is what a change of the statement needs to know.
func (e *examination) kept(l *classify.Leak) source.Kept {
	const number = 512 // bytes, what the allocator rounds a scalar to
	k := source.Kept{Object: l.Category == classify.OptimizerState, Graph: l.Kind == classify.RetainedGraph,
		Forward: l.ForwardOnly || l.Untrained}
	inWindow := 0
	for _, id := range l.Allocations {
		k.Scalar = k.Scalar || e.T.Allocated[id] <= number
		if e.T.Born[id] != timeline.Never {
			inWindow++
		}
	}
	k.One = l.Steps > 0 && inWindow == l.Steps
	return k
}

// code is a file of the program, read once.
func (e *examination) code(file string) *source.File {
	if f, known := e.files[file]; known {
		return f
	}
	if e.files == nil {
		e.files = map[string]*source.File{}
	}
	var f *source.File
	if strings.HasSuffix(path.Base(file), ".py") {
		if text, ok := e.options.Code(file); ok {
			f = source.Parse(file, text)
		}
	}
	e.files[file] = f
	return f
}

// lastName is the last name of a variable's path, as preds of tuner.tracker.preds; "" where it has none
// that a program would write.
func lastName(path string) string {
	path = strings.TrimRight(path, "[]0123456789")
	name := path[strings.LastIndexByte(path, '.')+1:]
	if name == "" || strings.ContainsAny(name, "()[]<>'\" ") {
		return ""
	}
	return name
}
