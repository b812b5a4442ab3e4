package main

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/store"
)

const redactHelp = "pseudonyms for paths, users' functions, annotations and notes; VRAMSCOPE_REDACT_KEY makes them " +
	"your own"

// keyVariable is of the environment.
const keyVariable = "VRAMSCOPE_REDACT_KEY"

func newRedactor() *redact.Redactor { return redact.New(os.Getenv(keyVariable)) }

// redactError takes the names of files that a command line names out of an
// error's message, which may end in a log that others read.
func redactError(cmd *cobra.Command, args []string, err error) error {
	if redacted, _ := cmd.Flags().GetBool("redact"); !redacted {
		return err
	}
	return redactNames(err, append(inputsOf(cmd, args), valuesOf(cmd.Flags().Lookup("output"))...)...)
}

// redactNames takes the given names of files, and those of their folders, out
// of an error's message.
func redactNames(err error, paths ...string) error {
	var condition *conditionError
	if err == nil || errors.As(err, &condition) {
		return err
	}
	if errors.Is(err, open.ErrNothing) { // it goes on with files that nobody named
		err = errors.New(open.OneLine(err))
	}
	for _, p := range slices.Clone(paths) {
		if store.IsURL(p) { // messages show it without parameters, and the bucket by itself
			shown := store.Show(p)
			paths = append(paths, shown)
			for above, _ := store.Split(shown); strings.Count(above, "/") >= 2; above, _ = store.Split(above) {
				paths = append(paths, above)
			}
		}
	}
	return newRedactor().Renamed(err, paths...)
}
