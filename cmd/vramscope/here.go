package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/site/engine"
)

// mostHere bounds how many files of a folder are looked at.
const mostHere = 2000

// offerHere lets the program without a command say what it would do with the recordings of the working directory. Where there
// are none it prints its help.
func offerHere(root *cobra.Command) {
	root.Args = cobra.ArbitraryArgs // a word that is no command is refused below, as it was without this
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cobra.NoArgs(cmd, args) // the error for a word that is no command
		}
		dir, err := os.Open(".")
		if err != nil {
			return cmd.Help()
		}
		defer dir.Close()
		entries, err := dir.ReadDir(mostHere)
		if err != nil && !errors.Is(err, io.EOF) {
			return cmd.Help()
		}
		var names []string
		for _, e := range entries {
			if e.Type().IsRegular() {
				names = append(names, e.Name())
			}
		}
		if text := engine.Here(names); text != "" {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		}
		return cmd.Help()
	}
}
