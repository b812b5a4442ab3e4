package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/store"
)

func open(t *testing.T, name string) *store.Place {
	t.Helper()
	p, err := store.Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// places are a folder, and a bucket where the program knows any.
func places(t *testing.T, folder string) []string {
	t.Helper()
	if fakes3.Tags == "" {
		return []string{folder}
	}
	fakes3.Start(t)
	return []string{folder, "s3://team/out"}
}

func names(t *testing.T, p *store.Place) []string {
	t.Helper()
	var out []string
	for f, err := range p.List(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Name)
	}
	return out
}

func write(p *store.Place, name, data string) error {
	return p.Write(context.Background(), name, func(w io.Writer) error {
		_, err := io.WriteString(w, data)
		return err
	})
}

func read(t *testing.T, p *store.Place, name string) string {
	t.Helper()
	r, err := p.Read(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Size != int64(len(data)) {
		t.Errorf("%s: Size is %d, read %d bytes", name, r.Size, len(data))
	}
	return string(data)
}

// TestPlacesAreAlike does the same in a folder, below a file URL and in a bucket.
func TestPlacesAreAlike(t *testing.T) {
	folder := t.TempDir()
	type place struct{ name, place, shown string }
	all := []place{{"path", folder, folder}, {"file URL", "file://" + t.TempDir(), ""}}
	if fakes3.Tags != "" {
		s := fakes3.Start(t)
		all = append(all, place{"bucket", "s3://team", "s3://team"}, place{"prefix", "s3://team/deep/er/", "s3://team/deep/er"},
			place{"endpoint in the URL", "s3://team/x?use_path_style=true&region=eu-west-1&endpoint=" + s.URL, "s3://team/x"})
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, c.place)
			if c.shown != "" && p.URL("") != c.shown {
				t.Errorf("shown as %s, want %s", p.URL(""), c.shown)
			}
			all := []string{"a b/ü#1.pickle", "a-b/x.log", "a.pickle", "a/x.log", "empty"}
			for _, i := range []int{3, 0, 4, 2, 1} {
				if err := write(p, all[i], strings.Repeat("x", i*40%161)); err != nil {
					t.Fatal(err)
				}
			}
			if got := names(t, p); c.name != "bucket" && !slices.Equal(got, all) {
				t.Errorf("listed %q, want %q", got, all)
			}
			if got := read(t, p, all[3]); len(got) != 120 {
				t.Errorf("read %d bytes, want 120", len(got))
			}
			before := versions(t, p)
			if f, err := p.Stat(context.Background(), all[3]); err != nil || f.Version != before[all[3]] || f.Size != 120 {
				t.Errorf("of one file: %v, %v", f, err)
			}
			if err := write(p, all[3], "other"); err != nil {
				t.Fatal(err)
			}
			if got := read(t, p, all[3]); got != "other" {
				t.Errorf("read %q after it was replaced", got)
			}
			after := versions(t, p)
			if before[all[3]] == after[all[3]] || before[all[2]] != after[all[2]] {
				t.Errorf("versions tell the changed file badly: %v, then %v", before, after)
			}
			for range 2 { // that it is gone already is no error
				if err := p.Remove(context.Background(), all[3]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.Stat(context.Background(), all[3]); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("asked of what is gone: %v", err)
			}
			_, err := p.Read(context.Background(), all[3])
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), p.URL(all[3])+": no such ") {
				t.Errorf("reading what is gone: %v", err)
			}
			for _, bad := range []string{"", "../x", "/etc/x", "a/../../x", "a//b"} {
				if err := write(p, bad, "x"); err == nil {
					t.Errorf("a file named %q was written", bad)
				}
			}
		})
	}
}

func versions(t *testing.T, p *store.Place) map[string]string {
	t.Helper()
	out := map[string]string{}
	for f, err := range p.List(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = f.Version
	}
	return out
}

// TestListReadsAllPages lists more objects than a page holds, in order.
func TestListReadsAllPages(t *testing.T) {
	s := fakes3.Start(t)
	pages := 0
	s.Before = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		pages++
		next.ServeHTTP(w, r)
	}
	const n = 2345
	for i := range n {
		s.Put(t, fmt.Sprintf("runs/%05d/snapshot.pickle", i*7919%n), []byte("x"))
	}
	s.Put(t, "runs/", nil) // as consoles make a folder
	s.Put(t, "runs-of-others/a", nil)
	got := names(t, open(t, "s3://team/runs"))
	if len(got) != n || !slices.IsSorted(got) || got[n-1] != "02344/snapshot.pickle" {
		t.Errorf("listed %d objects, want %d in order", len(got), n)
	}
	if pages != 3 {
		t.Errorf("%d requests, want 3 pages", pages)
	}
	for range open(t, "s3://team/runs").List(context.Background()) {
		break
	}
	if pages != 4 {
		t.Errorf("listing went on after its reader had stopped: %d requests", pages)
	}
}

// TestListOfEncodedNames reads names as stores write them that were asked to
// write them as in a URL, and as those do that don't know how.
func TestListOfEncodedNames(t *testing.T) {
	s := fakes3.Start(t)
	for encoding, want := range map[string]string{"<EncodingType>url</EncodingType>": "a b+ü/%.pickle", "": "a+b%2B%C3%BC/%25.pickle"} {
		s.Before = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			if r.URL.Query().Get("encoding-type") != "url" {
				t.Errorf("asked for %s", r.URL)
			}
			fmt.Fprintf(w, `<ListBucketResult>%s<Contents><Key>x/a+b%%2B%%C3%%BC/%%25.pickle</Key><Size>5</Size><ETag>"00ff"</ETag><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents></ListBucketResult>`, encoding)
		}
		p := open(t, "s3://team/x")
		const version = "5-1767323045000000000-00ff"
		if got := versions(t, p); len(got) != 1 || got[want] != version {
			t.Errorf("listed %v, want %s", got, want)
		}
		if f, err := p.Stat(context.Background(), want); err != nil || f.Version != version {
			t.Errorf("%+v, %v", f, err)
		}
	}
}

// TestListOfAFolderThatIsGone says so, once.
func TestListOfAFolderThatIsGone(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "none"))
	for _, err := range p.List(context.Background()) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a folder that isn't there: %v", err)
		}
	}
}

// TestInterruptedWrite leaves what was there, and nothing else.
func TestInterruptedWrite(t *testing.T) {
	folder := t.TempDir()
	own := errors.New("the disk of dreams is full")
	for _, place := range places(t, folder) {
		for name, stop := range map[string]func(cancel func()) error{
			"by its function": func(func()) error { return own },
			"by the context":  func(cancel func()) error { cancel(); return nil },
		} {
			for _, size := range []int{1 << 10, 12 << 20} { // one request, several parts
				t.Run(fmt.Sprintf("%s %s %d", place, name, size), func(t *testing.T) {
					p := open(t, place)
					if err := write(p, "runs.parquet", "whole"); err != nil {
						t.Fatal(err)
					}
					for _, file := range []string{"runs.parquet", "new.parquet"} {
						ctx, cancel := context.WithCancel(context.Background())
						err := p.Write(ctx, file, func(w io.Writer) error {
							if _, err := w.Write(make([]byte, size)); err != nil {
								return err
							}
							return stop(cancel)
						})
						cancel()
						if err == nil || !errors.Is(err, own) && !errors.Is(err, context.Canceled) {
							t.Errorf("%s: error is %v", file, err)
						}
					}
					if got := names(t, p); !slices.Equal(got, []string{"runs.parquet"}) {
						t.Errorf("left %q", got)
					}
					if got := read(t, p, "runs.parquet"); got != "whole" {
						t.Errorf("%d bytes took the place of what was there", len(got))
					}
				})
			}
		}
	}
}

// TestRemoveLeavesNoFolders, and no file of others.
func TestRemoveLeavesNoFolders(t *testing.T) {
	folder := t.TempDir()
	for _, place := range places(t, folder) {
		p := open(t, place)
		runs := p.Sub("runs")
		for _, name := range []string{"a/report.html", "a/report.json", "b/report.html"} {
			if err := write(runs, name, "x"); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"runs/a/report.html", "runs/a/report.json"} {
			if err := p.Remove(context.Background(), name); err != nil {
				t.Fatal(err)
			}
		}
		if got := names(t, p); !slices.Equal(got, []string{"runs/b/report.html"}) || runs.URL("b") != place+"/runs/b" {
			t.Errorf("%s: left %q", runs.URL("b"), got)
		}
	}
	if left, err := os.ReadDir(filepath.Join(folder, "runs")); err != nil || len(left) != 1 {
		t.Errorf("left folders %v, %v", left, err)
	}
	if err := open(t, folder).Remove(context.Background(), "runs/b/report.html"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the place itself should stay, empty: %v, %v", left, err)
	}
}

// TestSweep removes what a killed program left, and only that.
func TestSweep(t *testing.T) {
	folder := t.TempDir()
	p := open(t, folder)
	w, err := p.Create(context.Background(), "a/x.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := write(p, "a/.hidden", "x"); err != nil {
		t.Fatal(err)
	}
	if got := names(t, p); len(got) != 2 {
		t.Errorf("before: %q", got)
	}
	old := time.Now().Add(-48 * time.Hour)
	for _, name := range names(t, p) {
		if err := os.Chtimes(filepath.Join(folder, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	p.Sweep("a")
	if got := names(t, p); !slices.Equal(got, []string{"a/.hidden"}) {
		t.Errorf("after: %q", got)
	}
	if err := w.Commit(); err == nil {
		t.Error("a file was committed that isn't there")
	}
}

// TestSweepLeavesOthersWork: two programs may write into one place at once.
func TestSweepLeavesOthersWork(t *testing.T) {
	folder := t.TempDir()
	p := open(t, folder)
	w, err := p.Create(context.Background(), "x.parquet")
	if err != nil {
		t.Fatal(err)
	}
	open(t, folder).Sweep("")
	if err := w.Commit(); err != nil {
		t.Error(err)
	}
	if got := names(t, p); !slices.Equal(got, []string{"x.parquet"}) {
		t.Errorf("after: %q", got)
	}
}

// TestBigWrite goes up in parts.
func TestBigWrite(t *testing.T) {
	fakes3.Start(t)
	p := open(t, "s3://team")
	big := strings.Repeat("0123456789abcdef", 1<<20)
	if err := write(p, "big", big); err != nil {
		t.Fatal(err)
	}
	if read(t, p, "big") != big {
		t.Error("what was written isn't what is read")
	}
}

// TestNoPlace: what can't be a place is told apart before anything is connected to, without credentials.
func TestNoPlace(t *testing.T) {
	for name, want := range map[string]string{
		"ftp://team/x":                         "ftp://team/x: no such kind of store: file://, gs://, s3:// are known",
		"s3://me:" + fakes3.Secret + "@team/x": "s3://team/x: a URL isn't the place for credentials",
		"s3:///x":                              "s3:///x: no bucket is named",
		"s3://team?a=%zz&key=" + fakes3.Secret: "s3://team: the parameters after \"?\" can't be read",
		"file://x/y":                           "a file URL needs an absolute path",
	} {
		_, err := store.Open(context.Background(), name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), fakes3.Secret) {
			t.Errorf("%s: error is %v\nwant %s", name, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name, shown string
		url         bool
		place, file string
	}{
		{"runs/a.pickle", "runs/a.pickle", false, "runs", "a.pickle"},
		{"a.pickle", "a.pickle", false, ".", "a.pickle"},
		{"/a?b", "/a?b", false, "/", "a?b"},
		{"C:/a", "C:/a", false, "C:", "a"},
		{"file:///x/a", "/x/a", true, "file:///x", "a"},
		{"s3://b/x/a.gz?region=r&endpoint=http://u:p@h", "s3://b/x/a.gz", true, "s3://b/x?region=r&endpoint=http://u:p@h", "a.gz"},
		{"s3://key:word@b/x", "s3://b/x", true, "s3://key:word@b", "x"},
		{"s3://b", "s3://b", true, "s3:/", "b"},
	} {
		if store.IsURL(c.name) != c.url || store.Show(c.name) != c.shown {
			t.Errorf("%s: URL %v, shown %s", c.name, store.IsURL(c.name), store.Show(c.name))
		}
		if place, file := store.Split(c.name); place != c.place || file != c.file {
			t.Errorf("%s: split into %s and %s", c.name, place, file)
		}
	}
	if _, err := os.Stat("s3:"); err == nil {
		t.Error("a URL was taken for a path")
	}
}

// TestPool opens names as they were listed, with the parameters that the
// bucket was given once.
func TestPool(t *testing.T) {
	folder := t.TempDir()
	if err := write(open(t, folder), "a b/x.pickle", "ab"); err != nil {
		t.Fatal(err)
	}
	var pool store.Pool
	defer pool.Close()
	type place struct {
		name string
		want []string
	}
	all, roots := []place{{folder, []string{folder + "/a b/x.pickle"}}, {"file://" + folder + "/a b", []string{folder + "/a b/x.pickle"}}},
		[]string{folder, "file://" + folder}
	if fakes3.Tags != "" {
		s := fakes3.Start(t)
		s.Put(t, "runs/a b/x.pickle", []byte("ab"))
		s.Put(t, "runs/a b/x.pickle.log", []byte("log"))
		t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
		objects := []string{"s3://team/runs/a b/x.pickle", "s3://team/runs/a b/x.pickle.log"}
		all = append(all, place{"s3://team/runs/?endpoint=" + s.URL, objects}, place{"s3://team", objects}, place{"s3://team/run", nil})
		roots = append(roots, "s3://team/out?endpoint="+s.URL)
	}
	for _, c := range all {
		var got []string
		place, err := pool.Place(context.Background(), c.name)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range place.List(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			name := place.URL(f.Name)
			got = append(got, name)
			r, err := pool.Read(context.Background(), name)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(r); err != nil || int64(len(data)) != f.Size {
				t.Errorf("%s: %d bytes, want %d; %v", name, len(data), f.Size, err)
			}
			r.Close()
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, above := range roots {
		name := store.Join(above, "runs", "x/report.html")
		err := pool.Write(context.Background(), name, func(w io.Writer) error { return nil })
		if f, failed := pool.Stat(context.Background(), name); err != nil || failed != nil || !strings.HasSuffix(f.Name, "/runs/x/report.html") {
			t.Errorf("wrote %s: %v; %v, %v", name, err, f, failed)
		}
		none := store.Join(above, "runs", "x/report.json")
		if _, err := pool.Stat(context.Background(), none); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, which isn't there: %v", none, err)
		}
	}
}
