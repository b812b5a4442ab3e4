package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/store"
)

// spareInputs refuses an output that is one of the inputs: a recording of a
// failure may be the only one. A link is only replaced by the output.
func spareInputs(cmd *cobra.Command, args []string) error {
	inputs := inputsOf(cmd, args)
	if n := len(inputs) - len(slices.DeleteFunc(slices.Clone(inputs), func(name string) bool { return name == "-" })); n > 1 {
		return errors.New("- stands for standard input, which can be one input only")
	}
	for _, out := range valuesOf(cmd.Flags().Lookup("output")) {
		name, local := store.Path(out)
		info, err := os.Lstat(name)
		if !local || err != nil || info.IsDir() {
			continue
		}
		for _, in := range inputs {
			name, local := store.Path(in)
			if other, err := os.Stat(name); local && err == nil && os.SameFile(info, other) {
				return fmt.Errorf("-o %s is an input of this command, too: nothing was written", out)
			}
		}
	}
	return nil
}

// inputsOf are the files that a command line names to be read.
func inputsOf(cmd *cobra.Command, args []string) []string {
	inputs := slices.Clone(args)
	for _, name := range pathFlags {
		inputs = append(inputs, valuesOf(cmd.Flags().Lookup(name))...)
	}
	return inputs
}

// sameFolder tells two names of one folder, or of one prefix in a bucket.
func sameFolder(a, b string) bool {
	x, local := store.Path(a)
	y, other := store.Path(b)
	if !local || !other {
		return strings.TrimSuffix(store.Show(a), "/") == strings.TrimSuffix(store.Show(b), "/")
	}
	first, err := os.Stat(x)
	second, err2 := os.Stat(y)
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// valuesOf are a flag's values, none of one that a command doesn't have.
func valuesOf(f *pflag.Flag) []string {
	if f == nil {
		return nil
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}
