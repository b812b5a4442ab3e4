package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/code"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

type explainFlags struct {
	out               outputFlags
	device            int
	gpu               string
	config, model     string
	partial, redact   bool
	maxMemory, source string
	names             naming
}

var explainFormats = formats[*explain.Document]{sheet: view.Explain,
	json: func(w io.Writer, d *explain.Document) error { return writeJSON(w, d) }}

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain INPUT…",
		Short: "All that is known of one thing: an allocation, event, call site, finding, leak, failed request, …",
		Long: `Explain answers one question about a recording: exactly one of the flags below that
name a thing. Every answer begins with the state of the recording, is short
however long that is, and ends with what to ask next.`,
		Example: `  vramscope explain oom.pickle --oom 0
  vramscope explain oom.pickle --site train.py:42
  vramscope explain oom.pickle --finding logits_dominate --format json
  vramscope explain oom.pickle --allocation 1266`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(cmd, args, f.explain(cmd, args))
		},
	}
	flags := cmd.Flags()
	for _, kind := range explain.Kinds {
		flags.String(kind.Name, "", "`"+kind.Takes+"`: "+kind.Usage)
	}
	f.out.flags(cmd, "the answer alone")
	numberFlag(cmd, &f.device, "device", "the device with this `ordinal` (default: the one that the finding or failed "+
		"request is on, else the one that matters most)")
	flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording doesn't tell")
	f.names.flags(cmd)
	flags.StringVar(&f.config, "config", "", "the model's `config.json`, which names its tensors and tells its budget")
	flags.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	flags.StringVar(&f.source, "source", "", "read the program's text from its `FOLDER` (default: beside the recording)")
	readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
	return cmd
}

// question is the one that the flags ask.
func question(cmd *cobra.Command) (explain.Question, error) {
	var asked []explain.Question
	var known []string
	for _, kind := range explain.Kinds {
		known = append(known, "--"+kind.Name+" "+kind.Takes)
		if cmd.Flags().Changed(kind.Name) {
			asked = append(asked, explain.Question{Kind: kind.Name, Value: cmd.Flags().Lookup(kind.Name).Value.String()})
		}
	}
	if len(asked) != 1 {
		return explain.Question{}, fmt.Errorf("explain: ask exactly one of %s", strings.Join(known, ", "))
	}
	return asked[0], nil
}

func (f *explainFlags) explain(cmd *cobra.Command, args []string) error {
	if err := f.out.check(); err != nil {
		return err
	}
	q, err := question(cmd)
	if err != nil {
		return err
	}
	doc, err := f.document(cmd, args, q)
	if err != nil {
		return err
	}
	return explainFormats.write(cmd, &f.out, doc)
}

// document reads the inputs, judges them and asks.
func (f *explainFlags) document(cmd *cobra.Command, args []string, q explain.Question) (*explain.Document, error) {
	limit, err := readingLimit(f.maxMemory)
	if err != nil {
		return nil, err
	}
	if f.maxMemory == "" {
		collectRarely(args)
	}
	o := diagnose.Options{Tool: "vramscope " + versionString()}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	run, err := open.Files(args, open.Options{Stdin: cmd.InOrStdin(), MaxMemory: limit, Partial: f.partial, Undigested: true})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	if err := f.named(run, &o); err != nil {
		return nil, err
	}
	if programs, err := code.Readable(f.redact, f.source, args); err != nil {
		return nil, err
	} else if programs != nil {
		o.Code = programs.Text
	}
	command := commandLine(cmd, args, nil)
	if f.redact {
		r := newRedactor()
		f.names.redact(r)
		run.Redact(r, &o)
		command = commandLine(cmd, args, r)
	}
	made := lookedAt{names: f.names.options, sources: run.Sources}
	made.keepOnly()
	doc, err := diagnose.Run(run.Sources, run.Evidence, o)
	if err != nil {
		return nil, err
	}
	s := explain.Subject{Report: doc, Device: about(doc, q)}
	if s.Device >= 0 {
		dev := &doc.Devices[s.Device]
		if s.Pass, err = made.pass(dev); err != nil {
			return nil, err
		}
		if read := run.Sources[dev.Input].Holders; read != nil {
			s.Holders, _ = read(s.Pass.T) // the report says what is wrong with the file
		}
	}
	answer, err := explain.Ask(s, q)
	if answer != nil {
		answer.Command = command
	}
	return answer, err
}

// named takes what names allocations, and the model to compare with.
func (f *explainFlags) named(run *open.Run, o *diagnose.Options) error {
	if err := f.names.read(nil); err != nil { // those beside recordings are paired with them
		return err
	}
	config, err := configFile(f.config)
	if err != nil {
		return err
	}
	if err := f.names.model(f.model, config); err != nil {
		return err
	}
	o.Names = f.names.options
	o.Theory = run.Theory(config, f.redact)
	return nil
}

// about is the index of the device that a question is about, -1 where the report alone
// can be asked.
func about(doc *report.Document, q explain.Question) int {
	if len(doc.Devices) == 0 {
		return -1
	}
	which := func(has func(*report.Device) bool) int {
		return slices.IndexFunc(doc.Devices, func(d report.Device) bool { return has(&d) })
	}
	failed := func(d *report.Device) bool { return len(d.OOMs) > 0 }
	found := -1
	switch q.Kind {
	case "finding":
		found = which(func(d *report.Device) bool {
			return slices.ContainsFunc(d.Findings, func(f report.Finding) bool { return f.ID == q.Value })
		})
	case "oom":
		found = which(failed)
	case "leak":
		found = which(func(d *report.Device) bool { return len(d.Leaks) > 0 })
	}
	if a := doc.Verdict.About; found < 0 && a != nil {
		found = a.Device
	}
	if found < 0 {
		found = which(failed)
	}
	if found < 0 {
		fullest := doc.Fullest()
		found = which(func(d *report.Device) bool { return d.Device == fullest.Device && d.Input == fullest.Input })
	}
	return found
}

// lookedAt is what was made of recordings, so that one that is alone is decoded and
// classified once for the report and for the answer.
type lookedAt struct {
	names    func(*timeline.Timeline) classify.Options
	sources  []diagnose.Source
	snapshot *snapshot.Snapshot // of the only recording
	made     map[*snapshot.Device]*facts.Pass
}

// keepOnly decodes the recording if there is just one. What can't be decoded is left
// to those who say why.
func (l *lookedAt) keepOnly() {
	only := -1
	for i := range l.sources {
		if s := &l.sources[i]; s.Snapshot != nil || s.Open != nil && s.Failed == "" {
			if only >= 0 {
				return
			}
			only = i
		}
	}
	if only < 0 {
		return
	}
	s := &l.sources[only]
	if s.Snapshot == nil {
		decoded, err := s.Open()
		if err != nil {
			return
		}
		s.Snapshot = decoded
	}
	l.snapshot, l.made = s.Snapshot, map[*snapshot.Device]*facts.Pass{}
	view := frames.New(s.Snapshot)
	s.Made = func(d *snapshot.Device) (*timeline.Timeline, *classify.Classification) {
		if l.made[d] == nil {
			l.made[d] = l.look(s, d, view)
		}
		return l.made[d].T, l.made[d].Classes
	}
}

// look works out a device's history and what its memory is for.
func (l *lookedAt) look(source *diagnose.Source, d *snapshot.Device, view *frames.View) *facts.Pass {
	t := timeline.New(source.Snapshot, d)
	o := l.names(t)
	if source.Labels != nil {
		labels, err := source.Labels(t)
		if err == nil {
			o.Labels = append(o.Labels, labels...)
		}
	}
	return facts.New(t, classify.New(t, o), view, nil)
}

// pass is the look at a device of the report.
func (l *lookedAt) pass(dev *report.Device) (*facts.Pass, error) {
	source := l.sources[dev.Input]
	if source.Snapshot == nil {
		decoded, err := source.Open()
		if err != nil {
			return nil, err
		}
		source.Snapshot = decoded
	}
	d := source.Snapshot.Device(dev.Device)
	if d == nil {
		return nil, errors.New("the recording changed while it was read")
	}
	if kept := l.made[d]; kept != nil {
		return kept, nil
	}
	return l.look(&source, d, frames.New(source.Snapshot)), nil
}
