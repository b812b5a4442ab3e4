package redact

import (
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/snapshot"
)

// frame gives a frame's function and file.
func (r *Redactor) frame(s *snapshot.Snapshot, v *frames.View, id snapshot.FrameID) (function, file, fx string) {
	f := &s.Frames[id]
	from, path := s.String(f.Function), s.String(f.File)
	if v.Language(id) == frames.Python {
		file, known := r.file(path)
		if known || commonFunction(from) {
			return from, file, ""
		}
		return r.name("fn", from), file, ""
	}
	function, file = r.native(from, path)
	return function, file, ""
}

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

// interpreter are functions of the C library, CPython and torch's bindings.
var interpreter = pattern.Of(`^(_?Py(Object|Eval|Run|Number|Err|Iter|Sequence|Mapping|Descr|Type|CFunction|CMethod|Method|` +
	`Unicode|Module|Weakref|Callable|Thread|Interpreter|Mem|Frame|Function|Stack|Set|Dict|List|Tuple|Long|Float|Bool|Bytes|` +
	`Gen|GILState|Vectorcall|Code|Import|Capsule|Context|Cell|Slice|File|Arg|Async|Coro|Buffer|Memory|State|TraceBack|` +
	`Sys)_[A-Za-z_]+` +
	`|_PyObject|_PyEvalFrameClearAndPop|_?Py_(BytesMain|RunMain|Main|Dealloc|DECREF|CheckFunctionResult|c_pow|HashPointer|` +
	`[A-Z][A-Za-z]+|dg_strtod)|PyInit__[a-z]+|TH[PC]P?[A-Z][A-Za-z_]*|THP_[A-Za-z_]+` +
	`|dynamo_(_custom_eval_frame|eval_custom_code|eval_custom_code_impl|custom_eval_frame_shim)|pybind11_(object|meta)_[a-z]+|` +
	`__libc_(start_main|start_call_main|start_main_impl|init_first)|__clone3?|clone3|_start|start_thread|main` +
	`|execute_native_thread_routine|thread_run|pythread_wrapper|slot_(tp|nb|sq|mp)_[a-z_]+|(method|` +
	`cfunction)_vectorcall(_[A-Z_]+)?|cfunction_call|type_call|partial_call` +
	`|(subtype|tuple|list|dict|frame|func|meth|cell|gen|set|object|odict|tb|BaseException)_?dealloc|(enum|zip|map|filter|` +
	`gen)_(iter)?next|builtin_(next|sum_impl|exec|getattr|isinstance)` +
	`|pymain_(main|run_file_obj|run_file|run_module|run_python)|pyrun_(file|simple_file)|run_(mod|eval_code_obj)|(binary|` +
	`ternary)_i?op1?|do_(call_core|richcompare)|vectorcall_(maybe|method)|callmethod|dictkeys_decref|` +
	`infinite_lru_cache_wrapper|object_recursive_isinstance|pthread_[a-z_]+` +
	`|cu(da|blas|blasLt|dnn|fft|sparse|solver|Mem|Launch|Stream|Event|Ctx|Graph|Module|Device)[A-Z]?[A-Za-z0-9_]*|` +
	`nccl[A-Z][A-Za-z]+)$`)

// symbol reports whether a compiled function's name holds only public names, and
// whether it is torch's. A name of another one anywhere in it, as a template's
// parameter perhaps, makes it unknown.
//
// complexity: one branch for each place where a word may stand in a symbol
func symbol(s string) (known, torch bool) {
	seen := false
	for _, at := range identifier().FindAllStringIndex(s, -1) {
		word := s[at[0]:at[1]]
		switch {
		case at[0] > 0 && (isDigit(s[at[0]-1])):
			continue // the unit of a number, such as 4ul
		case at[0] > 1 && s[at[0]-2:at[0]] == "::" && seen:
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
		case !scoped && interpreter().MatchString(word):
		default:
			return false, false
		}
		seen = true
	}
	return seen, torch
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
