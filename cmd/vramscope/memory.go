package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/units"
)

// boundedCommands answer once and end. A batch keeps its runs within bounds one by one.
var boundedCommands = []string{"analyze", "budget", "diff", "explain", "export", "page", "whatif"}

// leastMemory is what the program and a small recording take, in bytes: a lower limit is one
// for what is read.
const leastMemory = 64 << 20

// boundMemory ends a command that takes more memory than --max-memory, whatever it
// takes it for: inputs of a few bytes can ask for a great deal of work.
func boundMemory(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("max-memory")
	if flag == nil || !slices.Contains(boundedCommands, cmd.Name()) {
		return nil
	}
	limit, err := memoryLimit(flag.Value.String())
	if err != nil || limit == 0 {
		return err
	}
	limit = max(limit, leastMemory)
	if before := debug.SetMemoryLimit(-1); before == math.MaxInt64 { // else GOMEMLIMIT says it
		debug.SetMemoryLimit(limit - min(limit/2, leastMemory/2)) // the program itself is not the collector's
	}
	go watchMemory(limit, cmd.ErrOrStderr())
	return nil
}

// watchMemory looks now and then at what the process takes. Before it comes near the limit,
// garbage is given back.
func watchMemory(limit int64, stderr io.Writer) {
	var collecting atomic.Bool
	for range time.Tick(time.Millisecond) {
		switch held := residentMemory(); {
		case held > limit/100*97:
			dropHalfWritten()
			fmt.Fprintf(stderr, "vramscope: more than %s of memory are needed, which is the limit\n  Give more with "+
				"--max-memory, or a part of the inputs.\n", units.Size(limit))
			os.Exit(exitUnusable)
		case held > limit/4*3 && collecting.CompareAndSwap(false, true):
			go func() { // which may come too late
				debug.FreeOSMemory()
				time.Sleep(50 * time.Millisecond)
				collecting.Store(false)
			}()
		}
	}
}

// residentMemory is what the process holds of the machine's memory, in bytes; 0 where that
// can't be told.
func residentMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(cmp.Or(os.Getpagesize(), 4096))
}
