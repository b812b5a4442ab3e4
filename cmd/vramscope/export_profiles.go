package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/profiles"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// exportProfiles are the formats that hold a whole recording, for viewers.
var exportProfiles = map[string]struct {
	write  func(w io.Writer, r profiles.Recording, at ...profiles.Moment) error
	binary bool
	moment bool // is of moments: takes --at
	usual  []profiles.Moment
	ending string // of the names that viewers know their files by
}{
	"pprof": {func(w io.Writer, r profiles.Recording, at ...profiles.Moment) error {
		return profiles.WritePprof(w, r, at[0])
	}, true, true, []profiles.Moment{profiles.Peak}, ".pb.gz"},
	"perfetto": {write: func(w io.Writer, r profiles.Recording, _ ...profiles.Moment) error {
		return profiles.WritePerfetto(w, r)
	}, binary: true, ending: ".pftrace"},
	"speedscope": {profiles.WriteSpeedscope, false, true, []profiles.Moment{profiles.Peak, profiles.End}, ".speedscope.json"},
}

// exportProfile writes a whole recording for a viewer.
func exportProfile(cmd *cobra.Command, name string, f *exportFlags) error {
	x := exportProfiles[f.format]
	for _, flag := range []string{"table", "at-event", "gpu"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s: not with --format %s, which is of the whole recording", flag, f.format)
		}
	}
	if cmd.Flags().Changed("max-bytes") {
		return fmt.Errorf("--max-bytes is for jsonl and csv: a %s file is whole, or broken", f.format)
	}
	moments := x.usual
	if cmd.Flags().Changed("at") {
		if !x.moment {
			return fmt.Errorf("--at: not with --format %s, which is of the whole recording", f.format)
		}
		at, err := profiles.ParseMoment(f.at)
		if err != nil {
			return fmt.Errorf("--at %w", err)
		}
		moments = []profiles.Moment{at}
	}
	if x.binary && f.output == "" && onTerminal(cmd.OutOrStdout()) {
		return fmt.Errorf("--format %s is binary, and standard output is a terminal: use -o FILE, or a pipe", f.format)
	}
	r, err := f.profiled(cmd, name)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return x.write(w, r, moments...) }
	if f.output != "" {
		err = whole.Write(f.output, write)
	} else {
		err = write(cmd.OutOrStdout())
	}
	if none := profiles.MomentError(""); errors.As(err, &none) { // about what was asked for, not where it goes
		return fmt.Errorf("--at %w", none)
	}
	if e := (*snapshot.Error)(nil); errors.As(err, &e) { // too much memory: about what was read, not where it goes
		e.File = name
		return e
	}
	return err
}

// profiled reads and classifies a recording.
func (f *exportFlags) profiled(cmd *cobra.Command, name string) (profiles.Recording, error) {
	s, _, err := f.recording(cmd, name)
	if err != nil {
		return profiles.Recording{}, err
	}
	if f.redact {
		r := newRedactor()
		r.Snapshot(s)
		f.names.redact(r)
	}
	limit, err := memoryLimit(f.maxMemory)
	if err != nil {
		return profiles.Recording{}, err
	}
	r := profiles.Recording{View: frames.New(s), MaxMemory: limit / 2} // the recording itself is small where stacks are many
	for i := range s.Devices {
		if d := &s.Devices[i]; f.device < 0 || d.Ordinal == f.device {
			t := timeline.New(s, d)
			r.Devices = append(r.Devices, profiles.Device{Timeline: t, Classes: classify.New(t, f.names.options(t))})
		}
	}
	return r, nil
}

// onTerminal reports whether an output is shown to a person as it is.
func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
