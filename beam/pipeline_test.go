package main

import (
	"cmp"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/store"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := start(testing.Verbose()); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// someRuns puts two runs, a broken one and text that is none into a folder.
func someRuns(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	recordings := "../testdata/recordings"
	for from, to := range map[string]string{"mlp_regression__script": "mlp/run1", "qwen_vocab_oom__05b": "qwen/run1"} {
		if err := os.CopyFS(filepath.Join(folder, to), os.DirFS(filepath.Join(recordings, from))); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(filepath.Join(recordings, "qwen_vocab_oom__05b/snapshot_all.pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cut/snapshot.pickle.gz": string(whole[:len(whole)/2]), "notes/plan.txt": "buy a larger GPU\n"} {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// single is what batch writes on one machine.
func single(t *testing.T, root, out string, o batch.Options) {
	t.Helper()
	ctx := context.Background()
	var pool store.Pool
	defer pool.Close()
	place, err := pool.Place(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	found, err := batch.Find(ctx, []string{root}, batch.FindOptions{Redact: o.Redact, Key: o.Key, Stores: &pool})
	if err == nil {
		err = batch.Work(ctx, found.Runs, batch.Config{Out: place, Build: "test", Options: o})
	}
	if err == nil {
		err = batch.Combine(ctx, place, o.Tool, batch.Stored(ctx, place, found.Runs...))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// onPrism runs the pipeline in this process.
func onPrism(t *testing.T, job task) (*summary, error) {
	t.Helper()
	ctx := context.Background()
	job.Build = cmp.Or(job.Build, "test")
	job.Options.Tool = "test"
	if _, err := beam.Run(ctx, "prism", job.build()); err != nil {
		return nil, plain(err)
	}
	return takeSummary(ctx, job.Out)
}

// same compares results file by file: tables and reports, byte for byte.
func same(t *testing.T, got, want string) {
	t.Helper()
	a, b := fakes3.Contents(t, got), fakes3.Contents(t, want)
	if names := slices.Sorted(maps.Keys(b)); !slices.Equal(slices.Sorted(maps.Keys(a)), names) || len(names) < 10 {
		t.Errorf("files %q\nwant  %q", slices.Sorted(maps.Keys(a)), names)
	}
	for name := range b {
		if a[name] != b[name] {
			t.Errorf("%s is not what batch writes", name)
		}
	}
}

// TestPipelineEqualsBatch writes the same files, and the second time makes no
// report again.
func TestPipelineEqualsBatch(t *testing.T) {
	runs, out, want := someRuns(t), t.TempDir(), t.TempDir()
	single(t, runs, want, batch.Options{Tool: "test"})
	first, err := onPrism(t, task{Roots: []string{runs}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	same(t, out, want)
	if first.Runs < 2 || first.Unchanged != 0 || len(first.Failed) != 1 || !strings.Contains(first.Failed[0], "cut/snapshot.pickle.gz: offset ") {
		t.Errorf("the first time: %+v", first)
	}
	second, err := onPrism(t, task{Roots: []string{runs}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	same(t, out, want)
	if second.Unchanged != first.Runs || len(second.Failed) != 1 {
		t.Errorf("the second time: %+v", second)
	}
}

// TestStores reads runs that a list names from a bucket and writes to it.
func TestStores(t *testing.T) {
	s := fakes3.Start(t)
	s.PutFolder(t, "runs", someRuns(t))
	s.Put(t, "list.txt", []byte("# runs to look at\n\ns3://team/runs/mlp\n s3://team/runs/cut\n"))
	s.Put(t, "out/runs/README", []byte("not ours"))
	got, err := onPrism(t, task{List: "s3://team/list.txt", Roots: []string{"s3://team/runs/qwen"}, Out: "s3://team/out"})
	if err != nil {
		t.Fatal(err)
	}
	single(t, "s3://team/runs", "s3://team/want", batch.Options{Tool: "test"})
	s.Put(t, "want/runs/README", []byte("not ours"))
	same(t, "s3://team/out", "s3://team/want")
	if len(got.Failed) != 1 || !strings.HasPrefix(got.Failed[0], "s3://team/runs/cut/snapshot.pickle.gz: ") {
		t.Errorf("failed: %q", got.Failed)
	}
}

// TestOneAtATime: while a batch writes to a place, a pipeline says so and leaves it alone.
func TestOneAtATime(t *testing.T) {
	out := t.TempDir()
	place, err := store.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := place.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := flags{output: out, quiet: true}
	run := func() error {
		cmd := command()
		cmd.SetContext(t.Context())
		return f.run(cmd, []string{someRuns(t)})
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "another batch writes there") {
		t.Errorf("while it is locked: %v", err)
	}
	if left := fakes3.Contents(t, out); len(left) > 1 {
		t.Errorf("left %q", left)
	}
	unlock()
	if err := run(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestOtherFoldersStay: runs of other folders are removed only with --prune.
func TestOtherFoldersStay(t *testing.T) {
	first, second, out := filepath.Join(someRuns(t), "mlp"), someRuns(t), t.TempDir()
	for _, c := range []struct {
		job     task
		removes bool
	}{{task{Roots: []string{first}}, false}, {task{Roots: []string{second}}, false}, {task{Roots: []string{second}, Prune: true}, true}} {
		c.job.Out = out
		if s, err := onPrism(t, c.job); err != nil || s.Removed > 0 != c.removes {
			t.Errorf("%+v: %+v, %v", c.job, s, err)
		}
	}
}

// TestRedaction uses the workers' own key, and refuses another.
func TestRedaction(t *testing.T) {
	t.Setenv(keyVariable, "a key")
	runs, out, want := someRuns(t), t.TempDir(), t.TempDir()
	o := batch.Options{Tool: "test", Redact: true, Key: "a key"}
	single(t, runs, want, o)
	o.Key = "" // which stays behind
	if _, err := onPrism(t, task{Roots: []string{runs}, Out: out, Options: o, KeyMark: keyMark("a key")}); err != nil {
		t.Fatal(err)
	}
	same(t, out, want)
	_, err := onPrism(t, task{Roots: []string{runs}, Out: t.TempDir(), Options: o, KeyMark: keyMark("another")})
	if err == nil || !strings.Contains(err.Error(), keyVariable+" of a worker is not the one") {
		t.Errorf("with another key: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "moonshot")
	f := flags{output: t.TempDir(), redact: true}
	cmd := command()
	cmd.SetContext(t.Context())
	if err := f.run(cmd, []string{secret}); err == nil || strings.Contains(err.Error(), "moonshot") || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("error is %v", err)
	}
	if err := os.MkdirAll(filepath.Join(secret, strings.Repeat("x/", 100)), 0o755); err != nil { // deeper than is looked
		t.Fatal(err)
	}
	s, err := onPrism(t, task{Roots: []string{secret}, Out: t.TempDir(), Options: o, KeyMark: keyMark("a key")})
	if err != nil || len(s.Unread) != 1 || strings.Contains(s.Unread[0], "moonshot") {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestNothingToDo keeps what is there when no run is found, and says what is
// wrong with a place in one line.
func TestNothingToDo(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "runs.parquet"), []byte("of before"), 0o644); err != nil {
		t.Fatal(err)
	}
	stale := `{"schema": "` + summarySchema + `", "runs": 7}` // of an earlier one that nobody waited for
	if err := os.WriteFile(filepath.Join(out, summaryFile), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := onPrism(t, task{Roots: []string{t.TempDir()}, Out: out})
	if err != nil || s.Runs != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := fakes3.Contents(t, out); got["runs.parquet"] != "of before" || len(got) != 1 {
		t.Errorf("left %q", got)
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := onPrism(t, task{Roots: []string{none}, Out: out}); err == nil || !strings.Contains(err.Error(), none+": no such file or directory") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags flags
		args  []string
		want  string
	}{
		{"no output", flags{}, []string{"runs"}, "-o OUT"},
		{"no input", flags{output: "out"}, nil, "nothing to look at"},
		{"size", flags{output: "out", maxMemory: "much"}, []string{"runs"}, `--max-memory: "much" is no size`},
		{"note", flags{output: "out", notes: []string{"x"}}, []string{"runs"}, "KEY=VALUE"},
		{"gpu", flags{output: "out", gpu: "abacus"}, []string{"runs"}, "--gpu: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.flags.task(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
	f := flags{output: "out", maxMemory: "1.5GiB", gpu: "80GiB", notes: []string{"team=nlp"}}
	if job, err := f.task([]string{"runs"}); err != nil || job.MaxMemory != 3<<29 || job.Options.Capacity != 80<<30 || job.Build == "" {
		t.Errorf("%+v, %v", job, err)
	}
}
