package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/store"
)

// presentation are flags that say where a report goes or how it looks, and what
// stands above it.
var presentation = []string{"format", "output", "title", "note", "quiet", "no-color", "max-memory", "fail-on", "redact",
	"redact-title", "max-bytes", "all-steps"}

// pathFlags are flags whose values are files.
var pathFlags = []string{"config", "model", "labels", "recipe"}

// commandLine is what makes the same report again. With a redactor, files have
// the names that the report gives them.
func commandLine(cmd *cobra.Command, args []string, r *redact.Redactor) []string {
	out := []string{cmd.Root().Name(), cmd.Name()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(presentation, f.Name) {
			return
		}
		for _, v := range valuesOf(f) {
			switch {
			case f.Value.Type() == "bool" && v == "true":
				out = append(out, "--"+f.Name)
				continue
			case r != nil && slices.Contains(pathFlags, f.Name):
				v = r.Input(store.Show(v))
			}
			out = append(out, "--"+f.Name+"="+v)
		}
	})
	for _, a := range args {
		a = store.Show(a)
		if r != nil {
			a = r.Input(a)
		}
		out = append(out, a)
	}
	return out
}
