package frames

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/snapshot"
)

// sources are file name endings of compiled code.
var sources = map[string]bool{".c": true, ".cc": true, ".cpp": true, ".cxx": true, ".cu": true, ".cuh": true, ".h": true,
	".hh": true, ".hpp": true, ".inl": true, ".tcc": true, ".so": true, ".pyd": true, ".dll": true, ".dylib": true, ".hip": true,
	".S": true, ".s": true}

// languageOf tells by the file name, and where that is missing by the function:
// C++ frames have no file ("??" or none), a source file, or their library's,
// as the symbolizer chose.
func languageOf(s *snapshot.Snapshot, f *snapshot.Frame) Language {
	file, function := s.String(f.File), s.String(f.Function)
	ext := path.Ext(file)
	switch {
	case ext == ".py" || ext == ".pyx" || ext == ".ipynb":
		return Python
	case strings.HasPrefix(file, "<"): // <string>, <frozen …>, <eval_with_key>.N, <ipython-input-…>
		return Python
	case sources[ext] || strings.Contains(file, ".so."):
		return CPP
	case file == "" || file == "??":
		if file == "" && function == "" {
			return Other
		}
		return CPP
	case strings.Contains(function, "::") || strings.Contains(function, "("):
		return CPP
	case strings.Contains(file, "/bin/") || strings.HasPrefix(function, "_Py") || strings.HasPrefix(function, "Py") ||
		function == "_start" || strings.HasPrefix(function, "__libc"):
		return CPP // an executable: the interpreter's own frames
	case f.Line > 0: // a Python file without the usual ending
		return Python
	}
	return Other
}

// torchFolders are where torch's own Python code lives, in an installation or
// in a source tree.
var torchFolders = []string{"/torch/nn/", "/torch/autograd/", "/torch/optim/", "/torch/utils/", "/torch/_dynamo/",
	"/torch/_inductor/",
	"/torch/_functorch/", "/torch/distributed/", "/torch/cuda/", "/torch/amp/", "/torch/_tensor.py", "/torch/functional.py",
	"/torch/_ops.py", "/torch/fx/", "/torch/jit/", "/torch/_compile.py", "/torch/_refs/", "/torch/_prims",
	"/torch/_higher_order_ops/", "/torch/_library/", "/torch/hub.py",
	"/torch/serialization.py", "/torch/storage.py", "/torch/accelerator/", "/torch/xpu/", "/torch/_decomp/",
	"/torch/_subclasses/", "/vramscope_hook/", "/vramscope/_hook/"} // the last two stand before a simulated GPU's operators

// installed marks paths of packages and of Python's own library.
var installed = []string{"/site-packages/", "/dist-packages/", "/lib/python2", "/lib/python3", "/lib64/python3",
	"/lib/multiprocessing/", "/.triton/"}

// Notebook reports whether a file is a notebook's cell: its name is another one when the cell was changed, or runs again.
func Notebook(file string) bool {
	return strings.HasPrefix(file, "<ipython-input") || strings.Contains(file, "/ipykernel_")
}

// Generated reports whether torch.compile wrote a file. Those lie in a folder
// torchinductor_USER, or, where another one was set, are still named "c" and 51
// characters of a hash, in a folder of the second and third
// (torch/_inductor/codecache.py).
func Generated(file string) bool {
	return generated(strings.ToLower(strings.ReplaceAll(file, `\`, "/")))
}

func generated(file string) bool {
	if strings.HasPrefix(file, "torchinductor_") || strings.Contains(file, "/torchinductor_") {
		return true
	}
	dir, name := path.Split(file)
	stem, ok := strings.CutSuffix(name, ".py")
	return ok && len(stem) == 52 && stem[0] == 'c' && strings.Trim(stem, hashed) == "" && path.Base(dir) == stem[1:3]
}

const hashed = "abcdefghijklmnopqrstuvwxyz234567" // the digits of base32

func ownerOf(file string, language Language) Owner {
	if language != Python {
		return Internal
	}
	file = strings.ToLower(strings.ReplaceAll(file, `\`, "/"))
	if strings.HasPrefix(file, "<") {
		if strings.HasPrefix(file, "<ipython") || strings.HasPrefix(file, "<stdin") {
			return User
		}
		return Torch // code that torch made or ran from text
	}
	if generated(file) {
		return Compiled
	}
	rooted := "/" + file
	if strings.Contains(file, "-packages/torch/") || strings.HasPrefix(file, "torch/") {
		return Torch
	}
	for _, folder := range torchFolders {
		if strings.Contains(rooted, folder) {
			return Torch
		}
	}
	for _, mark := range installed {
		if strings.Contains(rooted, mark) {
			return Library
		}
	}
	// Windows keeps Python's own library in a folder Lib beside the executable.
	if i := strings.Index(file, "/lib/"); i > 1 && file[1] == ':' && strings.Contains(file[:i], "python") {
		return Library
	}
	return User
}

// IsVariable reports whether a name is a variable's path, from the main module or from a function's frame on.
func IsVariable(name string) bool {
	return strings.HasPrefix(name, "main.") || strings.Contains(name, "().")
}
