package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/internal/bound"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

type exportFlags struct {
	table, format, output string
	at                    string // of profiles
	device, atEvent       int
	gpu                   string // of the run tables
	partial, redact       bool
	names                 naming
	config, model         string
	maxMemory             string
	raw                   bool
	bound                 boundFlag
}

func newExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export INPUT --table TABLE --format FORMAT",
		Short: "The facts of a recording as data for other programs",
		Long: `Export writes tables: what a recording holds (events, allocations, stacks, …) and
what its report says (findings, leaks, …), or, without --table, a whole recording
in the format of a viewer: pprof, perfetto or speedscope.`,
		Example: `  vramscope export snapshot.pickle --table allocations -o allocations.csv
  vramscope export snapshot.pickle --table blocks --at-event 1234 --format jsonl
  vramscope export snapshot.pickle --table all --format parquet -o tables/
  vramscope export snapshot.pickle -o peak.pb.gz    # go tool pprof -http=: peak.pb.gz
  vramscope export snapshot.pickle -o run.pftrace   # open it at ui.perfetto.dev
  vramscope export snapshot.pickle -o run.speedscope.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(cmd, args, export(cmd, args[0], &f))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.table, "table", "", tableHelp())
	flags.StringVar(&f.format, "format", "jsonl", "jsonl, csv, arrow or parquet; without --table pprof, perfetto or speedscope")
	flags.BoolVar(&f.raw, "raw", false, "in CSV, texts as they are: a spreadsheet may run those that begin with = + - @")
	flags.StringVar(&f.at, "at", "peak", "`moment` of pprof and speedscope: peak, end, or an event's index; speedscope "+
		"without it has peak and end")
	outputFlag(cmd, &f.output, "write `FILE` instead of standard output, without --format in that of its name: .jsonl .csv "+
		".arrow .parquet .pb.gz .pftrace .speedscope.json; a folder, or a name that ends in /, gets a file for each table")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`")
	flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording doesn't tell: "+
		"for tables that have its capacity")
	numberFlag(cmd, &f.atEvent, "at-event", "segments and blocks right after event `N` instead of at the end")
	f.names.flags(cmd)
	flags.StringVar(&f.config, "config", "", "the model's `config.json`, which names its tensors and tells its budget")
	flags.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
	f.bound.flag(cmd)
	return cmd
}

// checkPrinted refuses what a terminal can't show, and --max-bytes where whole rows can't
// be left out.
func (f *exportFlags) checkPrinted(cmd *cobra.Command, format dataset.Format) error {
	if format.Binary() && f.output == "" && onTerminal(cmd.OutOrStdout()) {
		return fmt.Errorf("--format %s is binary, and standard output is a terminal: use -o FILE, or a pipe", format)
	}
	if err := f.bound.check(""); err != nil || f.bound.most == 0 {
		return err
	}
	if f.output != "" {
		return fmt.Errorf("--max-bytes bounds what is printed: -o %s is written whole", store.Show(f.output))
	}
	if format.Binary() {
		return fmt.Errorf("--max-bytes is for jsonl and csv: a %s file is whole, or broken", format)
	}
	return nil
}

// printed writes a table to standard output: whole rows, as many as --max-bytes allows.
func (f *exportFlags) printed(cmd *cobra.Command, format dataset.Format, write func(io.Writer) error) error {
	if f.bound.most == 0 {
		return write(cmd.OutOrStdout())
	}
	l := &bound.Lines{W: cmd.OutOrStdout(), Most: f.bound.most}
	if err := write(l); err != nil {
		return err
	}
	err := l.Close()
	if l.Left > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "vramscope: left out: %d rows; -o FILE.%s has all\n", l.Left, format)
	}
	return err
}

// moment has --at say the same as --at-event, of the tables that have a moment.
func (f *exportFlags) moment(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("at") || f.at == "end" {
		return nil
	}
	if err := cmd.Flags().Set("at-event", f.at); err != nil {
		return fmt.Errorf("--at %s: tables are of the end, or of the number of an event", f.at)
	}
	return nil
}

func export(cmd *cobra.Command, name string, f *exportFlags) (err error) {
	if name, err = open.RecordingIn(name); err != nil {
		return err
	}
	if f.output == "-" {
		f.output = "" // standard output
	}
	if f.format, err = f.chosenFormat(cmd); err != nil {
		return err
	}
	if _, ok := exportProfiles[f.format]; ok {
		return exportProfile(cmd, name, f)
	}
	if err := f.moment(cmd); err != nil {
		return err
	}
	format, ok := dataset.FormatNamed(f.format)
	if !ok {
		return fmt.Errorf("--format %q: jsonl, csv, arrow or parquet; without --table: pprof, perfetto or speedscope", f.format)
	}
	if f.raw && format != dataset.CSV {
		return errors.New("--raw is of --format csv alone: the others hold texts as they are")
	}
	if f.raw {
		format = dataset.RawCSV
	}
	tables, err := f.tables(cmd)
	if err != nil {
		return err
	}
	if err := f.checkPrinted(cmd, format); err != nil {
		return err
	}
	x, err := f.exported(cmd, name)
	if err != nil {
		return err
	}
	defer boundGarbage()()
	if f.toFolder() {
		return x.folder(f.output, format, tables)
	}
	write := func(w io.Writer) error { return x.table(w, format, tables[0]) }
	if f.output != "" {
		return whole.Write(f.output, write)
	}
	return f.printed(cmd, format, write)
}

// chosenFormat is --format, else what -o's name tells, else the usual one.
func (f *exportFlags) chosenFormat(cmd *cobra.Command) (string, error) {
	if cmd.Flags().Changed("format") || f.output == "" || f.toFolder() || ending(f.output) == "" {
		return f.format, nil
	}
	if format, ok := dataset.FormatNamed(strings.TrimPrefix(ending(f.output), ".")); ok {
		return format.String(), nil
	}
	known := ".jsonl, .csv, .arrow or .parquet"
	if f.table == "" {
		for format, x := range exportProfiles {
			if strings.HasSuffix(strings.ToLower(store.Show(f.output)), x.ending) {
				return format, nil
			}
		}
		known += " for a --table, else .pb.gz, .pftrace or .speedscope.json"
	}
	return "", fmt.Errorf("-o %s: the name must end in %s; --format says what else is to be written there", store.Show(f.output),
		known)
}

// recording reads a recording and what names its allocations; config is nil
// without --config.
func (f *exportFlags) recording(cmd *cobra.Command, name string) (s *snapshot.Snapshot, config *budget.Config, err error) {
	if s, err = readSnapshot(cmd, name, f.maxMemory, f.partial); err != nil {
		return nil, nil, err
	}
	if cmd.Flags().Changed("device") && s.Device(f.device) == nil {
		return nil, nil, fmt.Errorf("--device %d: not in the recording", f.device)
	}
	if err = f.names.read([]string{name}); err != nil {
		return nil, nil, err
	}
	if config, err = configFile(f.config); err != nil {
		return nil, nil, err
	}
	return s, config, f.names.model(f.model, config)
}

// readSnapshot reads a recording, of standard input if it is called "-".
func readSnapshot(cmd *cobra.Command, name, maxMemory string, partial bool) (*snapshot.Snapshot, error) {
	limit, err := readingLimit(maxMemory)
	if err != nil {
		return nil, err
	}
	o := snapshot.Options{MaxMemory: limit, Partial: partial}
	return open.Snapshot(name, cmd.InOrStdin(), o)
}
