package batch_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/store"
)

// someRuns puts three small runs and a broken one into a folder.
func someRuns(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for from, to := range map[string]string{
		"mlp_regression__script":  "mlp/run1",
		"side_stream__prefetcher": "stream/run1",
		"qwen_vocab_oom__05b":     "qwen/run1",
	} {
		if err := os.CopyFS(filepath.Join(folder, to), os.DirFS(filepath.Join("../testdata/recordings", from))); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile("../testdata/recordings/qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "cut"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "cut", "snapshot.pickle.gz"), whole[:len(whole)/2], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// whole is a batch from beginning to end, and what became of each run.
func whole(t *testing.T, root, out string) map[string]batch.Progress {
	t.Helper()
	ctx := context.Background()
	var pool store.Pool
	defer pool.Close()
	place, err := pool.Place(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	found, err := batch.Find(ctx, []string{root}, batch.FindOptions{Skip: out, Stores: &pool})
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]batch.Progress{}
	err = batch.Work(ctx, found.Runs, batch.Config{Out: place, Build: "test", Options: batch.Options{Tool: "test", Stores: &pool},
		Done: func(p batch.Progress) { done[p.Run.Path] = p }})
	if err == nil {
		err = batch.Combine(ctx, place, "test", batch.Stored(ctx, place, found.Runs...))
	}
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestResultsInAStore are those in a folder, byte for byte.
func TestResultsInAStore(t *testing.T) {
	fakes3.Start(t)
	runs, folder := someRuns(t), t.TempDir()
	whole(t, runs, folder)
	whole(t, runs, "s3://team/out")
	want, got := fakes3.Contents(t, folder), fakes3.Contents(t, "s3://team/out")
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(names, slices.Sorted(maps.Keys(got))) || len(names) < 15 {
		t.Errorf("files %q", names)
	}
	for name := range want {
		if want[name] != got[name] {
			t.Errorf("%s is another", name)
		}
	}
}

// TestRunsInAStore are found, analysed and left alone when nothing has changed;
// a broken one costs one line.
func TestRunsInAStore(t *testing.T) {
	s := fakes3.Start(t)
	s.PutFolder(t, "runs", someRuns(t))
	var transferred atomic.Int64
	s.Before = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&fakes3.Meter{ResponseWriter: w, N: &transferred}, r)
	}
	folder := t.TempDir()
	first := whole(t, "s3://team/runs", folder)
	if n := len(first); n < 4 {
		t.Fatalf("%d runs", n)
	}
	for path, p := range first {
		if broken := path == "s3://team/runs/cut"; p.Skipped || (p.Err != nil) != broken {
			t.Errorf("%s: %v, skipped %v", path, p.Err, p.Skipped)
		} else if broken && !strings.HasPrefix(p.Err.Error(), "s3://team/runs/cut/snapshot.pickle.gz: offset ") {
			t.Errorf("error is %v", p.Err)
		}
	}
	before := fakes3.Contents(t, folder)
	for name, text := range before {
		if strings.Contains(text, fakes3.Secret) || strings.Contains(text, s.URL) {
			t.Errorf("%s tells the way to the store", name)
		}
	}
	all := transferred.Swap(0)
	for path, p := range whole(t, "s3://team/runs", folder) {
		if p.Skipped != (path != "s3://team/runs/cut") && !p.Nothing {
			t.Errorf("%s the second time: skipped %v, %v", path, p.Skipped, p.Err)
		}
	}
	if again := transferred.Load(); again > all/2 {
		t.Errorf("%d bytes were read again, %d the first time", again, all)
	}
	if !maps.Equal(before, fakes3.Contents(t, folder)) {
		t.Error("the results are others the second time")
	}
	// Results beside the runs are no runs.
	whole(t, "s3://team", "s3://team/out")
	if again := whole(t, "s3://team", "s3://team/out"); len(again) != len(first) {
		t.Errorf("%d runs with the results among them, want %d", len(again), len(first))
	}
}

// TestShardsInStores are merged into what one batch writes.
func TestShardsInStores(t *testing.T) {
	fakes3.Start(t)
	runs := someRuns(t)
	whole(t, runs, "s3://team/single")
	whole(t, filepath.Join(runs, "mlp"), "s3://team/part0")
	local := t.TempDir()
	for _, rest := range []string{"stream", "qwen", "cut"} {
		whole(t, filepath.Join(runs, rest), filepath.Join(local, rest))
	}
	ctx := context.Background()
	var pool store.Pool
	defer pool.Close()
	var parts []*store.Place
	for _, name := range []string{"s3://team/part0", filepath.Join(local, "stream"), filepath.Join(local, "qwen"), filepath.Join(local, "cut"), "s3://team/merged"} {
		p, err := pool.Place(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	if _, err := batch.Merge(ctx, parts[:4], parts[4], "test", false); err != nil {
		t.Fatal(err)
	}
	if got, want := fakes3.Contents(t, "s3://team/merged"), fakes3.Contents(t, "s3://team/single"); !maps.Equal(got, want) {
		t.Errorf("merged %d files, one batch wrote %d, or they differ", len(got), len(want))
	}
}
