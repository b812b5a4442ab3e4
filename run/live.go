package run

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
)

// live is one screen of what the program holds, drawn anew each second. It reads what the recorders write anyway.
type live struct {
	to    *os.File
	dir   string
	title string
	began time.Time
	seen  map[int][]reading // by process
	drawn atomic.Int64      // screens
	stop  chan struct{}
	done  chan struct{}
}

// reading is what was allocated after a step.
type reading struct {
	step  int
	bytes int64
}

// Numbers of the screen.
const (
	redraw       = time.Second
	readingsKept = 120
	barWidth     = 32
	holdersShown = 5
	outputShown  = 8
)

// Escapes of terminals: another screen and back, the cursor, and what is behind and below.
const (
	anotherScreen = "\x1b[?1049h\x1b[?25l"
	firstScreen   = "\x1b[?25h\x1b[?1049l"
	home          = "\x1b[H"
	clearLine     = "\x1b[K"
	clearBelow    = "\x1b[J"
)

// startLive draws where the program's errors would go, if that is a terminal; the program's output then goes into
// the log alone, whose last lines are shown.
func startLive(dir, title string, s *Streams) *live {
	if !term.IsTerminal(int(s.Err.Fd())) {
		return nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	l := &live{to: s.Err, dir: dir, title: title, began: time.Now(), seen: map[int][]reading{}, stop: make(chan struct{}),
		done: make(chan struct{})}
	if term.IsTerminal(int(s.Out.Fd())) {
		s.Out = null
	}
	s.Err = null
	go l.work()
	return l
}

func (l *live) work() {
	defer close(l.done)
	fmt.Fprint(l.to, anotherScreen)
	defer fmt.Fprint(l.to, firstScreen)
	again := time.NewTicker(redraw)
	defer again.Stop()
	for {
		width, height, err := term.GetSize(int(l.to.Fd()))
		if err != nil || width < 1 || height < 1 {
			width, height = 80, 24
		}
		lines := l.screen(processes(l.dir), lastOf(l.dir), time.Since(l.began))
		lines = lines[:min(len(lines), max(1, height-1))]
		for i, line := range lines {
			lines[i] = cut.Letters(line, width) + clearLine
		}
		fmt.Fprint(l.to, home, strings.Join(lines, "\r\n"), clearBelow)
		l.drawn.Add(1)
		select {
		case <-again.C:
		case <-l.stop:
			return
		}
	}
}

// end takes the screen away.
func (l *live) end() {
	if l != nil {
		close(l.stop)
		<-l.done
	}
}

// screen are the lines to show.
func (l *live) screen(found []process, log string, since time.Duration) []string {
	lines := []string{fmt.Sprintf("%s  %s", since.Truncate(time.Second), printable(l.title)), ""}
	shown := false
	for _, p := range found {
		for device, stats := range devicesOf(p) {
			lines = append(lines, l.device(p, device, stats)...)
			shown = true
		}
	}
	if !shown {
		lines = append(lines, "nothing is known yet: it is told after the optimizer's steps and at dumps", "")
	}
	output := strings.Split(strings.TrimRight(string(runlog.StripColours(nil, []byte(log))), "\r\n"), "\n")
	for _, line := range output[max(0, len(output)-outputShown):] {
		if i := strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r'); i >= 0 {
			line = line[i+1:] // the last state of a progress bar
		}
		lines = append(lines, printable(line))
	}
	return lines
}

// device are the lines of one device of a process.
func (l *live) device(p process, device string, stats map[string]int64) []string {
	name := fmt.Sprintf("process %d", p.PID)
	if p.Rank != nil {
		name = fmt.Sprintf("rank %d, %s", *p.Rank, name)
	}
	lines := []string{fmt.Sprintf("%s, device %s: step %s", name, device, units.Count(p.Steps))}
	capacity := p.Capacity[device]
	allocated, reserved := stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"]
	for _, row := range []struct {
		name  string
		bytes int64
	}{{"allocated", allocated}, {"reserved", reserved}, {"peak", stats["allocated_bytes.all.peak"]}} {
		line := fmt.Sprintf("  %-10s %10s", row.name, units.Size(row.bytes))
		if capacity > 0 {
			full := int(min(1, float64(row.bytes)/float64(capacity)) * barWidth)
			line += "  " + strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
			line += fmt.Sprintf("  %s of %s", units.Percent(row.bytes, capacity), units.Size(capacity))
		}
		lines = append(lines, line)
	}
	lines = append(lines, "  "+l.slope(p, allocated, capacity))
	for _, h := range p.Holders[:min(len(p.Holders), holdersShown)] {
		lines = append(lines, fmt.Sprintf("  %-10s %10s  %s", "", units.Size(h.Bytes), printable(h.Path)))
	}
	return append(lines, "")
}

// slope says how what is allocated after a step moves, and when the device would be full.
func (l *live) slope(p process, allocated, capacity int64) string {
	row := l.seen[p.PID]
	if len(row) == 0 || row[len(row)-1].step != p.Steps {
		row = append(row, reading{p.Steps, allocated})
		row = row[max(0, len(row)-readingsKept):]
		l.seen[p.PID] = row
	}
	first, last := row[0], row[len(row)-1]
	if last.step <= first.step {
		return "slope      not known yet"
	}
	each := float64(last.bytes-first.bytes) / float64(last.step-first.step)
	over := fmt.Sprintf("over %s steps", units.Count(last.step-first.step))
	if each < 1 {
		return "slope      none " + over
	}
	text := fmt.Sprintf("slope      +%s a step %s", units.Size(int64(each)), over)
	if capacity > last.bytes {
		text += fmt.Sprintf(": full in %s steps", units.Count(int(float64(capacity-last.bytes)/each)))
	}
	return text
}

// devicesOf are the counters of each device that a process has used.
func devicesOf(p process) func(func(string, map[string]int64) bool) {
	return func(yield func(string, map[string]int64) bool) {
		all, _ := p.Stats.(map[string]any)
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			counters, _ := all[name].(map[string]any)
			stats := map[string]int64{}
			for key, value := range counters {
				if n, ok := value.(float64); ok {
					stats[key] = int64(n)
				}
			}
			if !yield(name, stats) {
				return
			}
		}
	}
}

// printable is a text without what moves a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
