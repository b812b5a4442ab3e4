package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/record"
)

func newRecord() *cobra.Command {
	return &cobra.Command{
		Use:       "record [KIND…]",
		Short:     "How to record properly: lines of Python to paste",
		Long:      "Record prints the code that makes a recording which can answer, for " + strings.Join(record.Names(), ", ") + "; without a name, all of it.",
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
			_, err := fmt.Fprint(cmd.OutOrStdout(), record.Text(recipes...))
			return err
		},
	}
}
