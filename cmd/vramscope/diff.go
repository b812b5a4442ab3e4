package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/internal/answers"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/gates"
	"github.com/vramscope/vramscope/report/view"
)

type diffFlags struct {
	out             outputFlags
	above           aboveFlags
	device          int
	gpu             string
	config, model   string
	labels          []string
	partial, redact bool
	failOn          []string
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
			return redactError(cmd, args, runDiff(cmd, args, &f))
		},
	}
	flags := cmd.Flags()
	f.out.flags(cmd, "on the terminal, the verdict alone")
	f.out.gates(cmd)
	f.above.flags(cmd, "the comparison")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`, of both (default: the fullest of each)")
	flags.StringVar(&f.gpu, "gpu", "", "the GPUs' `NAME` or size, \"H100 80GB\" or 80GiB, where a recording doesn't tell")
	flags.StringVar(&f.config, "config", "", "a Transformers `config.json` for both (default: the one in a run's directory)")
	flags.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors of both: `FILE`.safetensors, its "+
		"index, or .pt")
	flags.StringArrayVar(&f.labels, "labels", nil,
		"a labels `FILE` that says what A holds; the second one says it of B; those beside recordings are found")
	flags.BoolVar(&f.redact, "redact", false, redactHelp)
	flags.BoolVar(&f.partial, "partial", false, "use what a damaged file still holds")
	flags.StringArrayVar(&f.failOn, "fail-on", nil,
		"exit with 1 when `CONDITION` holds: grew>5% or grew>1GiB of the allocated peak, or of B "+gates.Help+" (repeatable)")
	flags.StringVar(&f.maxMemory, "max-memory", "",
		"refuse to use more memory than `SIZE` for each input (default: three quarters of the container's or machine's)")
	return cmd
}

var diffFormats = formats[*report.Diff]{sheet: view.Diff, json: report.DiffJSON}

func runDiff(cmd *cobra.Command, args []string, f *diffFlags) error {
	if err := f.out.check(); err != nil {
		return err
	}
	growth, conditions, err := parseGrowth(f.failOn)
	if err != nil {
		return err
	}
	if err := f.out.checkGate(len(growth) + len(conditions)); err != nil {
		return err
	}
	if len(f.labels) > 2 {
		return fmt.Errorf("--labels %s: the first is for A, the second for B, and there is no third input", f.labels[2])
	}
	r := f.above.redactor() // one for both: what has one name has one pseudonym
	before, err := f.document(cmd, args, 0, r)
	if err != nil {
		return err
	}
	after, err := f.document(cmd, args, 1, r)
	if err != nil {
		return err
	}
	d, err := diff.Compute(before, after)
	if err != nil {
		return err
	}
	formats := diffFormats
	formats.html = answers.Comparison(before, after)
	formats.junit = func(w io.Writer, d *report.Diff) error {
		return writeGate(w, "diff", d.After.Path, d.Verdict.Text, append(grown(growth, d), judged(conditions, after)...))
	}
	if err := formats.write(cmd, &f.out, d); err != nil {
		return err
	}
	if err := checkGrowth(growth, conditions, d, after); err != nil {
		return err
	}
	return gates.Unjudged(conditions, after)
}

// compared is analyze --compare: what diff says of two inputs.
func (f *analyzeFlags) compared(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("--compare: two inputs, not %d", len(args))
	}
	var err error
	known := newDiff().Flags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "compare" && (known.Lookup(flag.Name) == nil || flag.Name == "labels") {
			err = cmp.Or(err, fmt.Errorf("--%s has no effect with --compare", flag.Name))
		}
	})
	if err != nil {
		return err
	}
	return runDiff(cmd, args, &diffFlags{out: f.out, above: f.above, device: f.device, gpu: f.gpu, config: f.theory.config,
		model: f.theory.model, partial: f.partial, redact: f.redact, failOn: f.failOn, maxMemory: f.maxMemory})
}

// document reads and judges the first or second of the two.
func (f *diffFlags) document(cmd *cobra.Command, args []string, which int, r *redact.Redactor) (*report.Document, error) {
	limit, err := readingLimit(f.maxMemory)
	if err != nil {
		return nil, err
	}
	o := diagnose.Options{Tool: "vramscope " + versionString(), Title: f.above.title, Pictures: f.out.any("html", ".html")}
	if o.Notes, err = f.above.parse(f.redact); err != nil {
		return nil, err
	}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	run, err := open.Files(args[which:which+1], open.Options{Stdin: cmd.InOrStdin(), MaxMemory: limit, Partial: f.partial})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	config, err := configFile(f.config)
	if err != nil {
		return nil, err
	}
	var names open.Names
	if err := names.Tensors(f.model, config); err != nil {
		return nil, err
	}
	if which < len(f.labels) {
		if err := names.Labels(f.labels[which]); err != nil {
			return nil, err
		}
	}
	o.Names = names.Options
	o.Theory = run.Theory(config, f.redact)
	if f.redact {
		names.Redact(r)
		run.Redact(r, &o)
	}
	return judge(cmd, run, o)
}

// growthCondition is a --fail-on on the allocated peak of B over A's.
type growthCondition struct {
	text  string
	holds func(*report.Diff) bool
}

// parseGrowth takes out what only a comparison can tell; the rest is asked of
// the second document.
func parseGrowth(texts []string) ([]growthCondition, []gates.Condition, error) {
	var growth []growthCondition
	var rest []string
	for _, text := range texts {
		limit, ok := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "grew>")
		if !ok {
			rest = append(rest, text)
			continue
		}
		c := growthCondition{text: text}
		if share, isShare, err := gates.Share(limit); err != nil {
			return nil, nil, fmt.Errorf("--fail-on %q: %w", text, err)
		} else if isShare {
			c.holds = func(d *report.Diff) bool {
				p := d.Peaks["allocated"]
				return 100*float64(p.Change()) > share*float64(p.Before)
			}
		} else {
			bytes, err := gates.Limit(limit)
			if err != nil {
				return nil, nil, fmt.Errorf("--fail-on %q: %w", text, err)
			}
			c.holds = func(d *report.Diff) bool { return d.Peaks["allocated"].Change() > bytes }
		}
		growth = append(growth, c)
	}
	conditions, err := gates.Parse(rest, "grew>5%")
	return growth, conditions, err
}

// checkGrowth gives an error that names the conditions that hold.
func checkGrowth(growth []growthCondition, conditions []gates.Condition, d *report.Diff, after *report.Document) error {
	var hold []string
	for _, c := range growth {
		if c.holds(d) {
			hold = append(hold, c.text)
		}
	}
	for _, c := range conditions {
		if c.Holds(after) {
			hold = append(hold, c.Text)
		}
	}
	if hold != nil {
		return &conditionError{hold}
	}
	return nil
}
