package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/store"
)

// version is set at release builds with -ldflags "-X main.version=…".
var version = "devel"

// module is the one whose code makes the reports.
const module = "github.com/vramscope/vramscope"

type flags struct {
	output    string
	paths     string
	gpu       string
	config    string
	model     string
	labels    []string
	device    int
	title     string
	notes     []string
	partial   bool
	redact    bool
	prune     bool
	quiet     bool
	verbose   bool
	maxMemory string
}

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVarP(&f.output, "output", "o", "", "`FOLDER` or URL of the results")
	set.StringVar(&f.paths, "paths", "", "a `FILE` or URL that names more places to look, one per line")
	set.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, where a recording doesn't tell")
	set.StringVar(&f.config, "config", "", "a Transformers `config.json` for all runs (default: the one among a run's files)")
	set.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	set.StringArrayVar(&f.labels, "labels", nil, "a labels `FILE` for all runs (repeatable)")
	set.IntVar(&f.device, "device", -1, "only the device with this `ordinal`, of all runs")
	set.Lookup("device").DefValue = "0" // which pflag doesn't show
	set.StringVar(&f.title, "title", "", "a `TEXT` to stand above every report")
	set.StringArrayVar(&f.notes, "note", nil, "a fact to stand above every report, `KEY=VALUE` (repeatable)")
	set.BoolVar(&f.partial, "partial", false, "use what damaged files still hold")
	set.BoolVar(&f.redact, "redact", false, "pseudonyms in the place of what tells who and where; VRAMSCOPE_REDACT_KEY must "+
		"be the same on every worker")
	set.BoolVar(&f.prune, "prune", false, "remove the reports of runs that lie outside of the given folders, too")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "only failures")
	set.BoolVar(&f.verbose, "verbose", false, "what Beam and the runner have to say, too")
	set.StringVar(&f.maxMemory, "max-memory", "",
		"keep each worker within `SIZE` (default: three quarters of its container's or machine's)")
}

// task is what the flags ask for. What can be wrong with them is found here and
// not on a worker.
func (f *flags) task(args []string) (*task, error) {
	t := &task{Roots: args, List: f.paths, Out: f.output, Prune: f.prune}
	switch {
	case f.output == "":
		return nil, errors.New("-o OUT says where the results go: a folder or the URL of a bucket's prefix")
	case len(args) == 0 && f.paths == "":
		return nil, errors.New("nothing to look at: give folders or URLs, or --paths with a list of them")
	}
	t.Options = batch.Options{Tool: "vramscope " + versionString(), Title: f.title, GPU: f.gpu, Config: f.config, Model: f.model,
		Labels: f.labels, Partial: f.partial, Redact: f.redact}
	if f.device >= 0 {
		t.Options.Device = &f.device
	}
	for _, n := range f.notes {
		key, value, ok := strings.Cut(n, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--note %q is not KEY=VALUE", n)
		}
		t.Options.Notes = append(t.Options.Notes, report.Note{Key: key, Value: value})
	}
	if f.gpu != "" {
		gpu, err := gpus.Find(f.gpu)
		if err != nil {
			return nil, fmt.Errorf("--gpu: %w", err)
		}
		t.Options.Capacity = gpu.Capacity
	}
	if f.redact {
		t.KeyMark = keyMark(os.Getenv(keyVariable))
	}
	var err error
	if f.maxMemory != "" {
		if t.MaxMemory, err = units.Parse(f.maxMemory); err != nil {
			return nil, fmt.Errorf("--max-memory: %w", err)
		}
	}
	t.Build, err = batch.BuildOf(versionString())
	return t, err
}

// versionString is the release's version, or that of the module that makes the
// reports, as vramscope itself says it.
func versionString() string {
	info, ok := debug.ReadBuildInfo()
	if version != "devel" || !ok {
		return version
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Replace == nil && m.Version != "" {
			return m.Version
		}
	}
	return version
}

// keyVariable holds what makes pseudonyms one's own. It is never sent: each
// worker has it from its own environment.
const keyVariable = "VRAMSCOPE_REDACT_KEY"

// keyMark tells workers whether they have the same key, without telling it.
func keyMark(key string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte("vramscope-beam"))
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// print says what became of the runs. The error is that there is none.
func (s *summary) print(cmd *cobra.Command, t *task) error {
	for _, line := range append(s.Unread, s.Failed...) {
		fmt.Fprintln(cmd.ErrOrStderr(), line)
	}
	switch {
	case s.Runs+len(s.Failed) == 0:
		return errors.New("no run was found: a run is a folder with memory snapshots or logs")
	case s.Runs == 0:
		return fmt.Errorf("none of %s could be analysed", units.Plural(len(s.Failed), "run"))
	}
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
		fmt.Fprintf(cmd.OutOrStdout(), "%s analysed, %d of them unchanged since before; %d failed; results in %s\n",
			units.Plural(s.Runs, "run"), s.Unchanged, len(s.Failed), store.Show(t.Out))
	}
	return nil
}
