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

// stored names the statement that keeps what a leak holds, and what to write there instead.
func (e *examination) stored(l *classify.Leak, x *report.Leak, p *source.Place) {
	switch {
	case e.options.Code == nil:
		return
	case l.Kind == classify.GradientsKept:
		e.freed(l, x)
		return
	case l.Kind == classify.StaleOutputs:
		e.dropped(l, x)
		return
	case p == nil || x.Awaited:
		return
	}
	showPlace(x, p)
	kept := e.kept(l)
	x.Part = l.Kind == classify.GrowingList && (len(x.Holders) > 0 && x.Holders[0].IsPart() || p.IsPart())
	kept.Part = x.Part
	edit, why := p.Fix(kept)
	e.change(x, []source.Edit{edit}, why, fmt.Sprintf("%s:%d", path.Base(p.File.Name), p.Line))
}

// showPlace notes the statement that keeps a leak.
func showPlace(x *report.Leak, p *source.Place) {
	code := p.Code[:min(len(p.Code), maxShown)]
	x.StoredFile, x.StoredLine, x.StoredCode = &p.File.Name, &p.Line, &code
}

// storing is the statement that keeps what a defect holds, nil where none is sure; gradients that are zeroed and a step's outputs
// have none.
func (e *examination) storing(l *classify.Leak, x *report.Leak) *source.Place {
	if e.options.Code == nil || !l.Defect || len(l.Path) == 0 || l.Again > 0 || l.Kind == classify.GradientsKept ||
		l.Kind == classify.StaleOutputs {
		return nil
	}
	s := source.Search{Open: e.code, Path: calls(l), Loop: l.Loop, Graph: l.Kind == classify.RetainedGraph, OfGrads: l.OfBackward,
		OfObject: l.Category == classify.OptimizerState}
	if len(x.Holders) > 0 && !x.Holders[0].Cycle {
		s.Held(x.Holders[0].Path)
	}
	if p, ok := s.Find(); ok {
		return &p
	}
	return nil
}

// freed frees gradients that are zeroed in place, in the file that runs the optimizer.
func (e *examination) freed(l *classify.Leak, x *report.Leak) {
	if f := e.code(l.Near.File); f != nil {
		edits, why := source.Freed(f)
		e.change(x, edits, why, path.Base(f.Name))
	}
}

// dropped lets go of the variables that hold a step's outputs when it ends.
func (e *examination) dropped(l *classify.Leak, x *report.Leak) {
	s := source.Search{Open: e.code, Path: calls(l), Loop: l.Loop}
	if l.Loop >= 0 && l.Loop < len(l.Path) && e.code(l.Path[l.Loop].File) != nil {
		at := l.Path[l.Loop]
		edit, why := s.Drop()
		e.change(x, []source.Edit{edit}, why, fmt.Sprintf("%s:%d", path.Base(at.File), at.Line))
	}
}

// change notes changes of the program, or at a place why there are none.
func (e *examination) change(x *report.Leak, edits []source.Edit, why, at string) {
	var shown []string
	for _, edit := range edits {
		if why == "" {
			shown = append(shown, edit.Inline())
		}
	}
	x.FixCode = strings.Join(shown, "\n")
	switch {
	case e.options.Patch == nil:
	case why == "":
		for _, edit := range edits {
			e.options.Patch.Add(edit)
		}
	default:
		e.options.Patch.Untold = append(e.options.Patch.Untold, at+": "+why)
	}
}

// calls are the lines that led to what a leak keeps.
func calls(l *classify.Leak) (out []source.Call) {
	for _, line := range l.Path {
		out = append(out, source.Call{File: line.File, Function: line.Function, Line: line.Line})
	}
	return out
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
