package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

type exportFlags struct {
	table, format, output string
	at                    string // of profiles
	device, atEvent       int
	partial, redact       bool
	names                 naming
	theory                budgetFlags
	maxMemory             string
}

// exportTables are the tables by name, with what writes a device's rows.
var exportTables = map[string]struct {
	table dataset.Table
	write func(x *dataset.Writer, r dataset.Recording, event int)
}{
	"events":      {dataset.Events, func(x *dataset.Writer, r dataset.Recording, _ int) { dataset.WriteEvents(x, r) }},
	"allocations": {dataset.Allocations, func(x *dataset.Writer, r dataset.Recording, _ int) { dataset.WriteAllocations(x, r) }},
	"segments":    {dataset.Segments, dataset.WriteSegments},
	"blocks":      {dataset.Blocks, dataset.WriteBlocks},
	"stacks":      {table: dataset.Stacks},
}

func newExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export INPUT --table TABLE --format FORMAT",
		Short: "The facts of a recording as data for other programs",
		Example: `  vramscope export snapshot.pickle --table allocations --format csv -o allocations.csv
  vramscope export snapshot.pickle --table blocks --at-event 1234 --format jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(f.redact, export(cmd, args[0], &f), args[0], f.output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.table, "table", "", "events, allocations, stacks, segments or blocks")
	flags.StringVar(&f.format, "format", "jsonl", "jsonl or csv; without --table pprof, perfetto or speedscope")
	flags.StringVar(&f.at, "at", "peak", "`moment` of pprof and speedscope: peak, end, or an event's index")
	flags.StringVarP(&f.output, "output", "o", "", "write `FILE` instead of standard output")
	flags.IntVar(&f.device, "device", -1, "only the device with this `ordinal`")
	flags.IntVar(&f.atEvent, "at-event", -1, "segments and blocks right after event `N` instead of at the end")
	f.names.flags(cmd)
	flags.StringVar(&f.theory.config, "config", "", "the model's `config.json`, which names its tensors")
	flags.StringVar(&f.theory.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	flags.BoolVar(&f.redact, "redact", false, redactHelp)
	flags.BoolVar(&f.partial, "partial", false, "use what a damaged file still holds")
	flags.StringVar(&f.maxMemory, "max-memory", "", "refuse to use more memory than `SIZE` (default: three quarters of the machine's)")
	return cmd
}

func export(cmd *cobra.Command, name string, f *exportFlags) error {
	if _, ok := exportProfiles[f.format]; ok {
		return exportProfile(cmd, name, f)
	}
	if cmd.Flags().Changed("at") {
		return fmt.Errorf("--at is for the formats pprof and speedscope")
	}
	format, ok := map[string]dataset.Format{"jsonl": dataset.JSONL, "csv": dataset.CSV}[f.format]
	if !ok {
		return fmt.Errorf("--format %q: jsonl or csv; without --table: pprof, perfetto or speedscope", f.format)
	}
	table, ok := exportTables[f.table]
	if !ok {
		return fmt.Errorf("--table %q: events, allocations, stacks, segments or blocks", f.table)
	}
	if cmd.Flags().Changed("at-event") && f.table != "segments" && f.table != "blocks" {
		return fmt.Errorf("--at-event is for the tables segments and blocks")
	}
	s, err := f.snapshot(cmd, name)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("device") && s.Device(f.device) == nil {
		return fmt.Errorf("--device %d: not in the recording", f.device)
	}
	if err := f.names.read([]string{name}); err != nil {
		return err
	}
	if err := f.names.model(&f.theory); err != nil {
		return err
	}
	if f.redact {
		r := newRedactor()
		r.Snapshot(s)
		f.names.redact(r)
	}
	write := func(w io.Writer) error {
		x := dataset.NewWriter(w, format, table.table)
		view := stacks.New(s)
		if f.table == "stacks" {
			dataset.WriteStacks(x, s, view)
			return x.Flush()
		}
		for i := range s.Devices {
			d := &s.Devices[i]
			if f.device >= 0 && d.Ordinal != f.device {
				continue
			}
			event := d.Events.Len() - 1
			if cmd.Flags().Changed("at-event") {
				if f.atEvent > event || f.atEvent < 0 {
					return fmt.Errorf("--at-event %d: device %d has events 0 to %d", f.atEvent, d.Ordinal, event)
				}
				event = f.atEvent
			}
			table.write(x, f.recording(timeline.New(s, d), view), event)
		}
		return x.Flush()
	}
	if f.output != "" {
		return writeFile(f.output, write)
	}
	return write(cmd.OutOrStdout())
}

func (f *exportFlags) snapshot(cmd *cobra.Command, name string) (*snapshot.Snapshot, error) {
	limit, err := memoryLimit(f.maxMemory)
	if err != nil {
		return nil, err
	}
	o := snapshot.Options{MaxMemory: limit, Partial: f.partial}
	if name != "-" {
		return snapshot.Open(name, o)
	}
	in, err := snapshot.ReadInput("standard input", cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	return in.Snapshot(o)
}

// recording is what the tables of a device are made of.
func (f *exportFlags) recording(t *timeline.Timeline, view *stacks.View) dataset.Recording {
	return dataset.Recording{Timeline: t, View: view, Classes: classify.New(t, f.names.options(t))}
}
