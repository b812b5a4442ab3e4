package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
)

// program is the binary that all tests run.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "faults")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "vramscope")
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", fakes3.Tags, "-o", program, "github.com/vramscope/vramscope/cmd/vramscope")
		if said, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s", said)
			panic(err)
		}
		return m.Run()
	}())
}

// outcome is what a command left.
type outcome struct {
	code        int
	out, errors string
	killed      bool // by a signal
}

// patience is far more than any command takes, on a machine with much else to do, too.
const patience = 10 * time.Minute

// tries are how often a command may take more memory than its limit: what it takes is looked at now and then, and
// on a machine with much else to do that may come late.
const tries = 10

// command is one that is to be run.
func command(t testing.TB, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, args...)
}

// finish runs a command to its end.
func finish(t testing.TB, c *exec.Cmd) outcome {
	t.Helper()
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(said.String(), "goroutine ") {
		t.Errorf("it broke down: %s", said.String())
	}
	return outcome{c.ProcessState.ExitCode(), out.String(), said.String(), c.ProcessState.ExitCode() < 0}
}

// vramscope runs the program.
func vramscope(t testing.TB, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, args...))
}

// recordings is the folder of those that ship.
const recordings = "../../testdata/recordings"

// someRuns puts small runs into a folder.
func someRuns(t testing.TB, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	for i, from := range names {
		to := filepath.Join(folder, fmt.Sprintf("run%d", i))
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"snapshot_all.pickle.gz", "log.txt"} {
			copyFile(t, filepath.Join(recordings, from, name), filepath.Join(to, name))
		}
	}
	return folder
}

// usual are runs that have a snapshot and a log each.
var usual = []string{"growing_list__step_cache", "mlp_regression__script", "side_stream__prefetcher", "frag_oom__pairwise_docs"}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contents are the files below a folder, but for those that a killed program left
// unfinished, by name.
func contents(t testing.TB, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		data, err := os.ReadFile(name)
		below, _ := filepath.Rel(folder, name)
		files[filepath.ToSlash(below)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same compares two results.
func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))
	if !slices.Equal(a, b) {
		t.Errorf("%s: there are %q\nwant      %q", what, a, b)
		return
	}
	for _, name := range a {
		if got[name] != want[name] {
			t.Errorf("%s: %s is another than it would be undisturbed", what, name)
		}
	}
}

// oneLine wants an error in one line, perhaps with advice below, that names something.
func oneLine(t testing.TB, o outcome, named ...string) {
	t.Helper()
	if o.code != 2 || !strings.HasPrefix(o.errors, "vramscope: ") || strings.Count(o.errors, "\n") > 3 {
		t.Errorf("exit code %d, said %q", o.code, o.errors)
	}
	for _, n := range named {
		if !strings.Contains(o.errors, n) {
			t.Errorf("said %q, which doesn't name %q", o.errors, n)
		}
	}
}
