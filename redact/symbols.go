package redact

import (
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
)

// frame gives a frame's function and file.
func (r *Redactor) frame(s *snapshot.Snapshot, v *frames.View, id snapshot.FrameID) (function, file string) {
	f := &s.Frames[id]
	from, path := s.String(f.Function), s.String(f.File)
	if v.Language(id) == frames.Python {
		file, known := r.file(path)
		if known || commonFunction(from) {
			return from, file
		}
		return r.name("fn", from), file
	}
	return r.native(from, path)
}

// fx keeps what kind of node of a torch.fx graph a frame runs; its notes and its code
// are gone.
func (r *Redactor) fx(fields [5]string) [5]string {
	op, name, target := fields[0], fields[1], fields[2]
	if op != "" && !nodeOps()[op] {
		op = r.name("op", op)
	}
	if name != "" {
		name = r.Metadata(name)
	}
	if target != "" {
		target = r.Metadata(target)
	}
	return [5]string{op, name, target}
}

// nodeOps are the kinds of nodes of torch/fx/node.py.
var nodeOps = wordSet("placeholder get_attr call_function call_module call_method output root")

// native is a frame of compiled code.
func (r *Redactor) native(function, file string) (string, string) {
	known, torch := symbol(function)
	to, ours := r.file(file)
	if torch && known && !strings.ContainsAny(file, `/\`) && !ours && sourceName().MatchString(file) {
		to = file // torch's own binaries name their sources without a folder
	}
	switch {
	case known, ours && file != "" && file != "??" && plainName().MatchString(function), function == "" || function == "??":
		return function, to
	}
	return compiled(r.name("fn", function), function), to
}

// compiled keeps what shows that a name is of compiled code, as its file may not.
func compiled(name, function string) string {
	switch {
	case strings.Contains(function, "::") || strings.Contains(function, "("):
		return name + "()"
	case strings.HasPrefix(function, "_Py"), strings.HasPrefix(function, "Py"):
		return "Py_" + name
	}
	return name
}

var (
	sourceName = pattern.Of(`^[A-Za-z0-9_.-]+\.(c|cc|cpp|cu|cuh|h|hpp)$`)
	plainName  = pattern.Of(`^[\w.]+$`)
	identifier = pattern.Of(`[A-Za-z_$~][\w$]*`)
)

// spaces are namespaces of public code; those that are true are torch's.
var spaces = map[string]bool{"at": true, "c10": true, "torch": true, "c10d": true, "caffe2": true, "pytorch_flash": true,
	"std": false, "pybind11": false,
	"__gnu_cxx": false, "cutlass": false, "thrust": false, "cub": false, "cuda": false, "boost": false, "fbgemm": false,
	"fbgemm_gpu":             false,
	"PyTorchMemEffAttention": true, "cute": false, "tensorpipe": false, "gloo": false, "google": false, "absl": false,
	"nvfuser": false, "ska": false, "fmt": false, "ray": false}

// language are words of C++ itself and of how its symbols are printed.
var language = known("language")

// isPublic reports whether a word is known in names of public compiled code: there where
// it stands, within a namespace or in none.
func isPublic(word string, scoped bool) bool {
	if scoped {
		return symbolWords()[word] || symbolWords()["="+word]
	}
	return symbolWords()["="+word]
}

// symbol reports whether a compiled function's name holds only public names, which are
// listed, and whether it is torch's. A name of another one anywhere in it, in a public
// namespace or as a template's parameter perhaps, makes it unknown.
func symbol(s string) (known, torch bool) {
	seen := false
	for _, at := range identifier().FindAllStringIndex(s, -1) {
		word := s[at[0]:at[1]]
		switch {
		case at[0] > 0 && (units.IsDigit(s[at[0]-1])):
			continue // the unit of a number, such as 4ul
		case at[0] > 1 && s[at[0]-2:at[0]] == "::" && seen:
			if !isPublic(word, true) {
				return false, false
			}
			continue // goes on
		case at[0] > 0 && s[at[0]-1] == '.' && seen && language()[word]:
			continue
		case language()[word]:
			continue
		}
		isTorch, public := spaces[word]
		scoped := strings.HasPrefix(s[at[1]:], "::")
		switch {
		case scoped && public, at[0] == 0 && word == "at" && strings.HasPrefix(s, "at::"):
			torch = torch || !seen && isTorch
		case word == "at" && strings.HasPrefix(s[at[1]:], " "): // "{lambda at file:line}" names a file
			return false, false
		case !scoped && isPublic(word, false):
		default:
			return false, false
		}
		seen = true
	}
	return seen, torch
}
