package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/internal/load"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
)

type diffFlags struct {
	format          string
	outputs         []string
	device          int
	gpu, config     string
	title           string
	notes           []string
	partial, redact bool
	failOn          []string
	quiet, noColor  bool
	maxMemory       string
}

func newDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Two runs or two ranks: what grew, by category, call site and step",
		Long: `Diff compares the allocated peaks of two recordings. Call sites are matched by
function and file name, then by the nearest line: the code may have changed,
and lie in another folder. A and B are files or the directories of runs.`,
		Example: `  vramscope diff baseline.pickle today.pickle --fail-on 'grew>5%'
  vramscope diff rank0.pickle rank1.pickle -o ranks.html`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(f.redact, runDiff(cmd, args, &f), append(args, append(f.outputs, f.config)...)...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "text", "what goes to standard output: text, json, markdown or html")
	flags.StringArrayVarP(&f.outputs, "output", "o", nil, "also write `FILE`, the format by its name: .html .json .md .txt (repeatable)")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`, of both (default: the fullest of each)")
	flags.StringVar(&f.gpu, "gpu", "", "the GPUs' `NAME` or size, \"H100 80GB\" or 80GiB, where a recording doesn't tell")
	flags.StringVar(&f.config, "config", "", "a Transformers `config.json` for both (default: the one in a run's directory)")
	flags.StringVar(&f.title, "title", "", "a `TEXT` to stand above the comparison")
	flags.StringArrayVar(&f.notes, "note", nil, "a fact to stand above the comparison, `KEY=VALUE` (repeatable)")
	flags.BoolVar(&f.redact, "redact", false, redactHelp)
	flags.BoolVar(&f.partial, "partial", false, "use what a damaged file still holds")
	flags.StringArrayVar(&f.failOn, "fail-on", nil, "exit with 1 when `CONDITION` holds: grew>5% or grew>1GiB of the allocated peak, or of B "+conditionHelp+" (repeatable)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "on the terminal, the verdict alone")
	flags.BoolVar(&f.noColor, "no-color", false, noColorHelp)
	flags.StringVar(&f.maxMemory, "max-memory", "", "refuse to use more memory than `SIZE` for each input (default: three quarters of the container's or machine's)")
	return cmd
}

// diffRenderers are the formats by --format's word and by the ending of -o's files.
func diffRenderers() map[string]func(io.Writer, *report.Diff) error {
	text := func(w io.Writer, d *report.Diff) error { return report.DiffText(w, d, report.Style{}) }
	return map[string]func(io.Writer, *report.Diff) error{"text": text, ".txt": text, "json": report.DiffJSON, ".json": report.DiffJSON,
		"markdown": report.DiffMarkdown, ".md": report.DiffMarkdown, "html": report.DiffHTML, ".html": report.DiffHTML}
}

func runDiff(cmd *cobra.Command, args []string, f *diffFlags) error {
	all := diffRenderers()
	if err := checkFormats(f.format, f.outputs, all); err != nil {
		return err
	}
	growth, conditions, err := parseGrowth(f.failOn)
	if err != nil {
		return err
	}
	if args[0] == "-" && args[1] == "-" {
		return fmt.Errorf("only one of the two can be standard input")
	}
	r := newRedactor() // one for both: what has one name has one pseudonym
	before, err := f.document(cmd, args[0], r)
	if err != nil {
		return err
	}
	after, err := f.document(cmd, args[1], r)
	if err != nil {
		return err
	}
	d, err := diff.Compute(before, after)
	if err != nil {
		return err
	}
	if err := writeOutputs(f.outputs, all, d); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.format == "text" {
		err = report.DiffText(out, d, terminalStyle(out, f.noColor, f.quiet))
	} else {
		err = all[f.format](out, d)
	}
	if err != nil {
		return err
	}
	warnUntold(cmd.ErrOrStderr(), conditions, after)
	return checkGrowth(growth, conditions, d, after)
}

// document reads and judges one of the two.
func (f *diffFlags) document(cmd *cobra.Command, name string, r *redact.Redactor) (*report.Document, error) {
	limit, err := readingLimit(f.maxMemory)
	if err != nil {
		return nil, err
	}
	o := diagnose.Options{Tool: "vramscope " + versionString(), Title: f.title}
	if o.Notes, err = parseNotes(f.notes); err != nil {
		return nil, err
	}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	run, err := load.Open([]string{name}, load.Options{Stdin: cmd.InOrStdin(), MaxMemory: limit, Partial: f.partial})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	model := run.Config()
	var names load.Names
	if f.config != "" {
		if model, err = load.ReadConfig(f.config); err != nil {
			return nil, err
		}
		if err := names.Tensors("", f.config); err != nil {
			return nil, err
		}
		o.Names = names.Options
	}
	if model != nil {
		o.Theory = compare.Untold(model)
	}
	if f.redact {
		names.Redact(r)
		run.Redact(r, &o)
	}
	return diagnose.Run(run.Sources, run.Evidence, o)
}

// growthCondition is a --fail-on on the allocated peak of B over A's.
type growthCondition struct {
	text  string
	holds func(*report.Diff) bool
}

// parseGrowth takes out what only a comparison can tell; the rest is asked of
// the second document.
func parseGrowth(texts []string) ([]growthCondition, []condition, error) {
	var growth []growthCondition
	var rest []string
	for _, text := range texts {
		limit, ok := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "grew>")
		if !ok {
			rest = append(rest, text)
			continue
		}
		c := growthCondition{text: text}
		if share, isShare, err := parseShare(limit); err != nil {
			return nil, nil, fmt.Errorf("--fail-on %q: %w", text, err)
		} else if isShare {
			c.holds = func(d *report.Diff) bool {
				p := d.Peaks["allocated"]
				return 100*float64(p.Change()) > share*float64(p.Before)
			}
		} else {
			bytes, err := parseLimit(limit)
			if err != nil {
				return nil, nil, fmt.Errorf("--fail-on %q: %w", text, err)
			}
			c.holds = func(d *report.Diff) bool { return d.Peaks["allocated"].Change() > bytes }
		}
		growth = append(growth, c)
	}
	conditions, err := parseConditions(rest, "grew>5%")
	return growth, conditions, err
}

// checkGrowth gives an error that names the conditions that hold.
func checkGrowth(growth []growthCondition, conditions []condition, d *report.Diff, after *report.Document) error {
	var hold []string
	for _, c := range growth {
		if c.holds(d) {
			hold = append(hold, c.text)
		}
	}
	for _, c := range conditions {
		if c.holds(after) {
			hold = append(hold, c.text)
		}
	}
	if hold != nil {
		return &conditionError{hold}
	}
	return nil
}
