package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/licenses"
)

// version and commit are set at release builds with -ldflags "-X main.version=… -X main.commit=…".
var (
	version = "devel"
	commit  = ""
)

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
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "vramscope %s\n%s\n", versionString(), build())
			return err
		},
	}
	cmd.Flags().BoolVar(&texts, "licenses", false, "print the licences of all modules and scripts that this program contains")
	return cmd
}

// build says of which commit the program is, by which compiler, for what, and with which of the stores that are parts of some
// builds alone.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	of := cmp.Or(commit, set["vcs.revision"], "unknown")
	if commit == "" && set["vcs.modified"] == "true" {
		of += ", modified"
	}
	stores := "no object stores"
	if tags := set["-tags"]; tags != "" {
		stores = "with " + tags
	}
	return fmt.Sprintf("commit %s, %s, %s/%s, %s", of, runtime.Version(), runtime.GOOS, runtime.GOARCH, stores)
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
