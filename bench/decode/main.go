//go:build unix

// Command decode measures how long a snapshot takes to read, for compare.sh:
// one line of seconds of decoding and of the timeline, megabytes of peak memory
// as the kernel counts them, and events.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: decode FILE")
		os.Exit(2)
	}
	if err := measure(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
}

func measure(name string) error {
	start := time.Now()
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	s, err := snapshot.Decode(f, snapshot.Options{Size: st.Size()})
	if err != nil {
		return err
	}
	decoded := time.Since(start)
	memory := peakMemory()
	events := 0
	for i := range s.Devices {
		events += s.Devices[i].Events.Len()
		timeline.New(s, &s.Devices[i])
	}
	fmt.Printf("%.4f %.4f %.1f %d\n", decoded.Seconds(), (time.Since(start) - decoded).Seconds(), float64(memory)/1e6, events)
	return nil
}

// peakMemory is the largest resident set so far, in bytes.
func peakMemory() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) << 10 // Linux counts in KiB
}
