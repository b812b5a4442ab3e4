package read

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/vramscope/vramscope/evidence"
)

// endless is a log that is made while it is read.
type endless struct {
	lines int
	line  func(i int) string
	next  int
	rest  []byte
}

func (e *endless) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.next == e.lines {
			return 0, io.EOF
		}
		e.rest = append(e.rest[:0], e.line(e.next)...)
		e.next++
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestLongLogs reads logs of which one is twenty times as long as the other:
// what is kept of them must hardly differ. A year of readings, one a minute, is
// half a million.
func TestLongLogs(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const year = 365 * 24 * 60
	shapes := map[string]func(i int) string{
		"nvidia-smi": func(i int) string {
			if i == 0 {
				return "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
			}
			return fmt.Sprintf("%s, 0, %d MiB, 81559 MiB\n", start.Add(time.Duration(i)*time.Minute).Format(
				"2006/01/02 15:04:05.000"), 40000+i%30000)
		},
		"steps": func(i int) string {
			return fmt.Sprintf("step %d | loss %.4f | dt %.2fms | mem %.2f GiB\n", i, 9-float64(i)/1e6, 640+float64(i%17),
				40+float64(i%10)/10)
		},
	}
	for name, line := range shapes {
		t.Run(name, func(t *testing.T) {
			kept := func(lines int) (int64, *evidence.Evidence) {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				_, ev, err := Evidence(&endless{lines: lines, line: line}, name, 0)
				if err != nil {
					t.Fatal(err)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				return int64(after.HeapAlloc) - int64(before.HeapAlloc), ev
			}
			short, first := kept(year / 20)
			long, second := kept(year)
			if long-short > 1<<20 {
				t.Errorf("%d bytes kept of a year, %d of eighteen days", long, short)
			}
			for _, ev := range []*evidence.Evidence{first, second} {
				for _, g := range ev.GPUs {
					if n := len(g.Series.Samples); n < 1000 || n > 2048 {
						t.Errorf("%d points", n)
					}
				}
			}
			if name == "nvidia-smi" && (second.GPUs[0].Samples != year-1 || *second.GPUs[0].PeakUsedBytes != 69999<<20) {
				t.Errorf("%+v", second.GPUs[0])
			}
			if name == "steps" && second.Steps[0].Count != year {
				t.Errorf("%+v", second.Steps[0])
			}
		})
	}
}
