package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/store"
)

// small are shipped recordings that take some milliseconds each.
var small = []string{"growing_list__step_cache/snapshot_none.pickle.gz", "growing_list__step_cache/snapshot_python.pickle.gz", "frag_oom__pairwise_docs/snapshot_all.pickle.gz",
	"mlp_regression__script/snapshot_stopped.pickle.gz", "mlp_regression__script/snapshot_none.pickle.gz", "gpt2_fp32_adamw__hf_loop/snapshot_ring.pickle.gz"}

func shipped(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../testdata/recordings", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// someRuns fills a folder with so many runs of several layouts, two of them
// broken, and gives the folder.
func someRuns(t *testing.T, random *rand.Rand, runs int) string {
	t.Helper()
	root := t.TempDir()
	for i := range runs {
		recording := shipped(t, small[random.IntN(len(small))])
		user, experiment := string("abc"[random.IntN(3)]), []string{"gpt2", "llama-7b", "odd name (1)"}[random.IntN(3)]
		switch random.IntN(3) {
		case 0:
			put(t, fmt.Sprintf("%s/%s/%s/run_%03d/snapshot.pickle", root, user, experiment, i), recording)
		case 1:
			put(t, fmt.Sprintf("%s/%s/flat/%s-%03d.pickle.gz", root, user, experiment, i), recording)
		case 2:
			put(t, fmt.Sprintf("%s/%s/%s/%d/oom.pickle", root, user, experiment, i), recording)
			put(t, fmt.Sprintf("%s/%s/%s/%d/train.log", root, user, experiment, i), shipped(t, "frag_oom__pairwise_docs/log.txt"))
		}
	}
	put(t, root+"/broken/cut.pickle", shipped(t, small[0])[:3000])
	put(t, root+"/broken/text.pickle", []byte("no pickle at all"))
	put(t, root+"/notes/words.txt", []byte("nothing here says anything of a step or loss\n"))
	put(t, root+"/notes/conf.toml", []byte(strings.Repeat("a.", 20_000)+"a = 1\n")) // decoded, it would take gigabytes
	return root
}

// files are the files below a folder with their contents.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
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
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// same fails where two folders differ.
func same(t *testing.T, got, want string) {
	t.Helper()
	a, b := files(t, got), files(t, want)
	for name, text := range b {
		if other, ok := a[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if other != text {
			t.Errorf("%s differs", name)
		}
		delete(a, name)
	}
	for name := range a {
		t.Errorf("%s is too much", name)
	}
	if len(b) == 0 {
		t.Error("nothing to compare")
	}
}

// job is one batch as the command does it.
type job struct {
	roots    []string
	out      string
	options  Options
	index, n int
	stop     int // after so many runs; 0: never
	workers  int
}

type outcome struct{ done, skipped, failed, nothing int }

func (j job) run(t *testing.T) (outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, err := store.Open(ctx, j.out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	found, err := Find(ctx, j.roots, FindOptions{Skip: j.out, Redact: j.options.Redact, Key: j.options.Key})
	if err != nil {
		t.Fatal(err)
	}
	runs := Shard(found.Runs, j.index, max(j.n, 1))
	var o outcome
	err = Work(ctx, runs, Config{Out: out, Build: "test", Options: j.options, Workers: j.workers, MaxMemory: 1 << 30, Done: func(p Progress) {
		switch {
		case p.Nothing:
			o.nothing++
		case p.Err != nil:
			o.failed++
		case p.Skipped:
			o.skipped++
		default:
			o.done++
		}
		if j.stop > 0 && o.done >= j.stop {
			cancel()
		}
	}})
	if err != nil {
		return o, err
	}
	if _, err := Tidy(ctx, out, found.Runs); err != nil {
		t.Fatal(err)
	}
	if err := Combine(ctx, out, "vramscope test", Stored(ctx, out, runs...)); err != nil {
		t.Fatal(err)
	}
	return o, nil
}

// must runs a job that is to succeed.
func (j job) must(t *testing.T) outcome {
	t.Helper()
	o, err := j.run(t)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestResumedIsOneGo stops batches at random places, leaves what a killed
// program leaves, and goes on: the result is that of one go, byte for byte.
func TestResumedIsOneGo(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 9))
		root := someRuns(t, random, 9)
		whole := job{roots: []string{root}, out: t.TempDir(), workers: 1}
		if o := whole.must(t); o.done != 9 || o.failed != 2 {
			t.Fatalf("%+v", o)
		}
		again := job{roots: []string{root}, out: t.TempDir()}
		for _, stop := range []int{1 + random.IntN(3), 1 + random.IntN(3)} {
			again.stop = stop
			o, err := again.run(t)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", o, err)
			}
			halfWritten(t, again.out)
		}
		again.stop = 0
		if o := again.must(t); o.skipped == 0 || o.done+o.skipped != 9 {
			t.Errorf("%+v", o)
		}
		same(t, again.out, whole.out)
		if o := again.must(t); o.skipped != 9 || o.failed != 2 {
			t.Errorf("a third time: %+v", o)
		}
		same(t, again.out, whole.out)
	}
}

// halfWritten leaves what a kill in the middle of writing leaves: a temporary
// file, and a run whose entry is missing.
func halfWritten(t *testing.T, out string) {
	t.Helper()
	entries, err := filepath.Glob(out + "/runs/*/run.json")
	if err != nil || len(entries) == 0 {
		t.Fatal("no run is done", err)
	}
	if err := os.Remove(entries[0]); err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(context.Background(), filepath.Dir(entries[0]))
	if err != nil {
		t.Fatal(err)
	}
	w, err := place.Create(context.Background(), reportHTML) // neither committed nor aborted
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "half a page")
	old := time.Now().Add(-48 * time.Hour) // what is young may be another batch's
	left, err := filepath.Glob(filepath.Join(filepath.Dir(entries[0]), ".*"))
	if err != nil || len(left) == 0 {
		t.Fatal("no temporary file", err)
	}
	for _, name := range left {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShardsAreTheWhole: parts done apart and merged are what one go
// writes, byte for byte, and so are parts that are done twice.
func TestShardsAreTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	root := someRuns(t, random, 10)
	whole := job{roots: []string{root}, out: t.TempDir()}
	whole.must(t)
	ctx := context.Background()
	for _, n := range []int{3, 30} {
		var parts []*store.Place
		runs := 0
		for i := range n {
			part := job{roots: []string{root}, out: t.TempDir(), index: i, n: n}
			o := part.must(t)
			runs += o.done
			place, err := store.Open(ctx, part.out)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, place)
		}
		if runs != 10 {
			t.Errorf("%d shards did %d runs", n, runs)
		}
		merged := t.TempDir()
		out, err := store.Open(ctx, merged)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(ctx, append(parts, parts[0]), out, "vramscope test", false); err != nil {
			t.Fatal(err)
		}
		same(t, merged, whole.out)
	}
}

// TestWhatChangedIsDoneAgain: neither size nor time of a file need tell.
func TestWhatChangedIsDoneAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	root := someRuns(t, random, 5)
	a, b := shipped(t, small[0]), shipped(t, small[0])
	b[8] ^= 1 // another XFL in gzip's header: the same recording in another file
	name := root + "/changing/snapshot.pickle"
	put(t, name, a)
	j := job{roots: []string{root}, out: t.TempDir()}
	j.must(t)
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	put(t, name, b)
	if err := os.Chtimes(name, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if o := j.must(t); o.done != 1 || o.skipped != 5 {
		t.Errorf("one file has changed: %+v", o)
	}
	j.options.Partial = true
	if o := j.must(t); o.skipped != 0 {
		t.Errorf("another option: %+v", o)
	}
	if err := os.RemoveAll(root + "/changing"); err != nil {
		t.Fatal(err)
	}
	j.must(t)
	left, err := filepath.Glob(j.out + "/runs/*changing*")
	if err != nil || len(left) > 0 {
		t.Errorf("a run that is gone is still there: %v %v", left, err)
	}
	fresh := job{roots: []string{root}, out: t.TempDir(), options: j.options}
	fresh.must(t)
	same(t, j.out, fresh.out)
}

// TestMergeRefusesContradictions: two results of one run can't both be right.
func TestMergeRefusesContradictions(t *testing.T) {
	root := someRuns(t, rand.New(rand.NewPCG(1, 1)), 2)
	ctx := context.Background()
	var parts []*store.Place
	for _, o := range []Options{{}, {Partial: true}} {
		j := job{roots: []string{root}, out: t.TempDir(), options: o}
		j.must(t)
		place, err := store.Open(ctx, j.out)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, place)
	}
	out, err := store.Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(ctx, parts, out, "", false); err == nil || !strings.Contains(err.Error(), "other results") {
		t.Errorf("merged: %v", err)
	}
}

// TestResultsAmongRuns: the results may lie within what is searched, and are no runs.
func TestResultsAmongRuns(t *testing.T) {
	root := someRuns(t, rand.New(rand.NewPCG(2, 2)), 3)
	j := job{roots: []string{root}, out: root + "/reports"}
	first := j.must(t)
	if second := j.must(t); first.done != 3 || second.skipped != 3 || second.done != 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestNamesThatAreNoText: folders whose names aren't UTF-8 are runs like others, also
// two that look alike, the second time, too. More workers than runs have nothing to do.
func TestNamesThatAreNoText(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"\xff\xfe", "\xfe\xff", "plain"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Skip(err) // not every file system has such names
		}
		put(t, filepath.Join(root, name, "s.pickle.gz"), shipped(t, small[0]))
	}
	j := job{roots: []string{root}, out: t.TempDir(), workers: 1 << 30}
	first := j.must(t)
	if second := j.must(t); first.done != 3 || second.skipped != 3 || second.done != 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
}
