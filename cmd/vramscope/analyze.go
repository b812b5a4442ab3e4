package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/answers"
	"github.com/vramscope/vramscope/internal/code"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/gates"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/sarif"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/source"
)

var documentFormats = formats[*report.Document]{sheet: view.Document, json: answers.JSON, html: html.Document, brief: true}

type analyzeFlags struct {
	allSteps  bool
	out       outputFlags
	above     aboveFlags
	device    int
	gpu       string
	partial   bool
	redact    bool
	failOn    []string
	maxMemory string
	theory    budgetFlags
	names     naming
	source    string
	patch     string
	programs  *code.Files // the texts of the program, where they may be read
	at        string
	step, top int
	compare   bool
	served    bool // a server has the page's columns: there may be more of them
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
				return errors.New("analyze: no input\n  Give a memory snapshot, logs or a run's directory, or - for standard " +
					"input; `vramscope record` prints how to make a snapshot")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(cmd, args, analyze(cmd, args, &f))
		},
	}
	flags := cmd.Flags()
	grouped(cmd, "Reading", func() {
		numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`")
		flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording doesn't tell")
		readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
		f.names.flags(cmd)
		flags.StringVar(&f.at, "at", "peak", "show what is held at `peak|failure|end|N`, N an event")
		numberFlag(cmd, &f.step, "step", "show what is held at the peak of step `N`")
		flags.StringVar(&f.patch, "patch", "", "write to `FILE` a unified diff of the statements that store what leaks, where "+
			"their form is known (apply in the folder of --source: patch -p0 < FILE)")
		flags.StringVar(&f.source, "source", "", "show lines of code from the program's `FOLDER` (default: where the recording "+
			"names files of the working directory)")
		modelFlags(cmd, &f.theory)
	})
	grouped(cmd, "Writing", func() {
		f.out.flags(cmd, "on the terminal, the verdict alone")
		flags.BoolVarP(&f.out.verbose, "verbose", "v", false, "on the terminal, everything")
		flags.BoolVar(&f.allSteps, "all-steps", false, "in JSON, every step and every item of long lists; without it, what fits "+
			"into 40 kB for each device")
		f.above.flags(cmd, "the report")
		flags.BoolVar(&f.compare, "compare", false, "compare two inputs, as diff does")
		numberFlag(cmd, &f.top, "top", "show the `N` call sites that hold most")
	})
	grouped(cmd, "Gates", func() {
		flags.StringArrayVar(&f.failOn, "fail-on", nil, "exit with 1 when `CONDITION` holds: "+gates.Help+" (repeatable)")
		f.out.gates(cmd)
		f.out.reviews(cmd)
	})
	grouped(cmd, modelGroup, func() {
		recipe.SettingFlags(cmd.Flags(), &f.theory.s)
		flags.BoolVar(&f.theory.allLogits, "all-logits", false, recipe.AllLogitsHelp)
	})
	groupHelp(cmd, "Reading", "Writing", "Gates", modelGroup)
	return cmd
}

func analyze(cmd *cobra.Command, args []string, f *analyzeFlags) error {
	if f.compare {
		return f.compared(cmd, args)
	}
	if err := f.out.check(); err != nil {
		return err
	}
	if f.allSteps && !f.out.any("json", ".json") {
		return errors.New("--all-steps is for JSON: --format json or -o FILE.json")
	}
	if f.redact && f.patch != "" {
		return errors.New("--patch has no effect with --redact, which shows no line of code")
	}
	conditions, err := gates.Parse(f.failOn)
	if err != nil {
		return err
	}
	if err := f.out.checkGate(len(conditions)); err != nil {
		return err
	}
	doc, err := f.document(cmd, args)
	if err != nil {
		return err
	}
	formats := documentFormats
	formats.junit = func(w io.Writer, doc *report.Document) error {
		return writeGate(w, "analyze", doc.About().Path, doc.Verdict.Text, judged(conditions, doc))
	}
	below, _ := os.Getwd()
	formats.sarif = func(w io.Writer, doc *report.Document) error { return sarif.Write(w, doc, below) }
	formats.lines = func(w io.Writer, doc *report.Document) error { return sarif.Annotate(w, doc, below) }
	if err := f.unused(cmd, doc); err != nil {
		return err
	}
	if f.allSteps {
		formats.json = report.JSON
	}
	if err := formats.write(cmd, &f.out, doc); err != nil {
		return err
	}
	return gate(conditions, doc)
}

// unused gives an error for what is asked of recordings where there are none.
func (f *analyzeFlags) unused(cmd *cobra.Command, doc *report.Document) error {
	if slices.ContainsFunc(doc.Inputs, func(in report.Input) bool { return in.Kind == "snapshot" }) {
		return nil
	}
	for _, name := range []string{"at", "step", "top"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has no effect: there is no recording", name)
		}
	}
	return nil
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
	o, err := f.options(cmd)
	if err != nil {
		return nil, err
	}
	run, err := open.Files(args, open.Options{Stdin: cmd.InOrStdin(), MaxMemory: limit, Partial: f.partial,
		Undigested: !o.Pictures && f.undigested()})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if o.Theory, err = f.theoryOf(cmd, run); err != nil {
		return nil, err
	}
	if err := f.name(&o); err != nil {
		return nil, err
	}
	if err := f.program(&o, args); err != nil {
		return nil, err
	}
	command := f.hide(cmd, args, run, &o)
	doc, err := judge(cmd, run, o)
	if f.out.verbose || doc == nil || lacks(doc) {
		f.passedOver(cmd, args, run.PassedOver)
	}
	if doc != nil {
		doc.Command, doc.Top = command, max(f.top, 0)
	}
	if err == nil {
		err = f.lines(cmd, doc, o.Patch)
	}
	return doc, err
}

// options are what the flags say by themselves of how to judge.
func (f *analyzeFlags) options(cmd *cobra.Command) (o diagnose.Options, err error) {
	o = diagnose.Options{Tool: "vramscope " + versionString(), Title: f.above.title,
		Pictures: f.served || f.out.any("html", ".html"), EveryBand: f.served}
	if o.Notes, err = f.above.parse(f.redact); err != nil {
		return o, err
	}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return o, err
	}
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	o.At, err = f.asked(cmd)
	return o, err
}

// program lets the program's text be read, unless no line of it may be shown.
func (f *analyzeFlags) program(o *diagnose.Options, args []string) (err error) {
	if f.programs, err = code.Readable(f.redact, f.source, args); f.programs == nil {
		return err
	}
	if o.Code = f.programs.Text; f.patch != "" {
		o.Patch = &source.Patch{}
	}
	return nil
}

// lines puts lines of code into the document, and the patch beside it.
func (f *analyzeFlags) lines(cmd *cobra.Command, doc *report.Document, p *source.Patch) (err error) {
	if f.redact {
		return nil
	}
	if p != nil {
		if err := f.writePatch(cmd, p); err != nil {
			return err
		}
	}
	doc.Source, err = code.Lines(f.source)
	return err
}

// writePatch writes the changes to the program's text as a diff, which is to be applied in the folder
// of --source, else in the working directory.
func (f *analyzeFlags) writePatch(cmd *cobra.Command, p *source.Patch) error {
	diff := f.programs.Diff(p)
	for _, why := range p.Untold {
		fmt.Fprintf(cmd.ErrOrStderr(), "vramscope: --patch: %s\n", view.Printable(why))
	}
	if diff == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope: --patch: no statement of a form that is known: nothing was written")
		return nil
	}
	return whole.Write(f.patch, func(w io.Writer) error {
		_, err := io.WriteString(w, diff)
		return err
	})
}

// undigested tells that nothing shows digests: text doesn't.
func (f *analyzeFlags) undigested() bool {
	return !f.out.any("json", ".json") && !f.out.any("markdown", ".md")
}

// hide redacts what was read, if that is asked for, and gives the command that makes the
// report again.
func (f *analyzeFlags) hide(cmd *cobra.Command, args []string, run *open.Run, o *diagnose.Options) []string {
	if !f.redact {
		return commandLine(cmd, args, nil)
	}
	r := f.above.redactor()
	f.names.redact(r)
	run.Redact(r, o)
	return commandLine(cmd, args, r)
}

// asked is the moment that the flags ask for, nil for the peak.
func (f *analyzeFlags) asked(cmd *cobra.Command) (*diagnose.Asked, error) {
	if cmd.Flags().Changed("step") {
		if cmd.Flags().Changed("at") {
			return nil, errors.New("--at and --step both ask for a moment: give one")
		}
		return &diagnose.Asked{Step: &f.step, Text: fmt.Sprintf("--step %d", f.step)}, nil
	}
	a := &diagnose.Asked{Text: "--at " + f.at}
	switch n, err := strconv.Atoi(f.at); {
	case f.at == "peak":
		return nil, nil
	case f.at == "failure":
		a.Failure = true
	case f.at == "end":
		a.End = true
	case err == nil && n >= 0:
		a.Event = &n
	default:
		return nil, fmt.Errorf("--at %q: peak, failure, end or the number of an event", f.at)
	}
	return a, nil
}

// name takes the names of tensors from labels, a checkpoint or the model.
func (f *analyzeFlags) name(o *diagnose.Options) error {
	if err := f.names.read(nil); err != nil { // those beside recordings are paired with them
		return err
	}
	var config *budget.Config
	if f.theory.config != "" {
		config = o.Theory.Config
	}
	o.Names = f.names.options
	return f.names.model(f.theory.model, config)
}

// judge judges a run, unless something of it could not be got at that may be another time.
// What can't be got at for good is said.
func judge(cmd *cobra.Command, run *open.Run, o diagnose.Options) (*report.Document, error) {
	doc, err := diagnose.Run(run.Sources, run.Evidence, o)
	if unread := run.Unread(); unread != nil {
		return nil, unread
	}
	for _, file := range run.Without() {
		fmt.Fprintf(cmd.ErrOrStderr(), "vramscope: %s: the report is made without it\n", view.Printable(file))
	}
	return doc, err
}

// lacks reports whether an answer might have needed more: neither a recording tells what happened, nor a log how
// the run ended or why.
func lacks(doc *report.Document) bool {
	causes := doc.Verdict.Causes
	known := len(doc.Findings) > 0 && (len(causes) == 0 || causes[0].Cause != report.Unclear)
	return !known && len(doc.Devices) == 0 && !slices.ContainsFunc(doc.Evidence.Logs, func(log evidence.Log) bool {
		return log.Ending.How == evidence.EndedWell
	})
}

// passedOver says which of the named files the report doesn't speak of.
func (f *analyzeFlags) passedOver(cmd *cobra.Command, args []string, reasons []error) {
	for _, err := range reasons {
		fmt.Fprintf(cmd.ErrOrStderr(), "vramscope: %s: passed over\n", open.OneLine(redactError(cmd, args, err)))
	}
}

// idleSetting refuses flags of a model's setting where no model is given: they'd have no
// effect.
func idleSetting(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of := f.Annotations[groupKey]; err == nil && len(of) == 1 && of[0] == modelGroup {
			err = fmt.Errorf("--%s has no effect without a model to compare with: give --config, --model or --params", f.Name)
		}
	})
	return err
}

// theoryOf is the model to compare with: the flags', or one among the inputs; nil without
// one.
func (f *analyzeFlags) theoryOf(cmd *cobra.Command, run *open.Run) (*compare.Theory, error) {
	if err := f.theory.setting(cmd); err != nil {
		return nil, err
	}
	var given *budget.Config
	if f.theory.config != "" || f.theory.model != "" || f.theory.params != "" {
		var err error
		if given, _, err = f.theory.load(cmd.InOrStdin()); err != nil {
			return nil, err
		}
	}
	t := run.TheoryBeside(cmd.Flags(), &f.theory.s, given, f.redact)
	if t == nil {
		return nil, idleSetting(cmd)
	}
	return t, nil
}
