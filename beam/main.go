// Vramscope-beam is `vramscope batch` as an Apache Beam pipeline, for runs that
// are too many for one machine and a job array. Without flags of Beam it runs
// in this process, on Beam's own Prism; with --runner and --endpoint on a
// cluster. What it writes is what batch writes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec/optimized"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/store"
)

func main() {
	if code := run(); code != 0 {
		os.Exit(code)
	}
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := command()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "vramscope-beam:", err)
		return 2
	}
	return 0
}

// command is the program's one command. Beam's flags are beside its own.
func command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "vramscope-beam [DIR|URL…] -o OUT",
		Short: "vramscope batch as an Apache Beam pipeline",
		Long: `Vramscope-beam finds the runs below folders or the prefixes of buckets, spreads
them over the workers of a Beam runner, and writes what ` + "`vramscope batch`" + ` writes:
a report for every run, tables, and a page over all. Workers read the runs and
write the reports themselves: on a cluster, both must be where every worker can
reach them (s3://, gs://, a shared disk).`,
		Example: `  vramscope-beam experiments/ -o reports
  vramscope-beam s3://team/runs -o s3://team/reports --runner=flink --endpoint=jobs:8099 \
    --environment_type=PROCESS --environment_config='{"command": "/opt/vramscope/boot"}' --worker_binary=vramscope-beam`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.define(cmd.Flags())
	cmd.Flags().AddGoFlagSet(flag.CommandLine)
	return cmd
}

// start hands the process over to Beam where it was started as a worker;
// otherwise it comes back.
func start(verbose bool) error {
	if err := flag.CommandLine.Parse(nil); err != nil { // parsed they are: this says so
		return err
	}
	beam.Init()
	if !verbose { // pages of it about any failure, the cause of which comes back as an error
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command, args []string) error {
	if err := start(f.verbose); err != nil {
		return err
	}
	t, err := f.task(args)
	if err != nil {
		return err
	}
	return t.redacted(t.run(cmd))
}

// run has the pipeline run, and says what became of it.
func (t *task) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	unlock, err := t.lock(cmd)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := beam.Run(ctx, cmp.Or(*runners.Runner, "prism"), t.build()); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted: the same command goes on where it stopped")
		}
		return plain(err)
	}
	if *jobopts.Async {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "submitted; when it is done, %s will say what failed\n",
			store.Show(store.Join(t.Out, summaryFile)))
		return err
	}
	s, err := takeSummary(ctx, t.Out)
	if err != nil {
		return err
	}
	return s.print(cmd, t)
}

// lock makes the results this pipeline's to write, as batch does. It is this program that has
// the lock, for as long as it waits.
func (t *task) lock(cmd *cobra.Command) (unlock func(), err error) {
	ctx, none := cmd.Context(), func() {}
	if *jobopts.Async {
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope-beam: with --async nobody holds the results' lock: start no other batch "+
			"into them before this one is done")
	}
	out, err := store.Open(ctx, t.Out)
	if err != nil {
		return none, err
	}
	held, err := out.Lock(ctx)
	switch {
	case errors.Is(err, store.ErrNoLocks):
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope-beam:", strings.Join(strings.Fields(err.Error()), " "))
		held = none
	case err != nil:
		return none, errors.Join(err, out.Close())
	}
	if *jobopts.Async { // it has told whether another is at work
		held()
		held = none
	}
	return func() { held(); out.Close() }, nil
}

// plain is the cause of a pipeline's failure, without the layers that Beam puts
// around it.
func plain(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			return errors.New(line)
		}
	}
	return err
}
