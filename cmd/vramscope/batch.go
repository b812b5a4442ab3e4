package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report/gates"
	"github.com/vramscope/vramscope/store"
)

type batchFlags struct {
	output    string
	shard     string
	jobs      int
	gpu       string
	config    string
	model     string
	labels    []string
	above     aboveFlags
	device    int
	partial   bool
	prune     bool
	redact    bool
	alone     bool
	failOn    []string
	quiet     bool
	maxMemory string
}

func newBatch() *cobra.Command {
	var f batchFlags
	cmd := &cobra.Command{
		Use:   "batch [DIR…] -o OUT",
		Short: "Many runs: a report for each, tables and one page over all",
		Long: `Batch finds the runs below folders by what the files hold, analyses each, and
writes into OUT a report for every run (runs/NAME/report.html and report.json),
tables for DuckDB, pandas or Polars (runs.parquet, findings.parquet,
categories.parquet, ooms.parquet and others), and index.html over all of them.

A run is a folder with recordings or logs, or a set of ranks; unrelated
recordings in one folder are a run each. A file that can't be read costs one
line. Run again, it goes on where it stopped and does only what has changed.`,
		Example: `  vramscope batch experiments/ -o reports
  vramscope batch experiments/ -o reports --fail-on oom --fail-on failed
  vramscope batch experiments/ -o part-3 --shard 3/16   # one of a job array of 16
  vramscope merge part-* -o reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return redactError(cmd, args, runBatch(cmd, args, &f))
		},
	}
	f.flags(cmd)
	return cmd
}

func (f *batchFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	outputFlag(cmd, &f.output, "`FOLDER` of the results, or s3:// URL (help cluster)")
	flags.StringVar(&f.shard, "shard", "", "only part `I/N` of the runs, I from 0 to N-1: for job arrays; merge joins the parts")
	flags.IntVar(&f.jobs, "jobs", 0, "`N` runs at a time (default: one for each core)")
	flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, where a recording doesn't tell")
	flags.StringVar(&f.config, "config", "", "a Transformers `config.json` for all runs (default: the one among a run's files)")
	flags.StringVar(&f.model, "model", "", "a checkpoint whose header names the tensors: `FILE`.safetensors, its index, or .pt")
	flags.StringArrayVar(&f.labels, "labels", nil, "a labels `FILE` for all runs; those beside recordings are found (repeatable)")
	f.above.flags(cmd, "every report")
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`, of all runs")
	flags.BoolVar(&f.partial, "partial", false, "use what damaged files still hold")
	flags.BoolVar(&f.redact, "redact", false, redactHelp)
	pruneFlag(cmd, &f.prune, "that lie elsewhere or can't be told to lie in the given folders")
	flags.BoolVar(&f.alone, "standalone", false,
		"put the script into every report, so that each opens alone; else they share one beside index.html")
	failOnFlag(cmd, &f.failOn)
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no summary, only failures")
	flags.StringVar(&f.maxMemory, "max-memory", "",
		"keep all runs at a time within `SIZE` (default: three quarters of the container's or machine's)")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
}

// pruneFlag says what becomes of the runs of an earlier batch.
func pruneFlag(cmd *cobra.Command, prune *bool, which string) {
	cmd.Flags().BoolVar(prune, "prune", false, "also remove what an earlier batch left in OUT of runs "+which)
}

// lock makes a place this command's to write to. Where that can't be made sure it says so.
func lock(ctx context.Context, cmd *cobra.Command, out *store.Place) (unlock func(), err error) {
	unlock, err = out.Lock(ctx)
	if errors.Is(err, store.ErrNoLocks) {
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope:", strings.Join(strings.Fields(printable(err)), " "))
		return func() {}, nil
	}
	return unlock, err
}

func failOnFlag(cmd *cobra.Command, conditions *[]string) {
	cmd.Flags().StringArrayVar(conditions, "fail-on", nil, "exit with 1 when `CONDITION` holds for any run: failed, "+
		gates.Help+" (repeatable)")
}

func runBatch(cmd *cobra.Command, args []string, f *batchFlags) error {
	conditions, failed, err := batchConditions(f.failOn)
	if err != nil {
		return err
	}
	keyed := os.Getenv(keyVariable) != ""
	if f.redact && !keyed {
		os.Setenv(keyVariable, rand.Text()) // of this batch, in all of its processes
	}
	limit, err := f.bound(cmd)
	if err != nil {
		return err
	}
	c, err := f.work(cmd, limit)
	if err != nil {
		return err
	}
	if c.Build, err = batch.BuildOf(version); err != nil {
		return err
	}
	index, count, err := parseShard(f.shard)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	var stores store.Pool
	defer stores.Close()
	if c.Out, err = stores.Place(ctx, f.output); err != nil {
		return err
	}
	c.Options.Stores = &stores
	found, err := batch.Find(ctx, args, batch.FindOptions{Skip: f.output, Redact: f.redact,
		Key: os.Getenv(keyVariable), Stores: &stores})
	if err != nil {
		return interrupted(ctx, err)
	}
	say := newTeller(cmd.ErrOrStderr(), f, append(args, f.output))
	say.found(found)
	runs := batch.Shard(found.Runs, index, count)
	if len(found.Runs) == 0 {
		say.saySilent()
		return noRun(args, f.output)
	}
	unlock, err := lock(ctx, cmd, c.Out)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer unlock()
	if f.redact && !keyed {
		if err := f.onceWithoutKey(ctx, c); err != nil {
			return err
		}
	}
	say.begin(runs)
	c.Done = say.done
	processes := f.apart(cmd, args, limit, c)
	c.Do = processes.Do
	err = batch.Work(ctx, runs, *c)
	processes.End()
	say.end(err)
	say.saySilent()
	if err != nil {
		return interrupted(ctx, err)
	}
	removed, kept, err := batch.TidyBelow(ctx, c.Out, found.Runs, f.gone(args, found))
	if err != nil {
		return err
	}
	reports := reportsOf(ctx, c.Out, runs)
	if err := combine(ctx, c, index, count, kept, runs, reports); err != nil {
		return err
	}
	if err := say.summary(cmd.OutOrStdout(), removed, len(kept), reports); err != nil {
		return err
	}
	if say.analysed == 0 && count == 1 { // a shard may be unlucky: merge finds out
		return errNone(runs)
	}
	return checkAll(cmd.ErrOrStderr(), conditions, failed, reports)
}

// onceWithoutKey refuses to go on with what was redacted with another key: nobody could tell
// which runs are done.
func (f *batchFlags) onceWithoutKey(ctx context.Context, c *batch.Config) error {
	if f.shard != "" {
		return errors.New("--shard with --redact: set VRAMSCOPE_REDACT_KEY, the same for all shards: what has one name " +
			"gets one pseudonym")
	}
	for _, err := range batch.Stored(ctx, c.Out) {
		if err == nil && !f.prune {
			return fmt.Errorf("%s holds runs, and without VRAMSCOPE_REDACT_KEY each batch has pseudonyms of its own: set it "+
				"to go on with a batch, or give --prune to begin again", c.Out.URL(""))
		}
		break
	}
	return nil
}

// gone tells which runs of an earlier batch are no longer there, by where they lay: those
// below the given folders, if all of these could be looked into. Pseudonyms don't tell.
func (f *batchFlags) gone(roots []string, found *batch.Found) func(place string) bool {
	switch {
	case f.prune:
		return func(string) bool { return true }
	case f.redact, len(found.Failed) > 0:
		return func(string) bool { return false }
	}
	return batch.Below(roots)
}

// noRun says where no run was found, and perhaps why.
func noRun(args []string, output string) error {
	for _, in := range args {
		if sameFolder(in, output) {
			return fmt.Errorf("no run below %s: -o names the same folder, which is passed over; give the results a folder "+
				"of their own", in)
		}
	}
	return fmt.Errorf("no run below %s: a run is a folder with memory snapshots or logs", strings.Join(args, ", "))
}

// combine notes which part of the runs it is, and makes tables and page over the reports and
// those that are kept of earlier runs.
func combine(ctx context.Context, c *batch.Config, index, count int, kept, runs []batch.Run, reports batch.Reports) error {
	if err := batch.NotePart(ctx, c.Out, index, count); err != nil {
		return err
	}
	if len(kept) > 0 {
		reports = batch.Stored(ctx, c.Out, batch.ByPath(append(kept, runs...))...)
	}
	return batch.Combine(ctx, c.Out, c.Options.Tool, reports)
}

// reportsOf are the reports of these runs alone. A shard may have none of the
// runs, and its folder those of an earlier batch.
func reportsOf(ctx context.Context, out *store.Place, runs []batch.Run) batch.Reports {
	if len(runs) == 0 {
		return func(func(*batch.Report, error) bool) {}
	}
	return batch.Stored(ctx, out, runs...)
}

// bound keeps this process within --max-memory, which it gives.
func (f *batchFlags) bound(cmd *cobra.Command) (int64, error) {
	limit, err := memoryLimit(f.maxMemory)
	if err == nil && limit > 0 {
		debug.SetMemoryLimit(limit / 3 * 2)
		go watchMemory(max(limit, leastMemory), cmd.ErrOrStderr(),
			"more memory is needed for so many runs than --max-memory gives")
	}
	return limit, err
}

// work is how the flags want the batch to be done, with so many bytes of memory.
func (f *batchFlags) work(cmd *cobra.Command, limit int64) (*batch.Config, error) {
	var err error
	o := batch.Options{Tool: "vramscope " + versionString(), Title: f.above.title, GPU: f.gpu, Config: f.config, Model: f.model,
		Labels: f.labels, Partial: f.partial,
		Redact: f.redact, RedactTitle: f.above.hidden, Standalone: f.alone, Key: os.Getenv(keyVariable)}
	if o.Notes, err = f.above.parse(f.redact); err != nil {
		return nil, err
	}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("device") {
		o.Device = &f.device
	}
	config, err := configFile(f.config)
	if err != nil {
		return nil, err
	}
	var names open.Names
	if err := errors.Join(names.Labels(f.labels...), names.Tensors(f.model, config)); err != nil {
		return nil, err
	}
	return &batch.Config{Options: o, Workers: f.jobs, MaxMemory: limit - min(limit/2, leastMemory)}, nil
}

// untilSignal is a context that a signal ends; a second one ends the program at once.
func untilSignal(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// interrupted says what to do after a signal.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted: the same command goes on where it stopped")
	}
	return err
}

func newMerge() *cobra.Command {
	var output string
	var failOn []string
	var quiet, prune bool
	cmd := &cobra.Command{
		Use:   "merge PART… -o OUT",
		Short: "The shards of a batch into one",
		Long: `Merge puts the results of a batch's shards together: the runs' folders are
copied, tables and page are made over all. What it writes is, byte for byte,
what one batch over all runs would have written.`,
		Example: "  vramscope merge part-* -o reports",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conditions, failed, err := batchConditions(failOn)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd)
			defer stop()
			var stores store.Pool
			defer stores.Close()
			out, err := stores.Place(ctx, output)
			if err != nil {
				return err
			}
			parts := make([]*store.Place, len(args))
			for i, name := range args {
				if parts[i], err = stores.Place(ctx, name); err != nil {
					return err
				}
			}
			unlock, err := lock(ctx, cmd, out)
			if err != nil {
				return interrupted(ctx, err)
			}
			defer unlock()
			runs, err := batch.Merge(ctx, parts, out, "vramscope "+versionString(), prune)
			if err != nil {
				return interrupted(ctx, err)
			}
			if !quiet {
				fmt.Fprintf(cmd.OutOrStdout(), "%s of %s in %s\n", units.Plural(len(runs), "run"), units.Plural(len(args),
					"part"), out.URL(""))
			}
			reports := reportsOf(ctx, out, runs)
			if any, err := anyReport(reports); err != nil || !any {
				return cmp.Or(err, errNone(runs))
			}
			return checkAll(cmd.ErrOrStderr(), conditions, failed, reports)
		},
	}
	outputFlag(cmd, &output, "`FOLDER` of the results, or s3:// URL (help cluster)")
	failOnFlag(cmd, &failOn)
	pruneFlag(cmd, &prune, "that no part has")
	maxMemoryFlag(cmd, new(string))
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	return cmd
}

func errNone(runs []batch.Run) error {
	return fmt.Errorf("none of %s could be analysed", units.Plural(len(runs), "run"))
}

// anyReport reports whether any run could be analysed.
func anyReport(reports batch.Reports) (bool, error) {
	for r, err := range reports {
		if err != nil || r.Document != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// batchConditions are --fail-on's conditions on a report, and whether a run
// without one is a condition, too.
func batchConditions(texts []string) (conditions []gates.Condition, failed bool, err error) {
	var rest []string
	for _, text := range texts {
		if text == "failed" {
			failed = true
		} else {
			rest = append(rest, text)
		}
	}
	conditions, err = gates.Parse(rest, "failed")
	return conditions, failed, err
}

// checkAll gives an error that names the conditions that hold for any run, and
// for how many. Where none holds, it gives one that names those that can't be judged of
// any run; of others it says of how many they can't.
func checkAll(w io.Writer, conditions []gates.Condition, failed bool, reports batch.Reports) error {
	if len(conditions) == 0 && !failed {
		return nil
	}
	counts, untold, why := map[string]int{}, map[string]int{}, map[string]string{}
	all := 0
	for r, err := range reports {
		if err != nil {
			return err
		}
		all++
		if r.Document == nil {
			counts["failed"]++
			continue
		}
		for _, c := range conditions {
			if c.Holds(r.Document) {
				counts[c.Text]++
			} else if what := c.Untold(r.Document); what != "" {
				untold[c.Text]++
				why[c.Text] = cmp.Or(why[c.Text], what)
			}
		}
	}
	var silent []string
	for _, text := range texts(conditions) {
		if n := untold[text]; n > 0 {
			fmt.Fprintf(w, "vramscope: --fail-on %s can't be judged of %s of %s: %s\n", text, units.Count(n),
				units.Plural(all, "run"), why[text])
			delete(untold, text)
			if n == all {
				silent = append(silent, text)
			}
		}
	}
	if !failed {
		delete(counts, "failed")
	}
	return outcome(conditions, counts, silent, all)
}

// outcome names the conditions that hold, else those of which no run tells.
func outcome(conditions []gates.Condition, counts map[string]int, silent []string, all int) error {
	var hold []string
	for _, text := range append([]string{"failed"}, texts(conditions)...) {
		if n := counts[text]; n > 0 {
			hold = append(hold, fmt.Sprintf("%s (%s of %s)", text, units.Count(n), units.Plural(all, "run")))
			delete(counts, text)
		}
	}
	if hold != nil {
		return &conditionError{hold}
	}
	if silent != nil {
		return fmt.Errorf("no run tells of --fail-on %s", strings.Join(silent, ", "))
	}
	return nil
}

func texts(conditions []gates.Condition) []string {
	var out []string
	for _, c := range conditions {
		out = append(out, c.Text)
	}
	return out
}
