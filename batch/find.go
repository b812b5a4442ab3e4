package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/store"
)

// FindOptions say where not to look.
type FindOptions struct {
	Skip   string      // a folder or prefix that is passed over: where the results go
	Redact bool        // runs are called by pseudonyms
	Key    string      // that makes pseudonyms one's own
	Stores *store.Pool // connections to stores; nil: its own
}

// Found is what lies below some folders.
type Found struct {
	Runs    []Run    // by Path
	Pickles []string // pickles of something else, which were passed over
	Silent  []string // logs in which nothing known stands, one of each folder
	Failed  []error  // folders and files that could not be read
	Links   []string // links that aren't followed, to what lies elsewhere
}

// candidate is a file that may belong to a run.
type candidate struct {
	Path  string // with slashes
	Root  string // the folder that was given: runs don't reach above it
	Bytes int64
	Kind  fileKind
	// Version is what a store says to tell a changed file; "" of a folder's.
	Version string
	// Unread is why it could not be looked into; nil: it could. Kind is then by the name.
	Unread error
}

const (
	maxFiles = 2_000_000
	maxLinks = 10_000 // that are looked at
	maxDepth = 64
)

// Find finds the runs below folders, and those that are named file by file, by
// what the files hold.
func Find(ctx context.Context, roots []string, o FindOptions) (*Found, error) {
	w := walker{ctx: ctx, stores: o.Stores, seen: map[string]bool{}}
	if w.stores == nil {
		w.stores = &store.Pool{}
		defer w.stores.Close()
	}
	if local, ok := store.Path(o.Skip); !ok {
		w.skipped = strings.TrimSuffix(store.Show(o.Skip), "/") + "/"
	} else if o.Skip != "" {
		w.skip, _ = os.Stat(local) // nothing is there yet, perhaps
	}
	found := &Found{}
	for _, root := range roots {
		root, ok := store.Path(root)
		if !ok {
			if err := w.prefix(root, found); err != nil {
				return nil, err
			}
			continue
		}
		st, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, unwrapPath(err))
		}
		clean := filepath.Clean(root)
		if st.IsDir() {
			w.root = filepath.ToSlash(clean)
			if err := w.folder(clean, 0); err != nil {
				return nil, err
			}
		} else if place := filepath.ToSlash(clean); !w.seen[place] {
			w.seen[place] = true
			found.Runs = append(found.Runs, Run{Place: place, Files: []string{place}, Bytes: st.Size(), Sure: true})
		}
	}
	if err := w.sniff(); err != nil {
		return nil, err
	}
	for _, f := range w.files {
		if f.Kind == kindPickle {
			found.Pickles = append(found.Pickles, f.Path)
		}
	}
	runs, silent := group(w.files)
	found.Runs, found.Silent = append(found.Runs, runs...), silent
	found.Failed = w.untold(found.Runs)
	found.Links = leadElsewhere(w.links, roots)
	call(found.Runs, o)
	return found, nil
}

// leadElsewhere are those of some links that lead to a file or folder below none of the roots.
func leadElsewhere(links, roots []string) (away []string) {
	resolved := func(name string) string {
		name, err := filepath.EvalSymlinks(name)
		if err == nil {
			name, err = filepath.Abs(name)
		}
		if err != nil {
			return ""
		}
		return filepath.ToSlash(name)
	}
	var places []string
	for _, root := range roots {
		if local, ok := store.Path(root); ok {
			places = append(places, resolved(local))
		}
	}
	below := Below(places)
	for _, link := range links {
		if to := resolved(link); to != "" && !below(to) {
			away = append(away, link)
		}
	}
	return away
}

// call gives runs the names that the outputs call them by, and puts them into
// the order of the tables. With redaction these are pseudonyms; two that would
// be alike are told apart in the order of their places.
func call(runs []Run, o FindOptions) {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Place, b.Place) })
	var r *redact.Redactor
	taken := map[string]int{}
	if o.Redact {
		r = redact.New(o.Key)
	}
	for i := range runs {
		run := &runs[i]
		run.Path = strings.ToValidUTF8(run.Place, "\uFFFD") // as JSON would have it
		run.Experiment = experimentOf(run.Path)
		if r != nil {
			run.Path, run.Experiment = r.Input(run.Place), r.Input(experimentOf(run.Place))
		}
		if r != nil || run.Path != run.Place {
			if n := taken[run.Path]; n > 0 {
				taken[run.Path]++
				run.Path = fmt.Sprintf("%s-%d", run.Path, n+1)
			}
			taken[run.Path]++
		}
		run.Name = FolderName(run.Path)
	}
	slices.SortFunc(runs, byPath)
}

// ByPath puts runs into the order of tables and pages.
func ByPath(runs []Run) []Run {
	slices.SortFunc(runs, byPath)
	return runs
}

func byPath(a, b Run) int { return cmp.Compare(a.Path, b.Path) }

// walker collects the files below folders.
type walker struct {
	ctx     context.Context
	stores  *store.Pool
	skip    os.FileInfo
	skipped string          // a prefix in a bucket, with a slash
	seen    map[string]bool // folders and files, in case roots overlap
	files   []candidate
	failed  []error
	links   []string
	root    string // the present one
}

// folder adds what lies below a folder. Links are not followed: what they lead
// to would count twice.
func (w *walker) folder(name string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.seen[name] {
		return nil
	}
	w.seen[name] = true
	if w.skip != nil {
		if st, err := os.Stat(name); err == nil && os.SameFile(st, w.skip) {
			return nil
		}
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		w.failed = append(w.failed, fmt.Errorf("%s: %w", name, unwrapPath(err)))
	}
	for _, e := range entries {
		full := filepath.Join(name, e.Name())
		switch {
		case e.IsDir() && sniff.OtherFolder(e.Name()):
		case e.Type() == fs.ModeSymlink:
			w.link(full, e.Name())
		case e.IsDir() && depth >= maxDepth:
			w.failed = append(w.failed, fmt.Errorf("%s: more than %d folders deep: not looked at", full, maxDepth))
		case e.IsDir():
			if err := w.folder(full, depth+1); err != nil {
				return err
			}
		case e.Type().IsRegular() && !sniff.OtherFile(e.Name()):
			if err := w.file(full, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// file adds a file, unless it is gone meanwhile or was named before.
func (w *walker) file(name string, e fs.DirEntry) error {
	st, err := e.Info()
	if err != nil || w.seen[filepath.ToSlash(name)] {
		return nil
	}
	if len(w.files) == maxFiles {
		return fmt.Errorf("%s: more than %d files: give folders further down", filepath.Dir(name), maxFiles)
	}
	w.files = append(w.files, candidate{Path: filepath.ToSlash(name), Root: w.root, Bytes: st.Size()})
	return nil
}

// link notes a link to what may be a run's.
func (w *walker) link(name, base string) {
	if !sniff.OtherFolder(base) && !sniff.OtherFile(base) && len(w.links) < maxLinks {
		w.links = append(w.links, name)
	}
}

// prefix adds what lies below a prefix of a bucket, or the object of that name.
func (w *walker) prefix(root string, found *Found) error {
	place, err := w.stores.Place(w.ctx, root)
	if err != nil {
		return err
	}
	before := len(w.files)
	for f, err := range place.List(w.ctx) {
		name := place.URL(f.Name)
		switch {
		case err != nil:
			return err
		case w.seen[name], w.skipped != "" && strings.HasPrefix(name, w.skipped), !likely(f.Name):
			continue
		case len(w.files) == maxFiles:
			return fmt.Errorf("%s: more than %d files: give prefixes further down", place.URL(""), maxFiles)
		}
		w.seen[name] = true
		w.files = append(w.files, candidate{Path: name, Root: place.URL(""), Bytes: f.Size, Version: f.Version})
	}
	if len(w.files) > before {
		return nil
	}
	f, err := w.stores.Stat(w.ctx, root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !w.seen[f.Name] {
		w.seen[f.Name] = true
		found.Runs = append(found.Runs, Run{Place: f.Name, Files: []string{f.Name}, Versions: []string{f.Version}, Bytes: f.Size,
			Sure: true})
	}
	return nil
}

// likely is what folder asks of names.
func likely(name string) bool {
	return strings.Count(name, "/") < maxDepth && !sniff.Other(name)
}

// sniff looks into the files, several at a time: on a network's disk each takes
// its time.
func (w *walker) sniff() error {
	var next sync.Mutex
	var done sync.WaitGroup
	at := 0
	for range 4 * runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(w.files) || w.ctx.Err() != nil {
					return
				}
				f := &w.files[i]
				var err error
				if f.Kind, err = sniffFile(w.ctx, f.Path, f.Bytes, w.stores); err != nil && !errors.Is(err, fs.ErrNotExist) {
					f.Unread, f.Kind = err, kindUnread(f.Path, err)
				}
			}
		})
	}
	done.Wait()
	return w.ctx.Err()
}

// kindUnread is what a file that could not be looked into counts as: it is tried again with
// its run, which is not judged as if it weren't there. What nobody may read and has no
// telling name is no run by itself.
func kindUnread(name string, err error) fileKind {
	switch {
	case sniff.CalledRecording(name):
		return kindRecording
	case sniff.CalledLog(name), !errors.Is(err, fs.ErrPermission):
		return kindText
	}
	return kindAccessory
}

// untold are the folders and files that could not be read and belong to no run, which would
// say so.
func (w *walker) untold(runs []Run) []error {
	of := map[string]bool{}
	for i := range runs {
		for _, name := range runs[i].Files {
			of[name] = true
		}
	}
	all := w.failed
	for i := range w.files {
		if f := &w.files[i]; f.Unread != nil && !of[f.Path] {
			var far *store.Error
			if errors.As(f.Unread, &far) { // has the name
				all = append(all, far)
			} else {
				all = append(all, fmt.Errorf("%s: %w", f.Path, unwrapPath(f.Unread)))
			}
		}
	}
	slices.SortFunc(all, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return all
}

// unwrapPath is an error without the path, which the caller names.
func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
