package redact

import (
	"bufio"
	"compress/gzip"
	"embed"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/pattern"
)

//go:embed known/*.txt known/*.txt.gz
var lists embed.FS

// symbolWords are the words of which the names of public compiled code are made, those that
// stand in no namespace with "=" in front. known/generate.py makes the list.
var symbolWords = packedSet("symbols", func(word string) string { return word })

// fileNames are the files and folders of public Python packages and of Python's own
// library, compiled ones without what tells the interpreter that they are for.
// known/generate_files.py makes the list.
var fileNames = packedSet("files", plainFile)

// plainFile is a file's name without the interpreter's version.
func plainFile(name string) string {
	if strings.HasSuffix(name, ".so") {
		stem, _, _ := strings.Cut(name, ".")
		return stem + ".so"
	}
	return name
}

// packedSet are the words of a text that comes packed with the program, each as plain
// gives it.
func packedSet(name string, plain func(string) string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		packed, err := lists.Open("known/" + name + ".txt.gz")
		if err != nil {
			panic(err) // a broken build, found by any test
		}
		defer packed.Close()
		z, err := gzip.NewReader(packed)
		if err != nil {
			panic(err)
		}
		set := map[string]bool{}
		lines := bufio.NewScanner(z)
		for lines.Scan() {
			set[plain(lines.Text())] = true
		}
		if lines.Err() != nil {
			panic(lines.Err())
		}
		return set
	})
}

// known are the words of a text that comes with the program.
func known(name string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		text, err := lists.ReadFile("known/" + name + ".txt")
		if err != nil {
			panic(err) // a broken build, found by any test
		}
		return wordSet(string(text))()
	})
}

var (
	// packages are installed packages whose code is public.
	packages = known("packages")
	// stdlib are the modules of Python's own library.
	stdlib = known("stdlib")
	// parts are folders and files of packages that are often run from a
	// checkout, where a private file may lie beside them.
	parts = known("parts")
	// modelWords are parts of the names of modules and tensors that models share.
	modelWords = known("model")
	// optimizers are the classes in torch's own annotations.
	optimizers = known("optimizers")
	// options are the allocator's, in PYTORCH_CUDA_ALLOC_CONF and in what a
	// snapshot says of it.
	options = known("options")
	// commonFunctions are names of functions that tell nothing of the program:
	// anybody's, and those by which trainers' and optimizers' work is recognised.
	commonFunctions = known("functions")
)

// wordSet are the words of a text, told apart when they are first asked for.
func wordSet(text string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(text) {
			set[w] = true
		}
		return set
	})
}

var dunder = pattern.Of(`^__(init|new|call|enter|exit|del|iter|next|len|getitem|setitem|getattr|setattr|post_init|` +
	`torch_function|torch_dispatch)__$`)

func commonFunction(name string) bool { return commonFunctions()[name] || dunder().MatchString(name) }
