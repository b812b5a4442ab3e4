package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/doc"
	"github.com/vramscope/vramscope/gpus"
)

// offerValues lets the shell complete values of flags: those that a command
// takes for --format and --table, and those that a flag's help lists. Flags
// whose values are numbers or words of the user's own offer nothing.
func offerValues(root *cobra.Command) {
	reports := formatWords
	formats := map[string][]string{"analyze": gateWords, "diff": gateWords, "budget": reports,
		"whatif": reports, "explain": reports,
		"export": {"jsonl", "csv", "arrow", "parquet", "pprof", "perfetto", "speedscope"}}
	tables := []string{"all"}
	for _, t := range exportTables() {
		tables = append(tables, t.Name)
	}
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			var values []string
			switch f.Name {
			case "format":
				values = formats[cmd.Name()]
			case "table":
				values = tables
			case "finding":
				values = doc.Findings()
			case "gpu", "simulate":
				values = gpus.Names()
			case "at":
				values = []string{"peak", "end"}
			case "precision", "optimizer", "checkpointing", "attention", "loss", "kv", "cache", "allocator":
				words, _, _ := strings.Cut(f.Usage, "(")
				if _, after, ok := strings.Cut(words, ":"); ok {
					words = after
				}
				values = strings.Fields(words)
			default:
				return
			}
			if values == nil {
				return
			}
			cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		})
	}
}
