package batch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/store"
)

// TestWorst counts runs by what became of them, tells alike ones once and what to change.
func TestWorst(t *testing.T) {
	steps := logtext.Steps(40, func(i int) string { return fmt.Sprintf("step %d loss 2.5", i) })
	failed := func(file, asked string) string {
		return steps + "Traceback (most recent call last):\n  File \"/w/" + file + "\", line 7, in <module>\n    f()\n" +
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + asked + ". GPU 0 has a total capacity of 79.11 GiB " +
			"of which 1.05 GiB is free. Of the allocated memory 70.31 GiB is allocated by PyTorch, and 5.98 GiB is reserved by " +
			"PyTorch but unallocated.\n"
	}
	root, place := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"gpu-a": failed("train.py", "2.00 GiB"), "gpu-b": steps + failed("train.py", "3.00 GiB"), "gpu-c": failed("eval.py", "2.00 GiB"),
		"host":  steps + "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n",
		"kill":  steps + "Killed\n",
		"key":   steps + "Traceback (most recent call last):\n  File \"/w/data.py\", line 9, in <module>\n    d[1]\nKeyError: 1\n",
		"limit": steps + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-28T10:00:00 DUE TO TIME LIMIT ***\n",
		"went":  failed("train.py", "2.00 GiB") + strings.ReplaceAll(steps, "step ", "step 1"),
		"good":  steps + "Training complete\n", "goes": steps,
	} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "train.log"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job{roots: []string{root}, out: place}.must(t)
	out, err := store.Open(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var b strings.Builder
	if err := Worst(&b, Stored(context.Background(), out)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if want := "7 of 10 runs failed: 3 out of memory, 1 out of the host's memory, 1 killed, 1 in something else than memory, " +
		"1 stopped; 1 out of memory and went on"; lines[0] != want {
		t.Errorf("%s\nwant\n%s", lines[0], want)
	}
	want := []string{"/gpu-", "/gpu-c", "/host", "/kill", "/key", "/limit", "/went"}
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "    change: "):
		case len(want) == 0 || !strings.Contains(line, want[0]):
			t.Errorf("%s", line)
		default:
			want = want[1:]
		}
	}
	if len(want) > 0 || !strings.HasSuffix(lines[1], "(2 runs like this)") || !strings.HasPrefix(lines[2], "    change: ") {
		t.Errorf("%s\nwithout %v", b.String(), want)
	}
}

// TestTally: a run that leaks may have failed of something else than memory.
func TestTally(t *testing.T) {
	counts := [fates]int{ofStop: 1, leaking: 2, fine: 1}
	if got, want := tally(&counts, 1), "1 of 4 runs failed: 1 stopped; 3 leaking (1 of them counted already)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
