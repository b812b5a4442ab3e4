//go:build unix

package run

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// told is what a recorder writes of a process after a step.
func toldAfter(step, mib int) process {
	p := process{Capacity: map[string]int64{"0": 1 << 30}, Holders: []holder{{"main.\x1b[31mkept", 3 << 20, 3}}}
	p.PID, p.Steps = 7, step
	p.Stats = map[string]any{"0": map[string]any{"allocated_bytes.all.current": float64(mib << 20),
		"reserved_bytes.all.current": float64(512 << 20), "allocated_bytes.all.peak": float64(1 << 30), "name": "x"}}
	return p
}

func TestScreen(t *testing.T) {
	l := &live{title: "python x.py", seen: map[int][]reading{}}
	first := strings.Join(l.screen(nil, "", 0), "\n")
	if !strings.Contains(first, "nothing is known yet") {
		t.Error(first)
	}
	l.screen([]process{toldAfter(10, 100)}, "", 0)
	got := strings.Join(l.screen([]process{toldAfter(20, 120)}, "a\n10%\r\x1b[1m20%\nb", 61*time.Second), "\n")
	for _, want := range []string{"1m1s  python x.py", "process 7, device 0: step 20", "  allocated     120 MiB  ███░", " of 1 GiB",
		"slope      +2 MiB a step over 10 steps: full in 452 steps", "3 MiB  main.[31mkept", "\na\n20%\nb"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("escapes of the program's reach the terminal: %q", got)
	}
	for step := range 1000 {
		l.screen([]process{toldAfter(100+step, 120)}, "", 0)
	}
	if n := len(l.seen[7]); n != readingsKept {
		t.Errorf("%d readings are kept", n)
	}
	if got := strings.Join(l.screen([]process{toldAfter(2000, 120)}, "", 0), "\n"); !strings.Contains(got, "slope      none") {
		t.Error(got)
	}
}

const tells = `mkdir -p "$VRAMSCOPE_RUN/.hook/processes"
echo '{"pid":7,"steps":3,"memory_stats":{"0":{"allocated_bytes.all.current":1048576}},"capacity":{"0":4194304}}' \
	>"$VRAMSCOPE_RUN/.hook/processes/7.json"
echo out; echo err >&2; echo "$VRAMSCOPE_OPTIONS" >"$VRAMSCOPE_RUN/options"
`

// TestLive: on a terminal the screen is there while the program runs, and its output in the log.
func TestLive(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer ours.Close()
	shown := make(chan string)
	go func() {
		b, _ := io.ReadAll(ours)
		shown <- string(b)
	}()
	null, _ := os.Open(os.DevNull)
	defer null.Close()
	gate := filepath.Join(t.TempDir(), "gate")
	o := options(t, tells+"while ! test -e "+gate+"; do sleep 0.05; done")
	o.Live = true
	p, err := Start(o, Streams{null, theirs, theirs})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "two screens were drawn", func() bool { return p.live.drawn.Load() > 2 })
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := p.Wait()
	theirs.Close()
	got := <-shown
	if !strings.Contains(got, "25.0 % of 4 MiB") || !strings.HasPrefix(got, anotherScreen) || !strings.HasSuffix(got, firstScreen) {
		t.Errorf("shown was %q", got)
	}
	log, _ := os.ReadFile(filepath.Join(p.Dir, LogFile))
	if !strings.Contains(string(log), "out\n") || !strings.Contains(string(log), "err\n") || !r.Unseen {
		t.Errorf("the log is %q", log)
	}
	if text, _ := os.ReadFile(filepath.Join(p.Dir, "options")); !strings.Contains(string(text), "live=1") {
		t.Errorf("the recorders aren't told: %s", text)
	}
}

// TestNobodyWatches: without a terminal all is as without the flag.
func TestNobodyWatches(t *testing.T) {
	s, read := files(t)
	o := options(t, tells)
	o.Live = true
	p, err := Start(o, s)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Wait()
	if out, errors := read(); out != "out\n" || errors != "err\n" || r.Unseen {
		t.Errorf("%q and %q", out, errors)
	}
	if text, _ := os.ReadFile(filepath.Join(p.Dir, "options")); strings.Contains(string(text), "live") {
		t.Errorf("the recorders are told: %s", text)
	}
}

// TestKept: what processes say of themselves is in run.json while the program runs: we may be killed.
func TestKept(t *testing.T) {
	before := keeping
	keeping = 10 * time.Millisecond
	t.Cleanup(func() { keeping = before })
	s, _ := files(t)
	gate := filepath.Join(t.TempDir(), "gate")
	p, err := Start(options(t, tells+"while ! test -e "+gate+"; do sleep 0.05; done"), s)
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	until(t, "run.json tells of the process", func() bool {
		text, _ := os.ReadFile(filepath.Join(p.Dir, RecordFile))
		return json.Unmarshal(text, &record) == nil && len(record.Processes) == 1
	})
	if record.End != nil || record.Processes[0].Steps != 3 {
		t.Errorf("run.json is %+v", record)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Wait()
}
