package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

type whatifFlags struct {
	out        outputFlags
	above      aboveFlags
	device     int
	gpu        string
	outside    string
	confs      []string
	capacities []string
	changes    []string
	names      naming
	config     string
	model      string
	partial    bool
	redact     bool
	maxMemory  string
	solve      string
	failOn     []string
}

func newWhatif() *cobra.Command {
	var f whatifFlags
	cmd := &cobra.Command{
		Use:   "whatif SNAPSHOT",
		Short: "Replay the recorded requests under other allocator settings, capacities and program changes",
		Long: `Whatif runs PyTorch's caching allocator again over the requests of a recording:
first under the settings that it was made with, to see that every address comes
out as recorded, then under others. All combinations of --conf, --capacity and
--change are run, each also with what was recorded; without any of them, the
settings and changes that usually matter.

For a request that failed it says whether memory was missing or in pieces, and
which blocks keep whole segments from being used.

Changes: ` + change.Names + `.
Each says what it takes for granted.`,
		Example: `  vramscope whatif oom.pickle
  vramscope whatif snapshot.pickle --conf expandable_segments:True --conf max_split_size_mb:128
  vramscope whatif snapshot.pickle --capacity 24GiB --capacity 40GiB --fail-on oom
  vramscope whatif oom.pickle --solve batch=24
  vramscope whatif snapshot.pickle --change optimizer=8bit --change logits=chunked`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(cmd, args, whatif(cmd, args[0], &f))
		},
	}
	flags := cmd.Flags()
	f.out.flags(cmd, "the verdict alone")
	f.above.flags(cmd, "the answer")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal` (default: the one that reserves most)")
	flags.StringVar(&f.gpu, "gpu", "", "the recorded GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording "+
		"doesn't tell")
	flags.StringVar(&f.outside, "outside", "", "`SIZE` that PyTorch can't have of a GPU: the CUDA context, other processes "+
		"(default: what the recording tells with --gpu, else 520MiB)")
	flags.StringArrayVar(&f.confs, "conf", nil, "`SETTINGS` to try, in the syntax of PYTORCH_CUDA_ALLOC_CONF (repeatable)")
	flags.StringArrayVar(&f.capacities, "capacity", nil, "a GPU of this `SIZE` to try, such as 40GiB (repeatable)")
	flags.StringArrayVar(&f.changes, "change", nil, "a `CHANGE` to the program to try, such as optimizer=8bit (repeatable)")
	f.names.flags(cmd)
	flags.StringVar(&f.config, "config", "", "the model's `config.json`, which names its tensors, and by whose budget "+
		"--solve counts a whole step")
	flags.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	flags.StringVar(&f.solve, "solve", "", "look for the largest `batch|seq` that fits the capacity; batch=24 says what the "+
		"recorded one is")
	flags.StringArrayVar(&f.failOn, "fail-on", nil, "exit with 1 when `CONDITION` holds: oom, of any scenario that was asked "+
		"for")
	readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
	return cmd
}

// whatifDocument is what was tried, with what the user says of it.
type whatifDocument struct {
	*replay.Document
	Tool  string        `json:"tool"`
	Title string        `json:"title"`
	Given []report.Note `json:"given"` // "notes" are the replay's
}

var whatifFormats = formats[*whatifDocument]{
	sheet: func(d *whatifDocument, _ view.Edition) *view.Sheet {
		s := view.WhatIf(d.Document)
		s.Title, s.Notes, s.Tool = d.Title, d.Given, d.Tool
		return s
	},
	json: func(w io.Writer, d *whatifDocument) error { return writeJSON(w, d) },
}

func whatif(cmd *cobra.Command, name string, f *whatifFlags) error {
	if err := f.out.check(); err != nil {
		return err
	}
	for _, text := range f.failOn {
		if text != "oom" {
			return fmt.Errorf("--fail-on %q: known is oom", text)
		}
	}
	doc, err := f.document(cmd, name)
	if err != nil {
		return err
	}
	if err := whatifFormats.write(cmd, &f.out, doc); err != nil || len(f.failOn) == 0 {
		return err
	}
	return f.gate(doc.Document)
}

// gate gives an error where a scenario that was asked for runs out of memory, or none of them
// can be judged. Without any it's the recorded one that counts.
func (f *whatifFlags) gate(doc *replay.Document) error {
	if doc.Refused != nil {
		return fmt.Errorf("--fail-on oom can't be judged: %s", *doc.Refused)
	}
	asked := doc.Scenarios
	if len(f.confs)+len(f.capacities)+len(f.changes) > 0 {
		asked = asked[1:]
	}
	for i := range asked {
		o := &asked[i]
		switch {
		case o.OOM:
			return &conditionError{[]string{"oom (" + o.Name + ")"}}
		case o.Fits == nil && !o.Survived && len(f.capacities) == 0 && i == 0:
			return fmt.Errorf("--fail-on oom can't be judged: the GPU's size isn't known (--capacity)")
		}
	}
	return nil
}

// document reads the recording and tries what was asked for.
func (f *whatifFlags) document(cmd *cobra.Command, name string) (*whatifDocument, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	doc := &whatifDocument{Tool: "vramscope " + versionString(), Title: f.above.title}
	if doc.Given, err = f.above.parse(f.redact); err != nil {
		return nil, err
	}
	s, err := readSnapshot(cmd, name, f.maxMemory, f.partial)
	if err != nil {
		return nil, err
	}
	if err := f.names.read([]string{name}); err != nil {
		return nil, err
	}
	config, err := configFile(f.config)
	if err != nil {
		return nil, err
	}
	if err := f.names.model(f.model, config); err != nil {
		return nil, err
	}
	if f.redact {
		r := f.above.redactor()
		r.Snapshot(s)
		f.names.redact(r)
		open.RedactAbove(r, &doc.Title, doc.Given)
	}
	t, err := f.timeline(s, cmd.Flags().Changed("device"))
	if err != nil {
		return nil, err
	}
	doc.Document, err = solved(t, classify.New(t, f.names.options(t)), o, config)
	return doc, err
}

func (f *whatifFlags) options() (replay.Options, error) {
	o := replay.Options{Confs: f.confs, Changes: f.changes}
	var err error
	size := func(flag, text string) (n int64) {
		if text != "" && err == nil {
			n, err = sizeOf(flag, text)
		}
		return n
	}
	if o.GPU, err = capacityOf(f.gpu); err != nil {
		return o, err
	}
	o.Outside = size("--outside", f.outside)
	if bad := f.solving(&o); bad != nil {
		return o, bad
	}
	for _, text := range f.capacities {
		if text == "" {
			return o, fmt.Errorf("--capacity: no size")
		}
		o.Capacities = append(o.Capacities, size("--capacity", text))
	}
	for _, text := range f.confs {
		if _, _, bad := allocator.ParseConf(text); bad != nil {
			return o, fmt.Errorf("--conf: %w", bad)
		}
	}
	for _, text := range f.changes {
		if _, bad := change.Parse(text); bad != nil {
			return o, fmt.Errorf("--change: %w", bad)
		}
	}
	return o, err
}

// solving reads what is to be solved for, and what was recorded of that.
func (f *whatifFlags) solving(o *replay.Options) error {
	what, recorded, given := strings.Cut(f.solve, "=")
	if o.Solve = what; what != "" && what != "batch" && what != "seq" {
		return fmt.Errorf("--solve %q: batch or seq, with the recorded one as in batch=24", f.solve)
	}
	if !given {
		return nil
	}
	n, err := strconv.ParseInt(recorded, 10, 64)
	if err != nil || n < 1 || n > 1<<24 {
		return fmt.Errorf("--solve %q: %q is no number from 1 on", f.solve, recorded)
	}
	o.SolveFrom = n
	return nil
}

// timeline picks the device: the given one, else the one that reserves most.
func (f *whatifFlags) timeline(s *snapshot.Snapshot, given bool) (*timeline.Timeline, error) {
	if given {
		d := s.Device(f.device)
		if d == nil {
			return nil, fmt.Errorf("--device %d: not in the recording", f.device)
		}
		return timeline.New(s, d), nil
	}
	var best *timeline.Timeline
	for i := range s.Devices {
		t := timeline.New(s, &s.Devices[i])
		if best == nil || t.Peaks.Reserved.Bytes > best.Peaks.Reserved.Bytes {
			best = t
		}
	}
	if best == nil {
		best = timeline.New(s, &snapshot.Device{}) // an empty recording is no error
	}
	return best, nil
}

// solved replays, and refines what was to be solved by the model's budget where there is
// one: a replay ends where the recording does, and can't change all programs.
func solved(t *timeline.Timeline, c *classify.Classification, o replay.Options, config *budget.Config) (*replay.Document, error) {
	doc, err := replay.WhatIf(t, c, o)
	if o.Solve == "" || config == nil {
		return doc, err
	}
	what := o.Solve
	if err != nil {
		unsolved := err
		o.Solve = ""
		if doc, err = replay.WhatIf(t, c, o); err != nil || len(doc.Scenarios) == 0 {
			return nil, cmp.Or(err, unsolved)
		}
		if doc.Scenarios[0].UsableBytes == nil && len(o.Capacities) == 0 {
			return nil, unsolved
		}
	}
	gpu := gpus.GPU{Context: cmp.Or(o.Outside, replay.Outside)}
	switch {
	case len(o.Capacities) > 0:
		gpu.Capacity = o.Capacities[0]
	case len(doc.Scenarios) > 0 && doc.Scenarios[0].UsableBytes != nil:
		gpu.Capacity = *doc.Scenarios[0].UsableBytes + replay.Outside
	default:
		return doc, nil
	}
	answer, err := compare.Solve(t, c, config, what, gpu)
	switch {
	case err != nil:
		doc.Notes = append(doc.Notes, "not refined by the model's budget: "+err.Error())
	case doc.Solved == nil || len(t.OOMs) > 0:
		doc.Verdict = answer + " " + doc.Verdict
	default:
		doc.Verdict += " " + answer
	}
	return doc, nil
}
