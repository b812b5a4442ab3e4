package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/store"
)

// Report is a run with what became of it, read back.
type Report struct {
	Entry
	Document *report.Document // nil when the entry has an Error
}

// Reports are the reports of a batch in the order of their paths. They may be
// gone through more than once.
type Reports = iter.Seq2[*Report, error]

// Stored are the reports of some runs in the place of the results; a few at a
// time are in memory. Without runs it is all that are there.
func Stored(ctx context.Context, out *store.Place, runs ...Run) Reports {
	return func(yield func(*Report, error) bool) {
		list := runs
		if len(list) == 0 {
			var err error
			if list, err = storedRuns(ctx, out); err != nil {
				yield(nil, err)
				return
			}
		}
		for r, err := range reportsOf(ctx, list, func(Run) *store.Place { return out }) {
			if err == nil && r == nil {
				continue // text that said nothing
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// reportsOf are the reports of runs, each in a place; nil is one that isn't there.
func reportsOf(ctx context.Context, runs []Run, place func(Run) *store.Place) Reports {
	begin := func(run Run) (func() (*Report, error), error) { return reportOf(ctx, place(run), run), nil }
	return func(yield func(*Report, error) bool) {
		for finish := range ahead(runs, begin) {
			if !yield(finish()) {
				return
			}
		}
	}
}

// reportOf reads a run's entry and report, nil when it has none. A large one is only read when
// it is asked for: one at a time takes memory enough.
func reportOf(ctx context.Context, out *store.Place, run Run) func() (*Report, error) {
	const large = 1 << 20
	e, err := readEntry(ctx, out, run.Name)
	r := &Report{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r, err = nil, nil
	case err == nil && e.Error != "":
		r.Entry = *e
	case err == nil:
		r, err = readReport(ctx, out, e, large)
		if errors.Is(err, errLarge) {
			return func() (*Report, error) { return readReport(ctx, out, e, maxReport) }
		}
	}
	return func() (*Report, error) { return r, err }
}

// readReport reads an entry's report of at most so many bytes.
func readReport(ctx context.Context, out *store.Place, e *Entry, most int64) (*Report, error) {
	text, err := readAll(ctx, out, in(e.Name, reportJSON), most)
	if err != nil {
		return nil, err
	}
	doc, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out.URL(in(e.Name, reportJSON)), err)
	}
	return &Report{*e, doc}, nil
}

// decode reads a report as Result.JSON holds it.
func decode(text []byte) (*report.Document, error) {
	doc := &report.Document{}
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, err
	}
	if doc.Schema != report.Schema {
		return nil, fmt.Errorf("schema %q: this program reads %s", doc.Schema, report.Schema)
	}
	return doc, nil
}

// storedRuns are the runs that have an entry, by path.
func storedRuns(ctx context.Context, out *store.Place) ([]Run, error) {
	entries, err := storedEntries(ctx, out)
	var runs []Run
	for _, e := range entries {
		runs = append(runs, e.run())
	}
	slices.SortFunc(runs, byPath)
	return runs, err
}

// run is what an entry tells of its run.
func (e *Entry) run() Run { return Run{Path: e.Path, Name: e.Name, Experiment: e.Experiment} }

// storedEntries are the entries of all runs.
func storedEntries(ctx context.Context, out *store.Place) (entries []*Entry, err error) {
	names, err := storedNames(ctx, out)
	if err != nil {
		return nil, err
	}
	for e, err := range ahead(names, func(name string) (*Entry, error) { return readEntry(ctx, out, name) }) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// storedNames are the folders below runs/ that have an entry.
func storedNames(ctx context.Context, out *store.Place) ([]string, error) {
	var names []string
	for f, err := range out.Sub(runsFolder).List(ctx) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // of a shard without a run
		}
		if err != nil {
			return nil, err
		}
		if name, file := path.Split(f.Name); file == entryFile && strings.Count(name, "/") == 1 {
			names = append(names, strings.TrimSuffix(name, "/"))
		}
	}
	return names, nil
}

// Combine writes the tables and the page over all reports into the place of the
// results, in one pass over them. Their bytes depend on the reports alone.
func Combine(ctx context.Context, out *store.Place, tool string, reports Reports) error {
	return combine(ctx, out, tool, reports, func() error { return nil })
}

// combine does so, and calls a function once all reports are read and before anything is
// in its place.
func combine(ctx context.Context, out *store.Place, tool string, reports Reports, before func() error) error {
	out.Sweep("")
	tables, err := newTables(ctx, out)
	defer tables.abort()
	if err != nil {
		return err
	}
	var index indexBuilder
	shares := false
	for r, err := range reports {
		if err == nil {
			err = tables.add(r)
		}
		if err != nil {
			return err
		}
		index.add(r)
		shares = shares || r.Script == html.ScriptName()
	}
	if err := before(); err != nil {
		return err
	}
	if shares {
		script := func(w io.Writer) error { _, err := io.WriteString(w, html.Script()); return err }
		if err := out.Write(ctx, html.ScriptName(), script); err != nil {
			return err
		}
	}
	if err := tables.commit(); err != nil {
		return err
	}
	page := index.index()
	page.Tool = tool
	return out.Write(ctx, indexFile, func(w io.Writer) error { return html.Index(w, page) })
}

// tables are all tables over runs, being written.
type tables struct {
	files     []*store.Writer
	appenders []*dataset.Appender
}

func newTables(ctx context.Context, out *store.Place) (*tables, error) {
	t := &tables{}
	for _, table := range dataset.RunTables() {
		f, err := out.Create(ctx, table.Name+".parquet")
		if err != nil {
			return t, err
		}
		t.files = append(t.files, f)
		a, err := dataset.NewAppender(f, dataset.Parquet, table)
		if err != nil {
			return t, err
		}
		t.appenders = append(t.appenders, a)
	}
	return t, nil
}

func (t *tables) add(r *Report) error {
	for _, a := range t.appenders {
		a.Called(r.Name, r.Experiment)
		var err error
		if r.Document == nil {
			err = a.Failed(r.Path, r.Error)
		} else {
			err = a.Document(r.Path, r.Document)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit puts the tables in their places once all are whole.
func (t *tables) commit() error {
	for _, a := range t.appenders {
		if err := a.Close(); err != nil {
			return err
		}
	}
	for _, f := range t.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// abort drops what isn't committed.
func (t *tables) abort() {
	for _, f := range t.files {
		f.Abort()
	}
}

// Tidy removes the folders of runs that are not among those given, which an
// earlier batch left in the same place, and gives their number. What the program
// didn't write stays.
func Tidy(ctx context.Context, out *store.Place, runs []Run) (int, error) {
	removed, _, err := TidyBelow(ctx, out, runs, func(string) bool { return true })
	return removed, err
}

// TidyBelow removes those of them that gone says are, by where they lay, and gives the
// others, too.
func TidyBelow(ctx context.Context, out *store.Place, runs []Run, gone func(place string) bool) (removed int, kept []Run,
	err error) {
	keep := map[string]bool{}
	for _, r := range runs {
		keep[r.Name] = true
	}
	names, err := storedNames(ctx, out)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil, nil
		}
		return 0, nil, err
	}
	for _, name := range names {
		if keep[name] {
			continue
		}
		entry, err := readEntry(ctx, out, name)
		if err != nil {
			return removed, kept, err // another program's, perhaps
		}
		if !gone(entry.Path) {
			kept = append(kept, entry.run())
			continue
		}
		if err := removeRun(ctx, out, name); err != nil {
			return removed, kept, err
		}
		removed++
	}
	return removed, kept, nil
}

// Below tells which runs lay below some folders or prefixes, as these were named.
func Below(roots []string) func(place string) bool {
	return func(place string) bool {
		for _, root := range roots {
			local, ok := store.Path(root)
			if !ok {
				local = strings.TrimSuffix(store.Show(root), "/")
			} else if local = filepath.ToSlash(filepath.Clean(local)); local == "." {
				if !store.IsURL(place) && !path.IsAbs(place) && place != ".." && !strings.HasPrefix(place, "../") {
					return true
				}
				continue
			}
			if place == local || strings.HasPrefix(place, strings.TrimSuffix(local, "/")+"/") {
				return true
			}
		}
		return false
	}
}
