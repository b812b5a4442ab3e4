package diagnose

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/source"
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
