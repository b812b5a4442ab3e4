package main

import (
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/units"
	vrun "github.com/vramscope/vramscope/run"
)

// patience is how long a program may stay in native code before attach gives up.
const patience = 30 * time.Second

func newAttach() *cobra.Command {
	var a vrun.Attachment
	var ring string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "attach PID",
		Short: "Look into a program that runs already: what it holds on the GPU, and which variables hold it",
		Long: `Attach has a running Python program say what it holds on the GPU and by which
variables, though it was started without a recorder, and answers as for a failure.
PID may be a launcher's (torchrun, a shell): then all processes below it answer.

The program stands still for as long as its objects are looked through, at most some
seconds, and goes on as before: nothing stays in it. Python 3.14 and newer are asked
by themselves (sys.remote_exec), older ones through gdb. Only on Linux, and only by
who may trace the program.`,
		Example: `  vramscope attach 4711
  vramscope attach 4711 --record 60s    # also what it allocates in a minute`,
		Args:              cobra.ExactArgs(1),
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // the argument is no input
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid < 1 {
				return fmt.Errorf("attach %q: the number of a process, as nvidia-smi prints it", args[0])
			}
			a.PID = pid
			if a.Ring, err = sizeOf("--ring", ring); err != nil {
				return err
			}
			if cmd.Flags().Changed("stacks") && a.Record == 0 || cmd.Flags().Changed("ring") && a.Record == 0 {
				return errors.New("--stacks and --ring have no effect without --record")
			}
			if err := a.Check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			dir, r, err := vrun.Attach(ctx, a)
			if err != nil {
				return err
			}
			said(cmd.ErrOrStderr(), dir, r)
			for _, note := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "vramscope:", printable(errors.New(note)))
			}
			arguments := []string{dir}
			if quiet {
				arguments = append(arguments, "--quiet")
			}
			return analyzeInto(cmd.OutOrStdout(), cmd.ErrOrStderr(), arguments...)
		},
	}
	flags := cmd.Flags()
	outputFlag(cmd, &a.Dir, "the `DIRECTORY` for what is recorded (default vramscope-pid-PID-N)")
	flags.DurationVar(&a.Record, "record", 0, "record what it allocates for `DURATION`, as in 60s")
	flags.DurationVar(&a.Wait, "wait", patience, "wait for it to come back from native code for `DURATION`")
	flags.StringVar(&a.Stacks, "stacks", "all", "the stacks to record: all, python or none")
	flags.StringVar(&ring, "ring", units.Size(vrun.DefaultRing),
		"host memory for events and their dumps, by `SIZE`: older events fall out")
	flags.BoolVarP(&quiet, "quiet", "q", false, "the verdict alone")
	return cmd
}
