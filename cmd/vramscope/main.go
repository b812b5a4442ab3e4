// Command vramscope reads what a PyTorch run leaves behind and says what
// filled the GPU, why, and what to change.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report/view"
)

// Exit codes, as scripts rely on them.
const (
	exitFine      = 0
	exitCondition = 1 // a --fail-on condition holds
	exitUnusable  = 2 // unusable input or usage
)

// conditionError says which --fail-on conditions hold; it is a result, not a failure.
type conditionError struct{ conditions []string }

func (e *conditionError) Error() string {
	s := "condition holds:"
	for _, c := range e.conditions {
		s += " " + c
	}
	return s
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	refuseUnknown(root)
	cmd, err := root.ExecuteC()
	var condition *conditionError
	var exit *exitError
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &condition):
		fmt.Fprintln(stderr, "vramscope:", printable(err))
		return exitCondition
	default:
		fmt.Fprintln(stderr, "vramscope:", printable(errors.New(ownWords(cmd, err))))
		return exitUnusable
	}
}

// refuseUnknown makes errors of shells and topics that cobra's own commands
// don't know: they print their help and end as if nothing was wrong.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion": // whose arguments are looked at only if it can be run
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			offerTopics(root, cmd)
		}
	}
}

// printable keeps names of files in an error from steering a terminal; its lines
// are its own.
func printable(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = view.Printable(line)
	}
	return strings.Join(lines, "\n")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "vramscope",
		Short:   "What filled the GPU, why, what it should have been, and what to change",
		Version: versionString(),
		Example: `  vramscope analyze snapshot.pickle train.log               it failed: what filled the GPU, and what to change
  vramscope run -- python train.py                          record a program, and say the same when it fails
  vramscope run --simulate "A100 40GB" -- python train.py   whether it fits a GPU that isn't here`,
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(spareInputs(cmd, args), boundMemory(cmd))
		},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(newAnalyze(), newAttach(), newDiff(), newExport(), newRecord(), newRun(), newVersion())
	root.AddCommand(newBudget())
	root.AddCommand(newWhatif())
	root.AddCommand(newBatch(), newRuns(), newMerge())
	root.AddCommand(newExplain(), newMCP(), newSkill())
	root.AddCommand(newView(), newPage())
	offerValues(root)
	offerHere(root)
	return root
}
