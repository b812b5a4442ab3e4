package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/apart"
	"github.com/vramscope/vramscope/internal/mcp"
)

func newMCP() *cobra.Command {
	o := mcp.Options{Version: versionString()}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Answer agents over the Model Context Protocol, on standard input and output",
		Long: `Mcp serves analyze, explain, whatif, budget, diff and record as tools. It only reads,
and only files below the roots, links resolved. Each call is a process of its own
with bounded time, memory and answer.`,
		Example: `  vramscope mcp --root /data/runs
  vramscope mcp --root runs --root configs --timeout 5m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Run = itself()
			if _, err := memoryLimit(o.MaxMemory); err != nil {
				return err
			}
			if o.Timeout <= 0 {
				return fmt.Errorf("--timeout %v: more than nothing", o.Timeout)
			}
			server, err := mcp.New(o)
			if err != nil {
				return err
			}
			return server.Run(cmd.Context(), mcp.Lines(cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.Roots, "root", []string{"."}, "read files below `DIR` only (repeatable)")
	flags.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "a call takes at most this `TIME`")
	flags.StringVar(&o.MaxMemory, "max-memory", "4GiB", "a call uses at most this `SIZE` of memory")
	flags.IntVar(&o.MaxBytes, "max-bytes", 20_000, "an answer has at most `N` bytes unless a call asks for another number")
	flags.BoolVar(&o.Redact, "redact", false, redactHelp)
	return cmd
}

// itself runs this program with other arguments, without the environment: there is
// nothing in it that a tool should use.
func itself() func(context.Context, []string) (mcp.Result, error) {
	return func(ctx context.Context, args []string) (mcp.Result, error) {
		c, err := thisProgram(ctx, args...)
		if err != nil {
			return mcp.Result{}, err
		}
		c.WaitDelay = time.Second
		c.Env = []string{keyVariable + "=" + os.Getenv(keyVariable)}
		stdout, stderr := &apart.Head{Most: 1 << 20}, &apart.Head{Most: 8 << 10}
		c.Stdout, c.Stderr = stdout, stderr
		err = c.Run()
		r := mcp.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: c.ProcessState.ExitCode()}
		var exit *exec.ExitError
		if errors.As(err, &exit) && r.Code > 0 {
			err = nil
		}
		return r, err
	}
}
