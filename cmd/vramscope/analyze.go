package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/load"
	"github.com/vramscope/vramscope/report"
)

// renderer writes a document in one format.
type renderer func(io.Writer, *report.Document) error

// renderers by the word of --format and by the ending of -o's files.
func renderers(text renderer) map[string]renderer {
	return map[string]renderer{"text": text, ".txt": text, "json": report.JSON, ".json": report.JSON, "html": report.HTML, ".html": report.HTML,
		"markdown": report.Markdown, ".md": report.Markdown}
}

type analyzeFlags struct {
	format    string
	outputs   []string
	device    int
	gpu       string
	title     string
	notes     []string
	partial   bool
	redact    bool
	failOn    []string
	quiet     bool
	noColor   bool
	maxMemory string
	theory    budgetFlags
	names     naming
}

func newAnalyze() *cobra.Command {
	var f analyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze [INPUT…]",
		Short: "Say what filled the GPU: a summary on the terminal, with -o as files",
		Long: `Analyze reads the files of one run, or its directory, in any mix: memory
snapshots, nvidia-smi output, training logs, profiler traces. Inputs are
recognised by content; gzip, zstd and single-file zip are read as they are;
"-" is standard input. Ranks of one job, and several dumps of one process, are
told by the files' names and contents.`,
		Example: `  vramscope analyze snapshot.pickle
  vramscope analyze oom.pickle train.log -o report.html -o report.json
  vramscope analyze run42/ --fail-on oom --fail-on 'reserved>95%'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("analyze: no input\n  Give a memory snapshot, logs or a run's directory, or - for standard input; `vramscope record` prints how to make a snapshot")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(f.redact, analyze(cmd, args, &f), append(args, append(f.outputs, f.theory.config, f.theory.model)...)...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "text", "what goes to standard output: text, json, markdown or html")
	flags.StringArrayVarP(&f.outputs, "output", "o", nil, "also write `FILE`, the format by its name: .html .json .md .txt (repeatable)")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`")
	flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording doesn't tell")
	flags.StringVar(&f.title, "title", "", "a `TEXT` to stand above the report")
	flags.StringArrayVar(&f.notes, "note", nil, "a fact to stand above the report, `KEY=VALUE` (repeatable)")
	readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
	flags.StringArrayVar(&f.failOn, "fail-on", nil, "exit with 1 when `CONDITION` holds: "+conditionHelp+" (repeatable)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "on the terminal, the verdict alone")
	flags.BoolVar(&f.noColor, "no-color", false, noColorHelp)
	f.names.flags(cmd)
	modelFlags(cmd, &f.theory)
	settingFlags(cmd, &f.theory)
	return cmd
}

func analyze(cmd *cobra.Command, args []string, f *analyzeFlags) error {
	out := cmd.OutOrStdout()
	text := func(w io.Writer, doc *report.Document) error { return report.Text(w, doc, report.Style{}) }
	all := renderers(text)
	if err := checkFormats(f.format, f.outputs, all); err != nil {
		return err
	}
	conditions, err := parseConditions(f.failOn)
	if err != nil {
		return err
	}
	doc, err := f.document(cmd, args)
	if err != nil {
		return err
	}
	if err := writeOutputs(f.outputs, all, doc); err != nil {
		return err
	}
	if f.format == "text" {
		err = report.Text(out, doc, terminalStyle(out, f.noColor, f.quiet))
	} else {
		err = all[f.format](out, doc)
	}
	if err != nil {
		return err
	}
	warnUntold(cmd.ErrOrStderr(), conditions, doc)
	return check(conditions, doc)
}

// document reads the inputs and judges them.
func (f *analyzeFlags) document(cmd *cobra.Command, args []string) (*report.Document, error) {
	limit, err := readingLimit(f.maxMemory)
	if err != nil {
		return nil, err
	}
	if f.maxMemory == "" {
		collectRarely(args)
	}
	o := diagnose.Options{Tool: "vramscope " + versionString(), Title: f.title}
	if o.Notes, err = parseNotes(f.notes); err != nil {
		return nil, err
	}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	o.Pictures = f.format == "html" || slices.ContainsFunc(f.outputs, func(name string) bool { return ending(name) == ".html" })
	// Text shows no digests.
	undigested := f.format == "text" && !slices.ContainsFunc(f.outputs, func(name string) bool { return ending(name) != ".txt" })
	run, err := load.Open(args, load.Options{Stdin: cmd.InOrStdin(), MaxMemory: limit, Partial: f.partial, Undigested: undigested})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	if o.Theory, err = f.theoryOf(cmd, run); err != nil {
		return nil, err
	}
	if err := f.names.read(nil); err != nil { // those beside recordings are paired with them
		return nil, err
	}
	if err := f.names.model(&f.theory); err != nil {
		return nil, err
	}
	o.Names = f.names.options
	command := commandLine(cmd, args, nil)
	if f.redact {
		r := newRedactor()
		f.names.redact(r)
		run.Redact(r, &o)
		command = commandLine(cmd, args, r)
	}
	doc, err := diagnose.Run(run.Sources, run.Evidence, o)
	if doc != nil {
		doc.Command = command
	}
	return doc, err
}

// theoryOf is the model to compare with: the flags', or a config.json among
// the inputs; nil without one.
func (f *analyzeFlags) theoryOf(cmd *cobra.Command, run *load.Run) (*compare.Theory, error) {
	if err := f.theory.setting(cmd); err != nil {
		return nil, err
	}
	t := &compare.Theory{Setting: f.theory.s, Given: map[string]bool{}}
	cmd.Flags().Visit(func(flag *pflag.Flag) { t.Given[flag.Name] = true })
	if f.theory.config == "" && f.theory.model == "" && f.theory.params == "" {
		if t.Config = run.Config(); t.Config != nil {
			return t, nil
		}
		return nil, nil
	}
	var err error
	t.Config, _, err = f.theory.load(cmd.InOrStdin())
	return t, err
}
