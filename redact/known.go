package redact

import (
	"embed"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/pattern"
)

//go:embed known/*.txt
var lists embed.FS

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
