package faults

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A few bytes that ask for much memory: no command takes more than --max-memory says. It
// answers, or says in one line that it needs more.
func TestMemoryStaysWithinTheLimit(t *testing.T) {
	const limit = 128 << 20
	dir := t.TempDir()
	name := func(name string) string { return filepath.Join(dir, name) }
	inputs := hostile(t, dir)
	archive := name("model.pt")
	written(t, archive, "\x80\x02](", times{30_000_000, "N"}, "e.")
	small := filepath.Join(recordings, usual[0], "snapshot_all.pickle.gz")

	commands := [][]string{{"budget", "--model", archive}, {"analyze", small, "--model", archive}}
	for _, input := range inputs {
		commands = append(commands,
			[]string{"analyze", input, "-q", "-o", name("x.json"), "-o", name("x.html"), "-o", name("x.md")},
			[]string{"export", input, "--format", "pprof", "-o", name("x.pb.gz")})
	}
	commands = append(commands, []string{"whatif", inputs[3]}, []string{"explain", inputs[3], "--oom", "0"},
		[]string{"diff", inputs[1], small}, []string{"export", inputs[4], "--table", "all", "-o", name("tables")})
	for _, args := range commands {
		var o outcome
		most := int64(2 * limit)
		for try := 0; most > limit && try < tries; try++ {
			c := command(t, append(args, fmt.Sprintf("--max-memory=%d", limit))...)
			o = finish(t, c)
			most = c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		}
		what := strings.ReplaceAll(strings.Join(args, " "), dir, "")
		if most > limit {
			t.Errorf("%s: took %d MiB of %d; %d %s", what, most>>20, limit>>20, o.code, o.errors)
		}
		if o.code != 0 {
			oneLine(t, o)
		}
		t.Logf("%s: %d, %d MiB", what, o.code, most>>20)
	}
}

// hostile makes recordings of few bytes that ask for much memory.
func hostile(t *testing.T, dir string) (inputs []string) {
	t.Helper()
	add := func(name string, texts ...any) {
		inputs = append(inputs, filepath.Join(dir, name))
		written(t, filepath.Join(dir, name), texts...)
	}
	const empty = "}(\x8c\x08segments]\x8c\x0ddevice_traces]("
	add("references.pickle", "\x80\x04](N\x94", times{4_000_000, "h\x00"}, "e.")
	add("events.pickle", "\x80\x04", empty, "](", times{1_000_000, "}"}, "eeu.")
	add("nested.pickle", "\x80\x04", times{1_000_000, "]"}, times{999_999, "a"}, ".")
	add("devices.pickle", "\x80\x04", empty, times{1024, "](" + strings.Repeat(event+"u", 60) + "e"}, "eu.")
	add("frames.pickle", "\x80\x04", empty, "](", event, "\x8c\x06frames](", times{1000, aFrame}, "e\x94u",
		times{400_000, event + "\x8c\x06framesh\x00u"}, "eeu.")
	return inputs
}

const (
	event  = "}(\x8c\x06action\x8c\x05alloc\x8c\x04addrM\x00\x10\x8c\x04sizeM\x00\x02"
	aFrame = "}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x04a.py\x8c\x04lineK\x01u"
)

// A run that needs more memory is named and ends no batch, whose processes together keep to
// --max-memory.
func TestMemoryOfABatch(t *testing.T) {
	const limit = 128 << 20
	folder := someRuns(t, usual...)
	batch := func(args ...string) (*exec.Cmd, string) {
		out := filepath.Join(t.TempDir(), "out")
		c := command(t, append([]string{"batch", "-o", out}, args...)...)
		c.Dir = folder
		return c, out
	}
	c, want := batch("run0", "run1", "run2", "run3")
	finish(t, c)
	if err := os.Mkdir(filepath.Join(folder, "hostile"), 0o755); err != nil {
		t.Fatal(err)
	}
	inputs := hostile(t, filepath.Join(folder, "hostile"))
	for _, jobs := range []string{"1", "4"} {
		var o outcome
		var out string
		most := int64(2 * limit)
		for try := 0; most > limit && try < tries; try++ {
			var c *exec.Cmd
			c, out = batch(".", "--jobs", jobs, fmt.Sprintf("--max-memory=%d", limit))
			most = 0
			o = watched(t, c, func(held int64) { most = max(most, held) })
		}
		t.Logf("%s jobs: %d, %d MiB\n%s%s", jobs, o.code, most>>20, o.out, o.errors)
		if most > limit || o.code != 0 {
			t.Errorf("%s jobs: %d, took %d MiB of %d", jobs, o.code, most>>20, limit>>20)
		}
		got := contents(t, out)
		for _, input := range inputs {
			name := filepath.Base(input)
			if name == "references.pickle" || name == "nested.pickle" { // no recordings, and passed over
				continue
			}
			if _, ok := got["runs/hostile__"+name+"/report.json"]; !ok && strings.Count(o.errors, "hostile/"+name+": ") != 1 {
				t.Errorf("%s jobs: %s isn't named", jobs, name)
			}
		}
		for name, text := range contents(t, want) {
			if strings.HasPrefix(name, "runs/") && got[name] != text {
				t.Errorf("%s jobs: %s is another than it would be undisturbed", jobs, name)
			}
		}
	}
}

// watched runs a command to its end, and tells now and then what it and the processes that it
// started hold of the machine's memory, in bytes.
func watched(t *testing.T, c *exec.Cmd, look func(held int64)) outcome {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
			}
			look(heldBelow(os.Getpid()))
		}
	}()
	defer func() { close(over); <-done }()
	return finish(t, c)
}

// heldBelow is what a process' children hold, and theirs.
func heldBelow(pid int) (bytes int64) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list) // whoever has ended holds nothing
		for _, child := range strings.Fields(string(children)) {
			var all, pages int64
			statm, _ := os.ReadFile("/proc/" + child + "/statm")
			_, _ = fmt.Sscan(string(statm), &all, &pages)
			number, _ := strconv.Atoi(child)
			bytes += pages*int64(os.Getpagesize()) + heldBelow(number)
		}
	}
	return bytes
}

// A pipe beside a recording, under the name of what would be read along with it, is not waited for.
func TestPipesBesideARecording(t *testing.T) {
	for _, name := range []string{"labels.json", "holders.json"} {
		folder := someRuns(t, usual[0])
		if err := syscall.Mkfifo(filepath.Join(folder, "run0", "snapshot_all."+name), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, input := range []string{filepath.Join(folder, "run0"), filepath.Join(folder, "run0", "snapshot_all.pickle.gz")} {
			if o := vramscope(t, "analyze", input, "-q"); o.code != 0 {
				t.Errorf("%s, %s: %d %s", name, input, o.code, o.errors)
			}
		}
	}
}

// times is a text that comes so many times.
type times struct {
	n    int
	text string
}

// written makes a file of texts, one of an archive if it is to be a checkpoint. The file is never
// in this process's memory: the system counts it to a child's.
func written(t *testing.T, name string, texts ...any) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, finished := bufio.NewWriter(f), func() error { return nil }
	if filepath.Ext(name) == ".pt" {
		z := zip.NewWriter(f)
		in, err := z.Create("archive/data.pkl")
		if err != nil {
			t.Fatal(err)
		}
		w, finished = bufio.NewWriter(in), z.Close
	}
	for _, text := range texts {
		x, ok := text.(times)
		if !ok {
			x = times{1, text.(string)}
		}
		for range x.n {
			w.WriteString(x.text)
		}
	}
	if err := errors.Join(w.Flush(), finished()); err != nil {
		t.Fatal(err)
	}
}
