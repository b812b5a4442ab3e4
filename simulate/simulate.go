// Package simulate says how a program is run on a GPU that isn't there: which one, what of the machine makes that
// impossible, and what the environment must hold for it.
//
//	s, err := simulate.Read("A100 40GB:2")
//	if err == nil {
//		err = s.Check(simulate.Here)
//	}
//
// PyTorch's own code runs, on a library that answers for CUDA (package device) and computes nothing. What the recorder
// does in the program for it is in python/vramscope/_hook/simulated.py.
package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/gpus"
)

// Setting is the machine that a program is to find, and how far it runs.
type Setting struct {
	GPU   gpus.GPU
	Count int    // of GPUs
	Steps int    // of the optimizer, after which the program is ended; 0: at its own end
	Sizes string // what is assumed of sizes that depend on data: a word of Assumptions, or a share
	// NoWeights has checkpoints taken by their headers.
	NoWeights bool
	World     int // ranks that the program believes in; 0: those that it starts
	Rank      int // which of them it is
	Context   int64
	Other     int64 // bytes that other processes hold
}

// Assumptions are the words for sizes that depend on data.
var Assumptions = []string{"even", "most", "none"}

const (
	defaultSteps = 3
	maxDevices   = 16
	maxWorld     = 1 << 20
)

// Read reads GPU[:COUNT].
func Read(text string) (*Setting, error) {
	name, count := text, 1
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		n, err := strconv.Atoi(strings.TrimSpace(text[at+1:]))
		if err != nil || n < 1 || n > maxDevices {
			return nil, fmt.Errorf("%q: behind the colon stands how many GPUs there are, 1 to %d", text[at+1:], maxDevices)
		}
		name, count = text[:at], n
	}
	g, err := gpus.Find(strings.TrimSpace(name))
	if err != nil {
		return nil, err
	}
	if !g.NVIDIA() {
		return nil, fmt.Errorf("%s: CUDA alone can be simulated", g.Name)
	}
	return &Setting{GPU: g, Count: count, Steps: defaultSteps, Sizes: Assumptions[0], Context: g.Context}, nil
}

// CheckNumbers refuses what can't be meant.
func (s *Setting) CheckNumbers() error {
	if s.World < 0 || s.World > maxWorld || s.Rank < 0 || s.World == 0 && s.Rank > 0 || s.World > 0 && s.Rank >= s.World {
		return fmt.Errorf("--rank %d of --world-size %d: from 0 to one less than the world's size", s.Rank, s.World)
	}
	if s.World > 0 && s.Count > 1 {
		return fmt.Errorf("--world-size is for one rank on one GPU: leave the count of --simulate out, or start all ranks by " +
			"torchrun")
	}
	share, err := strconv.ParseFloat(s.Sizes, 64)
	known := err == nil && share >= 0 && share <= 1
	for _, word := range Assumptions {
		known = known || s.Sizes == word
	}
	if !known {
		return fmt.Errorf("--assume %q: %s, or a share from 0 to 1", s.Sizes, strings.Join(Assumptions, ", "))
	}
	return nil
}

// total is the memory that CUDA tells, in whole pages.
func (s *Setting) total() int64 { return s.GPU.Capacity / page * page }

const page = 64 << 10

// Device is the library's setting.
func (s *Setting) Device() string {
	const form = "name=%s;cc=%d.%d;sms=%d;l2=%d;total=%d;context=%d;count=%d;other=%d"
	return fmt.Sprintf(form, s.GPU.Device, s.GPU.Major, s.GPU.Minor,
		s.GPU.SMs, s.GPU.L2, s.total(), s.Context, s.Count, s.Other)
}

// Variable is one of the environment's.
type Variable struct{ Name, Value string }

// Names of the variables that the library and the recorder read.
const (
	variableDevice  = "VRAMSCOPE_SIMULATED_GPU"
	variableAccount = "VRAMSCOPE_SIMULATED_ACCOUNT"
	variableBooks   = "VRAMSCOPE_SIMULATED_BOOKS"
	variableOptions = "VRAMSCOPE_SIMULATE"
)

// Environment has a program find the GPU: library is that of package device, caches a folder for what compilers make for it,
// which no real GPU should meet, and account the file that the library writes in the end. Beside it lies the one by which
// processes see what others hold on the same GPU.
func (s *Setting) Environment(library, caches, account string, lookup func(string) (string, bool)) []Variable {
	before := func(name, first, between string) Variable {
		if rest, ok := lookup(name); ok && rest != "" {
			first += between + rest
		}
		return Variable{name, first}
	}
	folder := filepath.Dir(library)
	v := []Variable{
		before("LD_PRELOAD", library, ":"),
		before("LD_LIBRARY_PATH", folder, ":"),
		{variableDevice, s.Device()},
		{variableAccount, account},
		{variableBooks, filepath.Join(filepath.Dir(account), "books")},
		{variableOptions, s.options()},
		{"TRITON_LIBCUDA_PATH", folder},
		{"TRITON_CACHE_DIR", filepath.Join(caches, "triton")},
		{"TORCHINDUCTOR_CACHE_DIR", filepath.Join(caches, "inductor")},
	}
	if s.World > 0 {
		v = append(v, s.alone()...)
	}
	if _, given := lookup("PYTHONHASHSEED"); !given {
		v = append(v, Variable{"PYTHONHASHSEED", "0"}) // the order of sets decides the order of frees
	}
	return v
}

// alone are a launcher's variables for a rank whose others aren't there.
func (s *Setting) alone() []Variable {
	return []Variable{{"WORLD_SIZE", strconv.Itoa(s.World)}, {"RANK", strconv.Itoa(s.Rank)}, {"LOCAL_RANK", "0"},
		{"LOCAL_WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}}
}

// options are what the recorder reads.
func (s *Setting) options() string {
	weights := 1
	if s.NoWeights {
		weights = 0
	}
	return fmt.Sprintf("gpu=%s,major=%d,minor=%d,steps=%d,assume=%s,weights=%d,world=%d,rank=%d",
		strings.ReplaceAll(s.GPU.Name, ",", " "), s.GPU.Major, s.GPU.Minor, s.Steps, s.Sizes, weights, s.World, s.Rank)
}

// Caches is the folder of the user's cache that simulations share.
func Caches() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "vramscope", "simulated")
	return dir, os.MkdirAll(dir, 0o700)
}
