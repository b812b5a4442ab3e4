package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
)

// undisturbed is what a batch writes.
func undisturbed(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	out := t.TempDir()
	if o := vramscope(t, append([]string{"batch", "-q", "-o", out}, folders...)...); o.code != 0 {
		t.Fatal(o.errors)
	}
	return contents(t, out)
}

// TestTwoBatchesIntoOneOutput: one writes, the other says so; one after the other they
// write what one over both would have.
func TestTwoBatchesIntoOneOutput(t *testing.T) {
	a, b := someRuns(t, usual...), someRuns(t, usual...)
	want := undisturbed(t, a, b)
	places := map[string]string{"folder": filepath.Join(t.TempDir(), "out")}
	if fakes3.Tags != "" {
		fakes3.Start(t)
		places["store"] = "s3://team/out"
	}
	for name, out := range places {
		t.Run(name, func(t *testing.T) {
			var both sync.WaitGroup
			outcomes := make([]outcome, 2)
			for i, folder := range []string{a, b} {
				both.Go(func() { outcomes[i] = vramscope(t, "batch", folder, "-o", out, "-q") })
			}
			both.Wait()
			for i, folder := range []string{a, b} {
				if o := outcomes[i]; o.code != 0 {
					oneLine(t, o, out, "another batch writes there: process ")
					if o = vramscope(t, "batch", folder, "-o", out, "-q"); o.code != 0 {
						t.Error(o.errors)
					}
				}
			}
			same(t, name, fakes3.Contents(t, out), want)
		})
	}
}

// TestRunsOfOtherFolders stay in an output until they are asked to go.
func TestRunsOfOtherFolders(t *testing.T) {
	a, b, out := someRuns(t, usual[:2]...), someRuns(t, usual[2:]...), t.TempDir()
	for _, folder := range []string{a, b} {
		if o := vramscope(t, "batch", folder, "-o", out, "-q"); o.code != 0 {
			t.Fatal(o.errors)
		}
	}
	same(t, "both", contents(t, out), undisturbed(t, a, b))
	if err := os.RemoveAll(filepath.Join(b, "run1")); err != nil {
		t.Fatal(err)
	}
	if o := vramscope(t, "batch", b, "-o", out, "-q"); o.code != 0 {
		t.Fatal(o.errors)
	}
	same(t, "a run is gone", contents(t, out), undisturbed(t, a, b))
	if o := vramscope(t, "batch", b, "-o", out, "-q", "--prune"); o.code != 0 {
		t.Fatal(o.errors)
	}
	same(t, "pruned", contents(t, out), undisturbed(t, b))
}

// TestKilled at any moment: what is visible is the undisturbed result's, and the next batch
// completes it.
func TestKilled(t *testing.T) {
	folder := someRuns(t, append(usual, usual...)...)
	want := undisturbed(t, folder)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		out := filepath.Join(t.TempDir(), "out")
		for range 2 {
			c := command(t, "batch", folder, "-o", out, "-q")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
			_ = c.Process.Kill() // it may be done
			_ = c.Wait()
			if _, err := os.Stat(out); err != nil {
				continue
			}
			for name, text := range contents(t, out) {
				if strings.HasPrefix(name, "runs/") && text != want[name] {
					t.Errorf("round %d: %s is not what it would be undisturbed", round, name)
				}
			}
		}
		if o := vramscope(t, "batch", folder, "-o", out, "-q"); o.code != 0 || o.errors != "" {
			t.Errorf("round %d: exit code %d, said %q", round, o.code, o.errors)
		}
		same(t, fmt.Sprintf("round %d", round), contents(t, out), want)
	}
}

// TestInputsThatChange under a running batch: the next one gives what one over the
// changed files gives from the beginning.
func TestInputsThatChange(t *testing.T) {
	folder := someRuns(t, append(usual, usual...)...)
	for name, change := range map[string]func(name string) error{
		"shrink": func(name string) error { return os.Truncate(name, 1000) },
		"vanish": os.Remove,
		"grow": func(name string) error {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write(make([]byte, 5000))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			copied, out := filepath.Join(t.TempDir(), "in"), t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			done := make(chan outcome)
			go func() { done <- vramscope(t, "batch", copied, "-o", out, "-q") }()
			for i := range 8 {
				if i%2 == 0 {
					time.Sleep(30 * time.Millisecond)
					if err := change(filepath.Join(copied, fmt.Sprintf("run%d", i), "snapshot_all.pickle.gz")); err != nil {
						t.Error(err)
					}
				}
			}
			if o := <-done; o.code != 0 {
				t.Errorf("exit code %d, said %q", o.code, o.errors)
			}
			if o := vramscope(t, "batch", copied, "-o", out, "-q"); o.code != 0 {
				t.Errorf("afterwards: exit code %d, said %q", o.code, o.errors)
			}
			same(t, name, contents(t, out), undisturbed(t, copied))
		})
	}
}

// TestUnreadableInput is named on standard error and in the report's first line, and the run is
// done again when it can be read.
func TestUnreadableInput(t *testing.T) {
	folder := someRuns(t, usual[0])
	want := undisturbed(t, folder)
	hidden := filepath.Join(folder, "run0", "snapshot_all.pickle.gz")
	if err := os.Chmod(hidden, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(hidden); err == nil {
		f.Close()
		t.Skip("root may read everything")
	}
	out := t.TempDir()
	o := vramscope(t, "batch", folder, "-o", out, "-q")
	if o.code != 0 || !strings.Contains(o.errors, hidden+": permission denied") {
		t.Errorf("exit code %d, said %q", o.code, o.errors)
	}
	for name, text := range contents(t, out) {
		if strings.HasSuffix(name, "report.json") {
			firstLines(t, name, text)
		}
	}
	if err := os.Chmod(hidden, 0o644); err != nil {
		t.Fatal(err)
	}
	if o := vramscope(t, "batch", folder, "-o", out, "-q"); o.code != 0 || o.errors != "" {
		t.Errorf("exit code %d, said %q", o.code, o.errors)
	}
	same(t, "afterwards", contents(t, out), want)
}

// TestFileSizeLimit: whatever file is too large, none is half there, and without the limit
// the next batch gives the undisturbed result.
func TestFileSizeLimit(t *testing.T) {
	folder := someRuns(t, usual[:2]...)
	want := undisturbed(t, folder)
	for _, limit := range []int{0, 1, 100, 800} { // KiB
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			o := finish(t, limited(t, fmt.Sprintf("ulimit -f %d", limit), "batch", folder, "-o", out, "-q"))
			if o.code != 0 {
				oneLine(t, o, "file too large")
			}
			for name, text := range contents(t, out) {
				if text != want[name] {
					t.Errorf("%s is not what it would be undisturbed", name)
				}
			}
			if o := vramscope(t, "batch", folder, "-o", out, "-q"); o.code != 0 || o.errors != "" {
				t.Errorf("exit code %d, said %q", o.code, o.errors)
			}
			same(t, "afterwards", contents(t, out), want)
		})
	}
}

// TestFullDisk is a small one that runs full.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	folder := someRuns(t, usual...)
	want := undisturbed(t, folder)
	if !mountSmall(disk, "2m") {
		t.Skip("no file system may be mounted here")
	}
	t.Cleanup(func() { unmount(disk) })
	filler := filepath.Join(disk, "filler")
	for _, spare := range []int{0, 300_000, 700_000} {
		out := filepath.Join(disk, fmt.Sprint("out", spare))
		if err := os.WriteFile(filler, make([]byte, 1<<21-1<<16-spare), 0o644); err != nil && spare > 0 {
			t.Fatal(err)
		}
		o := vramscope(t, "batch", folder, "-o", out, "-q")
		oneLine(t, o, "no space left on device")
		if found := contentsIfAny(t, out); len(found) > 0 {
			for name := range maps.Keys(found) {
				if found[name] != want[name] {
					t.Errorf("%s is not what it would be undisturbed", name)
				}
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
}

func contentsIfAny(t *testing.T, folder string) map[string]string {
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return contents(t, folder)
}
