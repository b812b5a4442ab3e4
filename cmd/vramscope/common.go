package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
)

// memoryLimit is --max-memory in bytes; without it, three quarters of the
// container's or machine's.
func memoryLimit(flag string) (int64, error) {
	if flag == "" {
		return batch.MachineMemory() / 4 * 3, nil
	}
	return sizeOf("--max-memory", flag)
}

// sizeOf is a flag's size of memory, in bytes. A small one lacks its unit.
func sizeOf(flag, text string) (int64, error) {
	n, err := units.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if n < 1<<20 {
		return 0, fmt.Errorf("%s %s: less than 1 MiB; give a unit, as in 8GiB", flag, text)
	}
	return n, nil
}

// readingFlags are those of commands that read one run.
func readingFlags(cmd *cobra.Command, partial, redact *bool, maxMemory *string) {
	flags := cmd.Flags()
	flags.BoolVar(partial, "partial", false, "use what a damaged file still holds")
	flags.BoolVar(redact, "redact", false, redactHelp)
	maxMemoryFlag(cmd, maxMemory)
}

// maxMemoryFlag bounds a command, see boundMemory.
func maxMemoryFlag(cmd *cobra.Command, size *string) {
	cmd.Flags().StringVar(size, "max-memory", "",
		"refuse to use more memory than `SIZE` (default: three quarters of the container's or machine's)")
}

// numberFlag is a flag for a number from 0 on; -1, of which its help says
// nothing, is what it is when it isn't given.
func numberFlag(cmd *cobra.Command, n *int, name, usage string) {
	cmd.Flags().IntVar(n, name, -1, usage)
	cmd.Flags().Lookup(name).DefValue = "0" // which pflag doesn't show
}

// outputFlag is -o where there is one output only: of several the last would
// win, and nobody would hear of the others.
func outputFlag(cmd *cobra.Command, text *string, usage string) {
	cmd.Flags().VarP(&once{text: text}, "output", "o", usage)
}

// once is the text of a flag that is given once at most.
type once struct {
	text  *string
	given bool
}

func (o *once) Set(text string) error {
	if o.given {
		return errors.New("given more than once")
	}
	*o.text, o.given = text, true
	return nil
}

func (o *once) String() string {
	if o.text == nil {
		return ""
	}
	return *o.text
}

func (o *once) Type() string { return "string" }

// capacityOf is the size of the GPU that --gpu names, 0 without one.
func capacityOf(gpu string) (int64, error) {
	if gpu == "" {
		return 0, nil
	}
	found, err := gpus.Find(gpu)
	if err != nil {
		return 0, fmt.Errorf("--gpu: %w", err)
	}
	return found.Capacity, nil
}

// readingLimit is how many bytes reading a recording may take, so that what is
// then made of it, half as much again, stays within --max-memory, too.
func readingLimit(flag string) (int64, error) {
	const program = 24 << 20 // bytes that it takes for nothing
	limit, err := memoryLimit(flag)
	return (limit - min(limit/2, program)) / 3 * 2, err
}

// smallInputs is the size of files, in bytes, below which memory is not worth
// collecting often: a fifth of the time of a short run goes into that.
const smallInputs = 128 << 20

// collectRarely lets garbage lie when all inputs are small files.
func collectRarely(names []string) {
	var bytes int64
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			return
		}
		bytes += st.Size()
	}
	if bytes < smallInputs {
		debug.SetGCPercent(1600)                                           // the first time at 64 MiB, which most never reach
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), 8*smallInputs)) // compressed ones may turn out large
	}
}

// writeJSON writes a value as people can read it, too.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
