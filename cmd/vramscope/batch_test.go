package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vramscope/vramscope/batch"
)

// tree is the files below a folder with their contents.
func tree(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		found[filepath.ToSlash(rel)] = string(b)
		return err
	})
	return found, err
}

// difference says what tells two folders apart, "" when nothing does.
func difference(a, b string) string {
	x, err := tree(a)
	if err != nil {
		return err.Error()
	}
	y, err := tree(b)
	if err != nil {
		return err.Error()
	}
	var out []string
	for name, text := range x {
		if other, ok := y[name]; !ok {
			out = append(out, name+" is only in "+a)
		} else if other != text {
			out = append(out, name+" differs")
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			out = append(out, name+" is only in "+b)
		}
	}
	if len(x) == 0 {
		return "nothing to compare"
	}
	return strings.Join(out, "\n")
}

// sameFolders A B fails unless two folders hold the same files.
func sameFolders(ts *testscript.TestScript, _ bool, args []string) {
	if d := difference(ts.MkAbs(args[0]), ts.MkAbs(args[1])); d != "" {
		ts.Fatalf("%s", d)
	}
}

// program is a folder with this program under its name, to run as a process.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "vramscope")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	return dir
}

// copies fills a folder with runs, each a shipped recording.
func copies(t *testing.T, runs int) string {
	t.Helper()
	names := []string{"growing_list__step_cache/snapshot_none.pickle.gz", "frag_oom__pairwise_docs/snapshot_all.pickle.gz", "mlp_regression__script/snapshot_stopped.pickle.gz"}
	root := filepath.Join(t.TempDir(), "experiments")
	for i := range runs {
		b, err := os.ReadFile(filepath.Join("../../testdata/recordings", filepath.FromSlash(names[i%len(names)])))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, fmt.Sprintf("run_%02d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "snapshot.pickle"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// command is a process with the program on its path.
func command(dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), env...)
	return cmd
}

// TestKilledHalfWay kills a batch as nothing can prevent, and starts it again.
func TestKilledHalfWay(t *testing.T) {
	runs, dir := copies(t, 16), program(t)
	vramscope := filepath.Join(dir, "vramscope")
	whole, killed := t.TempDir(), t.TempDir()
	if out, err := exec.Command(vramscope, "batch", runs, "-o", whole, "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(vramscope, "batch", runs, "-o", killed, "-q", "--jobs", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if done, _ := filepath.Glob(killed + "/runs/*/run.json"); len(done) >= 5 || time.Since(start) > time.Minute {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Log("it was done before it could be killed")
	}
	out, err := exec.Command(vramscope, "batch", runs, "-o", killed).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`^16 runs analysed, ([5-9]|1[0-6]) of them unchanged`).Match(out) {
		t.Errorf("the second go says: %s", out)
	}
	left, err := filepath.Glob(killed + "/runs/*/.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left { // half-written, too young to be nobody's
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if d := difference(killed, whole); d != "" {
		t.Error(d)
	}
}

// TestExamplesForClusters runs what the example files would have a cluster run.
func TestExamplesForClusters(t *testing.T) {
	runs, dir := copies(t, 9), program(t)
	whole := t.TempDir()
	if out, err := exec.Command(filepath.Join(dir, "vramscope"), "batch", runs, "-o", whole, "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const shards = 3
	t.Run("slurm", func(t *testing.T) {
		out := t.TempDir()
		for i := range shards {
			env := []string{"RUNS=" + runs, "OUT=" + out, fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", i), fmt.Sprintf("SLURM_ARRAY_TASK_COUNT=%d", shards), "SLURM_MEM_PER_NODE=2048"}
			if text, err := command(dir, env, "bash", "../../examples/slurm/batch.sbatch").CombinedOutput(); err != nil {
				t.Fatalf("task %d: %v\n%s", i, err, text)
			}
		}
		if text, err := command(dir, []string{"OUT=" + out}, "bash", "../../examples/slurm/merge.sbatch").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := difference(out+"/report", whole); d != "" {
			t.Error(d)
		}
	})
	t.Run("kubernetes", func(t *testing.T) {
		out := t.TempDir()
		for i := range shards {
			env := []string{"RUNS=" + runs, "OUT=" + out, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i), fmt.Sprintf("SHARDS=%d", shards)}
			if text, err := command(dir, env, "sh", "-euc", podScript(t, "batch.yaml")).CombinedOutput(); err != nil {
				t.Fatalf("pod %d: %v\n%s", i, err, text)
			}
		}
		if text, err := command(dir, []string{"OUT=" + out}, "sh", "-euc", podScript(t, "merge.yaml")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := difference(out+"/report", whole); d != "" {
			t.Error(d)
		}
	})
}

// podScript is what a pod of an example runs: the block behind "args".
func podScript(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/kubernetes/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("\t")) {
		t.Error("YAML has no tabs")
	}
	if !bytes.Contains(text, []byte("command: [sh, -euc]\n")) {
		t.Fatalf("%s runs something else than sh", name)
	}
	m := regexp.MustCompile(`(?m)^ +args:\n +- \|\n((?: {14}.*\n)+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no script", name)
	}
	return strings.ReplaceAll(string(m[1]), "\n              ", "\n")
}

// TestSilentLogs are told when no run is left of them, other text isn't.
func TestSilentLogs(t *testing.T) {
	var b bytes.Buffer
	say := newTeller(&b, &batchFlags{}, nil)
	for _, files := range [][]string{{"a/vocabulary.txt"}, {"b/config.json", "b/crash.log"}} {
		say.done(batch.Progress{Nothing: true, Run: batch.Run{Files: files}})
	}
	say.saySilent()
	if want := "vramscope: b/crash.log: nothing known in it: passed over\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
