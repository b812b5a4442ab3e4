package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/whole"
)

// boundedCommands answer once and end. A batch bounds each of its processes.
var boundedCommands = []string{"analyze", "budget", "diff", "explain", "export", "merge", "page", "whatif"}

// leastMemory is what the program and a small recording take, in bytes: a lower limit is one
// for what is read.
const leastMemory = 64 << 20

// memoryReserve is what a process may take, in bytes, between one look at its memory and its
// end: new pages come by ten in a microsecond.
const memoryReserve = 32 << 20

// boundMemory ends a command that takes more memory than --max-memory, whatever it
// takes it for: inputs of a few bytes can ask for a great deal of work.
func boundMemory(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("max-memory")
	if flag == nil || !slices.Contains(boundedCommands, cmd.Name()) {
		return nil
	}
	limit, err := memoryLimit(flag.Value.String())
	if err == nil && limit > 0 {
		keepWithin(limit, cmd.ErrOrStderr(), fmt.Sprintf("more than %s of memory are needed, which is the limit\n"+
			"  Give more with --max-memory, or a part of the inputs.", units.Size(max(limit, leastMemory))))
	}
	return err
}

// keepWithin ends the process with a word when it takes more memory than a limit.
func keepWithin(limit int64, stderr io.Writer, said string) {
	limit = max(limit, leastMemory)
	if before := debug.SetMemoryLimit(-1); before == math.MaxInt64 { // else GOMEMLIMIT says it
		debug.SetMemoryLimit(limit - min(limit/2, leastMemory/2)) // the program itself is not the collector's
	}
	// A processor more than the work is spread over, so that the watch is never in its queue.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	go watchMemory(limit, stderr, said)
}

// watchMemory looks now and then at what the process takes. Before it comes near the limit,
// garbage is given back. Nothing is allocated between noticing and the end: whatever
// allocates has to help the collector first, while the others take more.
func watchMemory(limit int64, stderr io.Writer, message string) {
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		return // it can't be told here; the collector keeps to the limit as well as it can
	}
	said := []byte("vramscope: " + message + "\n")
	var collecting atomic.Bool
	text := make([]byte, 128)
	for pause := time.Millisecond; ; time.Sleep(pause) {
		held := residentMemory(statm, text)
		if pause = time.Millisecond; held > limit/4*3 {
			pause /= 10
		}
		switch {
		case held > limit-min(limit/8, memoryReserve):
			stderr.Write(said)
			whole.DropUnfinished()
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

// heldMemory is what this process holds.
func heldMemory() int64 {
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		return 0
	}
	defer statm.Close()
	return residentMemory(statm, make([]byte, 128))
}

// residentMemory is what the process holds of the machine's memory, in bytes, by the system's
// second figure in pages; 0 where that can't be told.
func residentMemory(statm io.ReaderAt, text []byte) (pages int64) {
	n, _ := statm.ReadAt(text, 0)
	_, rest, _ := bytes.Cut(text[:n], []byte(" "))
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		pages = pages*10 + int64(c-'0')
	}
	return pages * int64(os.Getpagesize())
}
