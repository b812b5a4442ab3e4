// Package run starts a program with a recorder in it, and gathers what was recorded.
//
//	r, err := run.Start(run.Options{Command: []string{"python", "train.py"}})
//	if err == nil {
//		result := r.Wait()
//		os.Exit(result.ExitCode)
//	}
//
// The program is started as it is: what reaches into it is the environment alone. Nothing
// of its arguments, output, exit code or signals is changed.
package run

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/simulate"
)

// Options say what is run, and how it is recorded.
type Options struct {
	Dir     string // "": a new one in the working folder
	Command []string
	Stacks  string        // all, python or none
	Ring    int64         // bytes of host memory for events and their dumps
	Steps   string        // A:B, or A: for events from there on
	Every   time.Duration // between dumps of what is held; 0: none
	Holders bool
	Live    bool   // somebody watches, on a terminal
	Ranks   string // 0,2-3; "": all

	Simulated *simulate.Setting // the GPU that isn't there; nil: the machine's own
	Library   string            // that answers for it
}

// DefaultRing holds 460,000 events with all their stacks.
const DefaultRing = 1 << 30

// Names of the variables by which the recorder is reached, as python/vramscope/_hook/options.py reads them.
const (
	variableRun     = "VRAMSCOPE_RUN"
	variableOptions = "VRAMSCOPE_OPTIONS"
	variablePath    = "PYTHONPATH"
	variableNames   = "TORCH_SYMBOLIZE_MODE" // how C++ frames get their names
)

// Check refuses options that can't be meant.
func (o *Options) Check() error {
	switch o.Stacks {
	case "all", "python", "none":
	default:
		return fmt.Errorf("--stacks %q: all, python or none", o.Stacks)
	}
	if o.Ring < 1<<20 {
		return fmt.Errorf("--ring %s: at least 1 MiB", units.Bytes(o.Ring))
	}
	if strings.Contains(o.Dir, "://") {
		return fmt.Errorf("-o %s: not a directory of this machine\n  Give one, and copy it when the program has ended", o.Dir)
	}
	if o.Every != 0 && o.Every < time.Second {
		return fmt.Errorf("--every %s: at least a second", o.Every)
	}
	if err := o.checkSteps(); err != nil {
		return err
	}
	for part := range strings.SplitSeq(o.Ranks, ",") {
		if first, last, err := span(part, "-"); o.Ranks != "" && (err != nil || last < first) {
			return fmt.Errorf("--ranks %q: numbers and ranges, as in 0,2-3", o.Ranks)
		}
	}
	return nil
}

// checkSteps refuses what is neither FIRST:LAST nor FIRST:.
func (o *Options) checkSteps() error {
	since, open := strings.CutSuffix(o.Steps, ":")
	first, last, err := span(since, ":")
	if o.Steps == "" {
		return nil
	}
	if err == nil && first >= 1 && last >= first && !(open && strings.Contains(since, ":")) {
		return nil
	}
	return fmt.Errorf("--steps %q: FIRST:LAST as in 3:5, or FIRST: as in 1000: alone", o.Steps)
}

// span reads two numbers, or one for both.
func span(text, between string) (first, last int, err error) {
	a, b, two := strings.Cut(text, between)
	first, err = strconv.Atoi(a)
	if last = first; two && err == nil {
		last, err = strconv.Atoi(b)
	}
	if err == nil && first < 0 {
		err = strconv.ErrRange
	}
	return first, last, err
}

// text is what the recorder reads.
func (o *Options) text() string {
	s := fmt.Sprintf("stacks=%s,ring=%d", o.Stacks, o.Ring)
	if since, open := strings.CutSuffix(o.Steps, ":"); open {
		s += ",since=" + since
	} else if o.Steps != "" {
		s += ",steps=" + o.Steps
	}
	if o.Every != 0 {
		s += fmt.Sprintf(",every=%g", o.Every.Seconds())
	}
	if o.Live {
		s += ",live=1"
	}
	if !o.Holders {
		s += ",holders=0"
	}
	if o.Ranks != "" {
		s += ",ranks=" + strings.ReplaceAll(o.Ranks, ",", "+")
	}
	return s
}

// Variable is one of the environment's.
type Variable struct{ Name, Value string }

// Environment are the variables that make a program record itself into a run's directory,
// whose hook lies where Place says. What PYTHONPATH held stays behind the hook.
func (o *Options) Environment(dir, hook string, lookup func(string) (string, bool)) []Variable {
	if before, ok := lookup(variablePath); ok && before != "" {
		hook += string(os.PathListSeparator) + before
	}
	v := []Variable{{variableRun, dir}, {variableOptions, o.text()}, {variablePath, hook}}
	_, names := lookup(variableNames)
	_, disabled := lookup("TORCH_DISABLE_ADDR2LINE")
	if !names && !disabled {
		v = append(v, Variable{variableNames, namesOn(runtime.GOARCH)})
	}
	return v
}

// Place is the folder of a run's directory for PYTHONPATH, where one character ends an entry.
func Place(dir string) (string, error) {
	hook := filepath.Join(dir, hookFolder)
	if strings.ContainsRune(hook, os.PathListSeparator) {
		return "", fmt.Errorf("%s: %q in a directory's path ends an entry of %s\n  Give -o a directory without it",
			dir, os.PathListSeparator, variablePath)
	}
	return hook, nil
}

// link is Place for as long as the program runs: a link leads to a folder that has no place of its own.
func link(dir string) (string, func(), error) {
	hook, refused := Place(dir)
	if refused == nil {
		return hook, func() {}, nil
	}
	temporary, err := os.MkdirTemp("", "vramscope-")
	if err != nil {
		return "", nil, refused
	}
	over := func() { os.RemoveAll(temporary) }
	at := filepath.Join(temporary, hookFolder)
	if err = os.Mkdir(filepath.Dir(at), 0o700); err == nil {
		err = os.Symlink(filepath.Join(dir, hookFolder), at)
	}
	if err == nil {
		hook, err = Place(temporary)
	}
	if err != nil {
		over()
		return "", nil, refused
	}
	return hook, over, nil
}

// namesOn is how PyTorch is to name C++ frames: its default took minutes for large recordings
// in versions up to 2.14. The fast way reads no ARM binaries there (pytorch/pytorch#195799).
func namesOn(architecture string) string {
	if architecture == "amd64" {
		return "fast"
	}
	return "dladdr"
}
