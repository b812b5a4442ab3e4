package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/record"
)

func newRecord() *cobra.Command {
	var most boundFlag
	cmd := &cobra.Command{
		Use:   "record [KIND…]",
		Short: "How to record properly: lines of Python to paste",
		Long: "Record prints Python to paste into a program, so that its recording can answer every\nquestion of a report. " +
			"Without a KIND it prints all of them:\n\n" + kinds(),
		Example: `  vramscope record oom
  vramscope record torchrun labels`,
		ValidArgs: record.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			recipes := record.Recipes
			if len(args) > 0 {
				recipes = nil
				for _, name := range args {
					r, ok := record.Find(name)
					if !ok {
						return fmt.Errorf("record %q: known are %s", name, strings.Join(record.Names(), ", "))
					}
					recipes = append(recipes, r)
				}
			}
			if err := most.check("text"); err != nil {
				return err
			}
			return boundedLines(cmd.OutOrStdout(), &most, record.Text(recipes...), "vramscope record KIND prints one")
		},
	}
	most.flag(cmd)
	return cmd
}

// kinds lists the recipes with what each is for.
func kinds() string {
	var b strings.Builder
	for _, r := range record.Recipes {
		fmt.Fprintf(&b, "  %-9s %s\n", r.Name, r.Title)
	}
	return strings.TrimRight(b.String(), "\n")
}
