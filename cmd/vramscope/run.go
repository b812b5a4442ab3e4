package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report/gates"
	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/solve"
)

// exitError is the exit code of a program that was run, for which nothing is printed.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

type runFlags struct {
	options   vrun.Options
	ring      string
	noHolders bool
	failOn    []string
	noAnalyze bool
	printEnv  bool
	simulate  solve.Flags
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND…",
		Short: "Run a program that uses PyTorch, record it without an edit, and say what filled the GPU",
		Long: `Run starts a program as it is (python, torchrun, accelerate, deepspeed, uv run, a
shell script) and records every process of it that uses CUDA. The program's
output, exit code and signals stay its own. Snapshots are taken before an
out-of-memory error unwinds, at steps, on SIGUSR2, at SIGTERM and at the end.

Everything lies in one directory, vramscope-NAME-N by default, which
` + "`vramscope analyze`" + ` reads; the verdict is printed to standard error in the end,
and a page written when the program failed.

With --simulate GPU the program needs no GPU: PyTorch's own code runs on one that
keeps books of its memory and computes nothing, and the verdict is whether the
program fits. See ` + "`vramscope help simulation`" + `.`,
		Example: `  vramscope run -- python train.py --lr 1e-4
  vramscope run --steps 3:6 -- torchrun --nproc-per-node 8 train.py
  vramscope run --print-env -o /shared/run1   # for Slurm, Ray, Kubernetes
  vramscope run --simulate "A100 40GB" -- python train.py
  vramscope run --simulate "A100 40GB" --solve 1:64 -- python train.py --batch-size {}`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !f.printEnv {
				return errors.New("run: no command\n  Give it behind --, as in `vramscope run -- python train.py`")
			}
			return nil
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // the arguments are no inputs
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command is its own
	outputFlag(cmd, &f.options.Dir, "the run's `DIRECTORY` (default vramscope-NAME-N)")
	flags.StringVar(&f.options.Stacks, "stacks", "all", "the stacks to record: all, python or none")
	flags.StringVar(&f.ring, "ring", units.Size(vrun.DefaultRing),
		"host memory for events and their dumps, by `SIZE`: older events fall out")
	flags.StringVar(&f.options.Steps, "steps", "",
		"also dump after the optimizer's steps `A:B`, at both; A: records from step A on")
	flags.DurationVar(&f.options.Every, "every", 0, "dump what is held every `DURATION`, as in 10m, with events when it grew")
	flags.BoolVar(&f.options.Live, "live", false, "show on the terminal what is held, in place of the program's output")
	flags.BoolVar(&f.noHolders, "no-holders", false, "don't look for the variables that hold tensors")
	flags.BoolVar(&f.noAnalyze, "no-analyze", false, "don't analyse in the end")
	flags.StringVar(&f.options.Ranks, "ranks", "", "record these ranks alone, a `LIST` as in 0,2-3")
	flags.BoolVar(&f.printEnv, "print-env", false, "print the variables that record a program started elsewhere, and run nothing")
	f.simulate.Define(flags)
	flags.StringArrayVar(&f.failOn, "fail-on", nil,
		"exit with 1 when the program ended well and `CONDITION` holds: "+gates.Help+" (repeatable)")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	o := &f.options
	if err := f.check(cmd, args); err != nil {
		return err
	}
	if f.printEnv {
		return printEnvironment(cmd.OutOrStdout(), o)
	}
	if f.simulate.Solve != "" {
		s := &solve.Solver{Name: shorter}
		fits, err := s.Find(cmd.ErrOrStderr(), f.simulate.Solve, o)
		if err == nil && !fits {
			return &conditionError{[]string{"nothing of " + f.simulate.Solve + " fits"}}
		}
		return err
	}
	p, err := vrun.Start(*o, vrun.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	var not *vrun.NotStarted
	if errors.As(err, &not) {
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope: run:", printable(err))
		return &exitError{not.Code}
	} else if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	result := p.Wait()
	if result.Refused != "" {
		return &simulate.Refusal{Text: result.Refused}
	}
	judged := f.tell(cmd.ErrOrStderr(), p.Dir, result)
	if f.simulate.Most && result.Status == 0 {
		if err := (&solve.Solver{Name: shorter}).Most(cmd.ErrOrStderr(), p.Dir, o); err != nil {
			return err
		}
	}
	vrun.DieOf(result.Signal)
	if result.Status == 0 {
		return judged
	}
	return &exitError{result.Status}
}

// check refuses what can't be meant, before anything is made or started.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	o := &f.options
	o.Command, o.Holders = args, !f.noHolders
	var err error
	if o.Ring, err = sizeOf("--ring", f.ring); err != nil {
		return err
	}
	if f.printEnv && f.simulate.GPU != "" {
		return errors.New("--simulate has no effect with --print-env, by which programs record themselves where GPUs are")
	}
	if err := f.simulate.Set(cmd.Flags().Changed, o); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if _, err := gates.Parse(f.failOn); err != nil {
		return err
	}
	if len(f.failOn) > 0 && (f.noAnalyze || f.printEnv) {
		return errors.New("--fail-on has no effect where nothing is analysed")
	}
	if f.simulate.Solve != "" && len(f.failOn) > 0 {
		return errors.New("--fail-on has no effect with --solve, which fails where nothing fits")
	}
	return nil
}

// printEnvironment prints what a job script, a pod or a runtime environment must set.
func printEnvironment(w io.Writer, o *vrun.Options) error {
	if o.Dir == "" {
		return errors.New("run: --print-env needs -o DIR, a directory that every node sees")
	}
	dir, err := o.Folder()
	if err != nil {
		return err
	}
	hook, err := vrun.Place(dir)
	if err != nil {
		return fmt.Errorf("run: --print-env: %w", err)
	}
	for _, v := range o.Environment(dir, hook, os.LookupEnv) {
		fmt.Fprintf(w, "export %s=%s\n", v.Name, vrun.Quote(v.Value))
	}
	return nil
}

// tell says what was recorded, and the verdict, and gives what --fail-on makes of that.
func (f *runFlags) tell(w io.Writer, dir string, r *vrun.Result) error {
	said(w, dir, r)
	if f.noAnalyze {
		return nil
	}
	args := []string{dir, "--title", r.Environment.Command}
	if r.Environment.Simulated == nil {
		args = append(args, "--quiet")
	}
	for _, condition := range f.failOn {
		args = append(args, "--fail-on", condition)
	}
	page := filepath.Join(dir, vrun.ReportFile)
	if r.Failed() {
		args = append(args, "-o", page)
	}
	err := analyzeInto(w, io.Discard, args...)
	var holds *conditionError
	if errors.Is(err, open.ErrNothing) && len(f.failOn) == 0 { // no dump, and nothing printed that says something of memory
		return nil
	}
	switch _, none := os.Stat(page); {
	case err != nil && !errors.As(err, &holds) && len(f.failOn) == 0:
		fmt.Fprintln(w, "vramscope:", printable(err))
		return nil
	case none == nil:
		fmt.Fprintf(w, "vramscope: the report is %s\n", shorter(page))
	case r.Recorded > 0:
		fmt.Fprintf(w, "vramscope: more with `vramscope analyze %s`\n", vrun.Quote(shorter(dir)))
	}
	if err != nil && r.Status != 0 {
		fmt.Fprintln(w, "vramscope:", printable(err)) // the exit code stays the program's
	}
	return err
}

// analyzeInto is the command `analyze` on a run's directory, as a part of another command.
func analyzeInto(out, errors io.Writer, args ...string) error {
	analyze := newAnalyze()
	analyze.SilenceErrors, analyze.SilenceUsage = true, true
	analyze.SetArgs(args)
	analyze.SetOut(out)
	analyze.SetErr(errors)
	return analyze.Execute()
}

// said says how the program ended, and what was recorded.
func said(w io.Writer, dir string, r *vrun.Result) {
	if r.Ending != "" {
		fmt.Fprintln(w, "vramscope:", printable(errors.New(r.Ending)))
	}
	if r.Unseen {
		fmt.Fprintf(w, "vramscope: the program's output is in %s\n", shorter(filepath.Join(dir, vrun.LogFile)))
	}
	why := r.Missing()
	if why != "" {
		fmt.Fprintf(w, "vramscope: %s\n", why)
	} else {
		fmt.Fprintf(w, "vramscope: %s recorded into %s\n", processes(r.Recorded), shorter(dir))
	}
	for _, p := range r.Processes {
		for _, n := range p.Notes {
			if why != "" && strings.Contains(why, n) {
				continue // said already
			}
			fmt.Fprintf(w, "vramscope: process %d: %s\n", p.PID, printable(errors.New(n)))
		}
	}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return units.Count(n) + " processes"
}

// shorter is a path as seen from here.
func shorter(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) {
		return below
	}
	return path
}
