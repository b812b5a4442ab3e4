package redact

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pattern"
)

// slashed is a path in lower case (ASCII, so that places stay the same) with
// forward slashes.
func slashed(file string) string {
	b := []byte(file)
	for i, c := range b {
		switch {
		case c == '\\':
			b[i] = '/'
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// file is a source file's pseudonym. What lies in a well-known package or in
// Python's own library keeps its name below that; ok tells so. Whose code a
// file is can be told from the pseudonym as from the path.
func (r *Redactor) file(file string) (to string, ok bool) {
	switch {
	case file == "" || file == "??":
		return file, true
	case strings.HasPrefix(file, "<"):
		return r.angled(file)
	}
	low := "/" + slashed(file) // places in it are one more than in file
	if frames.Generated(file) {
		return r.name("dir", path.Dir(low)) + "/torchinductor_user/" + r.leaf(file), false
	}
	for _, mark := range []string{"/site-packages/", "/dist-packages/", "-packages/torch/"} {
		i := strings.LastIndex(low, mark)
		if i < 0 {
			continue
		}
		at := i + len(mark) - 1
		if mark == "-packages/torch/" {
			rest, ok := r.within(file[at:])
			return r.name("dir", file[:i]) + "/other-packages/torch/" + rest, ok
		}
		pkg, rest, _ := strings.Cut(strings.ReplaceAll(file[at:], `\`, "/"), "/")
		if name, _, _ := strings.Cut(pkg, "."); packages()[name] {
			below, ok := r.within(file[at+len(pkg):])
			return r.folder(file[:i]) + file[i:at] + pkg + below, ok
		}
		return r.folder(file[:i]) + file[i:at] + r.below(pkg, rest), false
	}
	for _, mark := range []string{"/lib/python3", "/lib/python2", "/lib64/python3"} {
		if i := strings.LastIndex(low, mark); i >= 0 {
			return r.ownLibrary(file, i, i+len(mark)-2)
		}
	}
	if i := strings.Index(low, "/lib/"); i > 2 && low[2] == ':' && strings.Contains(low[:i], "python") {
		rest := strings.ReplaceAll(file[i+4:], `\`, "/")
		if r.isStdlib(rest) {
			return file[:2] + `\` + r.name("dir", file[:i-1]) + `\python\Lib\` + file[i+4:], true
		}
		return file[:2] + `\` + r.name("dir", file[:i-1]) + `\python\Lib\` + r.leaf(rest), false
	}
	for _, mark := range []string{"/.triton/", "/lib/multiprocessing/"} {
		if strings.Contains(low, mark) {
			return r.name("dir", path.Dir(low)) + mark + r.leaf(file), false
		}
	}
	if to, ok := r.checkout(file, low); to != "" {
		return to, ok
	}
	return r.plain(file, low)
}

// within is what lies in a public package. Users put files there, too: a name that no
// package is known to have becomes a pseudonym.
func (r *Redactor) within(rest string) (to string, ok bool) {
	sep := "/"
	if !strings.Contains(rest, "/") {
		sep = `\`
	}
	names := strings.Split(rest, sep)
	ok = true
	for i, name := range names {
		last := i == len(names)-1
		switch {
		case name == "", fileNames()[plainFile(name)], parts()[name], last && library().MatchString(name):
		case last:
			names[i], ok = r.leaf(name), false
		default:
			names[i], ok = r.name("dir", name), false
		}
	}
	return strings.Join(names, sep), ok
}

// plain is a file of which nothing is known.
func (r *Redactor) plain(file, low string) (string, bool) {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	dir := file[:max(0, len(file)-len(base))]
	if library().MatchString(base) { // C libraries and the interpreter
		bin := ""
		if strings.Contains(low, "/bin/") {
			bin = "bin/"
		}
		return r.folder(dir) + bin + base, true
	}
	if i := strings.Index(low, "/python-3."); i >= 0 && sourceOfPython().MatchString(file[i:]) {
		return r.folder(file[:i]) + file[i:], true
	}
	to := r.leaf(file)
	if strings.Contains(low, "/bin/") {
		to = "bin/" + to
	}
	return r.folder(dir) + to, false
}

// library are shared objects and executables that everybody has.
var library = pattern.Of(`^(lib(torch|torch_cpu|torch_cuda|torch_cuda_linalg|torch_python|torch_global_deps|c10|c10_cuda|` +
	`python[23]|python[23]\.[0-9]+[a-z]?|cuda|cudart|cublas|cublasLt|cudnn|cudnn_[a-z_]+|nccl|nvrtc|cupti|stdc\+\+|c|m|` +
	`pthread|gomp|gcc_s|dl|rt)(-[0-9a-f.]+)?\.(so|dll|dylib)[0-9.]*|python[0-9.]*|ld-linux[a-z0-9_-]*\.so[0-9.]*|crtstuff\.c|` +
	`_C\.(cpython[a-z0-9_-]*\.)?(so|pyd))$`)

var sourceOfPython = pattern.Of(`^[Pp]ython-3\.[0-9.rcab]+/(Objects|Python|Modules|Parser|Programs|Include)/[\w./]+$`)

// ownLibrary is a file below lib/pythonX.Y without site-packages; the version
// ends at the next slash.
func (r *Redactor) ownLibrary(file string, lib, version int) (string, bool) {
	end := strings.IndexAny(file[version:], `/\`)
	if end < 0 || !pythonVersion().MatchString(file[version:version+end]) {
		return r.folder(file[:lib]) + "lib/python3/" + r.leaf(file), false
	}
	rest := file[version+end+1:]
	head := r.folder(file[:lib]) + file[lib:version+end+1]
	if r.isStdlib(strings.ReplaceAll(rest, `\`, "/")) {
		return head + rest, true
	}
	return head + r.leaf(rest), false
}

var pythonVersion = pattern.Of(`^[0-9.]{0,6}t?$`)

func (r *Redactor) isStdlib(rest string) bool {
	module, _, _ := strings.Cut(rest, "/")
	if !stdlib()[strings.TrimSuffix(module, ".py")] {
		return false
	}
	_, ok := r.within(rest)
	return ok
}

// checkouts are packages that are often run from a source tree.
var checkouts = []string{"/torch/", "/transformers/", "/accelerate/", "/deepspeed/", "/megatron/", "/apex/", "/bitsandbytes/",
	"/lightning/", "/pytorch_lightning/"}

// checkout is a file below a package's folder, "" when it is none. Names that
// the package isn't known to have become pseudonyms.
func (r *Redactor) checkout(file, low string) (to string, ok bool) {
	for _, mark := range checkouts {
		i := strings.Index(low, mark)
		if i < 0 {
			continue
		}
		rest := strings.Split(strings.ReplaceAll(file[i+len(mark)-1:], `\`, "/"), "/")
		known := 0
		for known < len(rest) && parts()[rest[known]] {
			known++
		}
		if known == len(rest) { // a project of one's own may have such names, too: only torch's are sure
			return r.folder(file[:i]) + file[i:], mark == "/torch/" && known > 1 && rest[0] != "utils"
		}
		if mark != "/torch/" || known == 0 {
			continue
		}
		// Whose code it is depends on torch's folder: keep that much.
		return r.folder(file[:i]) + "torch/" + strings.Join(rest[:known], "/") + "/" + r.leaf(rest[len(rest)-1]), false
	}
	return "", false
}

// folder stands for what lies above: "" for nothing, itself for places that
// every machine has, else one word for all of it. It ends with a slash.
func (r *Redactor) folder(dir string) string {
	clean := strings.TrimRight(strings.ReplaceAll(dir, `\`, "/"), "/")
	switch clean {
	case "":
		return strings.ReplaceAll(dir, `\`, "/")
	case "/usr", "/usr/local", "/opt/conda":
		return clean + "/"
	}
	return r.name("dir", clean) + "/"
}

// below is what lies in a package that isn't known.
func (r *Redactor) below(pkg, rest string) string {
	if rest == "" {
		return r.leaf(pkg)
	}
	return r.name("pkg", pkg) + "/" + r.leaf(rest)
}

// endings are what the names of files may go on ending with.
var endings = wordSet(`.py .pyx .ipynb .c .cc .cpp .cxx .cu .cuh .h .hh .hpp .inl .tcc .so .pyd .dll .dylib .hip .S .s .o
	.pickle .pkl .gz .zst .zip .json .log .txt .csv .xml .pt .bin .safetensors .jsonl .out .err .yaml .html .md`)

// leaf is a file's last element: its name depends on nothing above it, so that
// a file is known again under another folder.
func (r *Redactor) leaf(file string) string {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	if base == "__init__.py" || base == "__main__.py" {
		return base
	}
	stem, ending := base, ""
	if i := strings.Index(base, ".so."); i > 0 {
		stem, ending = base[:i], ".so"
	}
	for ext := path.Ext(stem); stem != ext && endings()[ext]; ext = path.Ext(stem) {
		stem, ending = strings.TrimSuffix(stem, ext), ext+ending
	}
	return r.name("file", stem) + ending
}

// angled are names of code that lies in no file.
func (r *Redactor) angled(file string) (string, bool) {
	if m := frozen().FindStringSubmatch(file); m != nil {
		module, _, _ := strings.Cut(m[1], ".")
		if stdlib()[module] {
			return file, true
		}
	}
	if m := generated().FindString(file); m != "" {
		return m, false
	}
	for _, mark := range []string{"<ipython-input", "<stdin", "<ipython"} {
		if strings.HasPrefix(strings.ToLower(file), mark) {
			return mark + "-" + r.name("file", file) + ">", false
		}
	}
	return "<" + r.name("file", file) + ">", false
}

var (
	frozen    = pattern.Of(`^<frozen ([a-z_.]+)>$`)
	generated = pattern.Of(`^<(string|stdin|eval_with_key|__array_function__ internals|generated|unknown|` +
		`decorator-gen-[0-9]+)>(\.[0-9]+)?$`)
)

// Input is a path that the user gave. Usual names are kept, and the rank.
func (r *Redactor) Input(file string) string {
	if file == "-" || file == "standard input" || file == "" {
		return file
	}
	clean := strings.ReplaceAll(file, `\`, "/")
	base := path.Base(clean)
	to := r.leaf(base)
	if usualInput().MatchString(base) {
		to = base
	} else if m := rank().FindString(base); m != "" {
		to = r.leafWith(base, m)
	}
	if dir := path.Dir(clean); dir != "." {
		return r.folder(dir) + to
	}
	return to
}

var (
	usualInput = pattern.Of(`^(snapshot|oom|memory|dump|log|train|config|nvidia-smi|trace|labels)(_(all|named|python|none|` +
		`late|ring|[0-9]{1,4}))?(_?rank_?[0-9]{1,5})?\.(pickle|pkl|json|log|txt|csv|xml)(\.gz|\.zst|\.zip)?$`)
	rank = pattern.Of(`rank_?[0-9]{1,5}`)
)

// leafWith is a leaf that goes on naming a rank.
func (r *Redactor) leafWith(base, rank string) string {
	stem, ending, _ := strings.Cut(r.leaf(base), ".")
	if ending != "" {
		ending = "." + ending
	}
	return stem + "_" + rank + ending
}
