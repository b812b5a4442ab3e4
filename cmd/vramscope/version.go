package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/licenses"
)

// version is set at release builds with -ldflags "-X main.version=…".
var version = "devel"

func newVersion() *cobra.Command {
	texts := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, or the licences of all that is in the program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if texts {
				return writeLicenses(cmd.OutOrStdout())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "vramscope", versionString())
			return err
		},
	}
	cmd.Flags().BoolVar(&texts, "licenses", false, "print the licences of all modules and scripts that this program contains")
	return cmd
}

// writeLicenses prints the texts of what this build contains.
func writeLicenses(out io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return licenses.All().WriteText(out) // more than all
	}
	l, missing := licenses.All().In(info)
	if err := l.WriteText(out); err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("no licence is known of %s: this program was built with other modules than go.mod names",
		strings.Join(missing, ", "))
}

// versionString is the release's version, or the module's as the Go tool recorded it.
func versionString() string {
	if version != "devel" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
