//go:build unix

// Command passes measures what each pass over a snapshot takes, for compare.sh:
// one line of a word and a number for each, in seconds but for the last three. What
// a small file takes once more in the same process is a pass, too.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: passes FILE")
		os.Exit(2)
	}
	if err := measure(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "passes:", err)
		os.Exit(1)
	}
}

func measure(name string) error {
	last := time.Now()
	lap := func(pass string) {
		fmt.Printf("%s %.6f\n", pass, time.Since(last).Seconds())
		last = time.Now()
	}
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	if st.Size() < 128<<20 { // as the command does with files of this size
		debug.SetGCPercent(1600)
	}
	s, err := snapshot.Open(name, snapshot.Options{})
	if err != nil {
		return err
	}
	lap("decode")
	memory := peakMemory()
	var devices []dataset.Recording
	events := 0
	for i := range s.Devices {
		events += s.Devices[i].Events.Len()
		devices = append(devices, dataset.Recording{Timeline: timeline.New(s, &s.Devices[i])})
	}
	lap("timeline")
	for i := range devices {
		devices[i].Classes = classify.New(devices[i].Timeline, classify.Options{})
		devices[i].Classes.Leaks()
	}
	lap("classify")
	written, err := writeTables(s, devices)
	if err != nil {
		return err
	}
	lap("tables")
	if st.Size() < 16<<20 {
		if err := decodeAgain(name); err != nil {
			return err
		}
	}
	fmt.Printf("memory %d\nevents %d\nevents.parquet %d\n", memory, events, written)
	return nil
}

// decodeAgain tells the best of many times: the first in a process is mostly page
// faults, of a small file.
func decodeAgain(name string) error {
	best := time.Hour
	for range 300 {
		start := time.Now()
		if _, err := snapshot.Open(name, snapshot.Options{}); err != nil {
			return err
		}
		best = min(best, time.Since(start))
	}
	fmt.Printf("decode-again %.6f\n", best.Seconds())
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

// writeTables writes all tables of the recording as Parquet, two at a time, and
// gives the size of that of the events.
func writeTables(s *snapshot.Snapshot, devices []dataset.Recording) (int64, error) {
	dir, err := os.MkdirTemp("", "passes-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	view := frames.New(s)
	var events atomic.Int64
	var g errgroup.Group
	g.SetLimit(2)
	for _, t := range dataset.RecordingTables() {
		g.Go(func() error {
			f, err := os.Create(filepath.Join(dir, t.Name))
			if err != nil {
				return err
			}
			defer f.Close()
			b := bufio.NewWriter(f)
			if err := writeTable(b, t, view, devices); err != nil {
				return err
			}
			if err := b.Flush(); err != nil {
				return err
			}
			if t == dataset.Events {
				n, err := f.Seek(0, io.SeekCurrent)
				events.Store(n)
				return err
			}
			return nil
		})
	}
	err = g.Wait()
	return events.Load(), err
}

func writeTable(w io.Writer, t *dataset.Table, view *frames.View, devices []dataset.Recording) error {
	sink, err := dataset.NewSink(w, dataset.Parquet, t)
	if err != nil {
		return err
	}
	for _, r := range devices {
		r.View = view
		if err := r.Write(sink, t, r.Timeline.Device.Events.Len()-1); err != nil {
			return err
		}
		if t == dataset.Stacks {
			break // the same for all
		}
	}
	return sink.Close()
}
