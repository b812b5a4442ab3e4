package batch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/store"
)

// tableOf is a table of so many failed runs, in Parquet.
func tableOf(t testing.TB, runs int) []byte {
	t.Helper()
	var b bytes.Buffer
	a, err := dataset.NewAppender(&b, dataset.Parquet, dataset.RunTables()[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		if err := a.Failed(fmt.Sprint(i), "broken"); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquetRows(t *testing.T) {
	dir := t.TempDir()
	place, err := store.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	count := func(text []byte) (int64, error) {
		put(t, filepath.Join(dir, "runs.parquet"), text)
		return parquetRows(context.Background(), place, "runs.parquet")
	}
	for _, want := range []int64{0, 1, 14, 3000} {
		if got, err := count(tableOf(t, int(want))); err != nil || got != want {
			t.Errorf("%d rows, %v, want %d", got, err, want)
		}
	}
	whole := tableOf(t, 14)
	for name, text := range map[string][]byte{"nothing": nil, "cut": whole[:len(whole)-1], "its end alone": whole[len(whole)-8:],
		"text": bytes.Repeat([]byte("no table"), 100), "a footer longer than the file": append(bytes.Clone(whole[:len(whole)-8]), "\xff\xff\xff\x7fPAR1"...),
		"a footer of zeros":  append(make([]byte, 100), "\x40\x00\x00\x00PAR1"...),
		"lists in lists":     append(bytes.Repeat([]byte{0x19}, 100), "\x40\x00\x00\x00PAR1"...),
		"less than no rows":  append(append(make([]byte, 20), 0x36, 1, 0), "\x03\x00\x00\x00PAR1"...),
		"a list without end": append(append(make([]byte, 20), 0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x0f), "\x07\x00\x00\x00PAR1"...)} {
		if got, err := count(text); err == nil {
			t.Errorf("%s: %d rows", name, got)
		}
	}
}

func FuzzParquetRows(f *testing.F) {
	text := tableOf(f, 3)
	f.Add(text[len(text)/2 : len(text)-8])
	f.Fuzz(func(t *testing.T, footer []byte) {
		if rows, ok := rowsOf(footer); ok && rows < 0 {
			t.Error(rows)
		}
	})
}

// TestPartWithoutRun: a part whose folder has lost a run since its table was written isn't merged.
func TestPartWithoutRun(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		put(t, filepath.Join(root, name, "oom.pickle"), shipped(t, small[0]))
	}
	j := job{roots: []string{root}, out: t.TempDir()}
	j.must(t)
	part, err := store.Open(context.Background(), j.out)
	if err != nil {
		t.Fatal(err)
	}
	merge := func() error {
		out, err := store.Open(context.Background(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		_, err = Merge(context.Background(), []*store.Place{part}, out, "", false)
		return err
	}
	if err := merge(); err != nil {
		t.Fatal(err)
	}
	runs, err := os.ReadDir(filepath.Join(j.out, "runs"))
	if err != nil || len(runs) != 2 {
		t.Fatal(runs, err)
	}
	if err := os.RemoveAll(filepath.Join(j.out, "runs", runs[0].Name())); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(j.out, "runs.parquet") + " has 2 rows, 1 run below runs/: copy the part anew, or run its shard again"
	if err := merge(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestLinksAreSaid: what links lead to isn't looked at; it is said where that lies elsewhere.
func TestLinksAreSaid(t *testing.T) {
	root, away := t.TempDir(), t.TempDir()
	put(t, filepath.Join(root, "a", "oom.pickle"), shipped(t, small[0]))
	put(t, filepath.Join(away, "b", "oom.pickle"), shipped(t, small[0]))
	for name, to := range map[string]string{"elsewhere": filepath.Join(away, "b"), "a/file.pickle": filepath.Join(away, "b", "oom.pickle"),
		"within": filepath.Join(root, "a"), "circle": root, "nowhere": filepath.Join(away, "gone"), ".hidden": away, "README": away,
		"relative": "a"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Find(context.Background(), []string{root}, FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(found.Links), fmt.Sprint([]string{filepath.Join(root, "a/file.pickle"), filepath.Join(root, "elsewhere")}); got != want || len(found.Runs) != 1 {
		t.Errorf("%d runs, links %s, want %s", len(found.Runs), got, want)
	}
	if found, err = Find(context.Background(), []string{root, away}, FindOptions{}); err != nil || len(found.Links) != 0 || len(found.Runs) != 2 {
		t.Errorf("%v, %v: both were given", found, err)
	}
}
