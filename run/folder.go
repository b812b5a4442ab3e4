package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/python"
)

// Names in a run's directory. Hidden ones are no evidence, and an analysis passes over them.
const (
	RecordFile = filename.RunRecord
	LogFile    = "output.log"
	endFile    = "output-end.log" // the end of a log that is too long for one file
	ReportFile = "report.html"
	gpuFile    = "gpu.csv"
	appsFile   = "gpu-processes.csv"

	hookFolder      = ".hook/path"
	processesFolder = ".hook/processes"
	tickFile        = ".hook/tick"   // written anew when regular dumps are due
	startedFile     = ".hook/python" // there once a Python was started that could record
)

// maxFolders bounds the search for a free name.
const maxFolders = 10_000

// Folder makes the run's directory and lays the recorder into it.
func (o *Options) Folder() (string, error) {
	dir, err := o.make()
	if err != nil {
		return "", err
	}
	if err := python.WriteHook(filepath.Join(dir, hookFolder)); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(filepath.Join(dir, processesFolder), 0o700)
}

// Empty makes the run's directory alone, for the directories of several runs.
func (o *Options) Empty() (string, error) { return o.make() }

func (o *Options) make() (string, error) {
	if o.Dir != "" {
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, RecordFile)); err == nil {
			return "", fmt.Errorf("%s: holds a run already\n  Give another directory, or leave -o out", o.Dir)
		}
		return dir, os.MkdirAll(dir, 0o755)
	}
	base, err := filepath.Abs("vramscope-" + nameOf(o.Command))
	for n := 1; err == nil && n < maxFolders; n++ {
		dir := fmt.Sprintf("%s-%d", base, n)
		if err = os.Mkdir(dir, 0o755); err == nil {
			return dir, nil
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return "", cmp.Or(err, fmt.Errorf("%s-1 to -%d are there already: give -o DIR", base, maxFolders-1))
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// nameOf is a short name for a command: its Python file's, else the program's.
func nameOf(command []string) string {
	name := ""
	for i, word := range slices.Backward(command) {
		if strings.HasSuffix(word, ".py") {
			name = strings.TrimSuffix(filepath.Base(word), ".py")
		} else if word == "-m" && i+1 < len(command) && name == "" {
			name = command[i+1]
		}
	}
	if name == "" && len(command) > 0 {
		name = filepath.Base(command[0])
	}
	name = strings.Trim(unsafe.ReplaceAllString(name, "-"), "-.")
	return cmp.Or(name[:min(len(name), 40)], "run")
}
