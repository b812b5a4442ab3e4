package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/internal/apart"
	"github.com/vramscope/vramscope/store"
)

// mayGrow is how many bytes more a batch may hold while its runs are done.
const mayGrow = 8 << 20

// apart is how the runs are done by this program in other processes, which are given the
// same flags.
func (f *batchFlags) apart(cmd *cobra.Command, roots []string, limit int64, c *batch.Config) *apart.Runs {
	args := append([]string{"runs", "--build=" + c.Build},
		flagsGiven(cmd, "jobs", "quiet", "fail-on", "shard", "prune")...)
	return &apart.Runs{Refuse: batch.NewWorker(*c).Refuse, Start: func(ctx context.Context) (*exec.Cmd, error) {
		if limit > 0 {
			debug.FreeOSMemory()
		}
		beside := fmt.Sprintf("--beside=%d", heldMemory()+mayGrow)
		return thisProgram(ctx, slices.Concat(args, []string{beside, "--"}, roots)...)
	}}
}

// newRuns is what a batch runs to do its runs.
func newRuns() *cobra.Command {
	var f batchFlags
	var build string
	var beside int64
	cmd := &cobra.Command{
		Use:    "runs DIR… -o OUT",
		Short:  "Do runs for batch",
		Hidden: true,
		RunE: func(cmd *cobra.Command, roots []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM) // the batch says when it is over
			limit, err := memoryLimit(f.maxMemory)
			if err != nil {
				return err
			}
			if limit > 0 {
				keepWithin(limit-beside, cmd.ErrOrStderr(), "needs more memory than --max-memory leaves to a run")
				if os.Getenv("GOGC") == "" {
					debug.SetGCPercent(400) // the collector works less far from the limit
				}
			}
			c, err := f.work(cmd, limit)
			if err != nil {
				return err
			}
			c.Build = build
			var stores store.Pool
			defer stores.Close()
			if c.Out, err = stores.Place(cmd.Context(), f.output); err != nil {
				return err
			}
			for _, root := range roots { // what is said with a bucket holds for all in it
				if !store.IsURL(root) {
					continue
				}
				if _, err := stores.Place(cmd.Context(), root); err != nil {
					return err
				}
			}
			c.Options.Stores = &stores
			apart.Serve(cmd.Context(), batch.NewWorker(*c), cmd.InOrStdin(), cmd.OutOrStdout())
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&build, "build", "", "tells this `VERSION` from others")
	cmd.Flags().Int64Var(&beside, "beside", 0, "`BYTES` that the batch takes itself")
	return cmd
}

// flagsGiven are the flags of a command line, but for some.
func flagsGiven(cmd *cobra.Command, without ...string) (flags []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(without, f.Name) {
			return
		}
		for _, v := range valuesOf(f) {
			flags = append(flags, "--"+f.Name+"="+v)
		}
	})
	return flags
}

// thisProgram is a command line of this program.
func thisProgram(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Args[0] = os.Args[0]
	return c, nil
}
