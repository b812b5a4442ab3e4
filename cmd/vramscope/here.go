package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/site/engine"
)

// offerHere lets the program without a command say what it would do with the recordings of the working directory. Where there
// are none it prints its help.
func offerHere(root *cobra.Command) {
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cobra.NoArgs(cmd, args) // the error for a word that is no command
		}
		text := engine.Here(".")
		if text == "" {
			return cmd.Help()
		}
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
}
