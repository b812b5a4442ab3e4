package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/report"
)

// Report is a run with what became of it, read back.
type Report struct {
	Entry
	Document *report.Document // nil when the entry has an Error
}

// Reports are the reports of a batch in the order of their paths. They may be
// gone through more than once.
type Reports = iter.Seq2[*Report, error]

// Stored are the reports of some runs in the folder of results; one at a time is
// in memory. Without runs it is all that are there.
func Stored(out string, runs ...Run) Reports {
	return func(yield func(*Report, error) bool) {
		list := runs
		if len(list) == 0 {
			var err error
			if list, err = storedRuns(out); err != nil {
				yield(nil, err)
				return
			}
		}
		for _, run := range list {
			e, err := readEntry(filepath.Join(out, runsFolder, run.Name))
			if errors.Is(err, os.ErrNotExist) {
				continue // text that said nothing
			}
			r := &Report{}
			if err == nil {
				r.Entry = *e
				err = r.read(out)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (r *Report) read(out string) error {
	if r.Error != "" {
		return nil
	}
	name := filepath.Join(out, runsFolder, r.Name, reportJSON)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	r.Document, err = Decode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Decode reads a report as Result.JSON holds it.
func Decode(text []byte) (*report.Document, error) {
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
func storedRuns(out string) ([]Run, error) {
	folders, err := os.ReadDir(filepath.Join(out, runsFolder))
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, f := range folders {
		e, err := readEntry(filepath.Join(out, runsFolder, f.Name()))
		if errors.Is(err, os.ErrNotExist) || !f.IsDir() {
			continue
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, Run{Path: e.Path, Name: e.Name, Experiment: e.Experiment})
	}
	slices.SortFunc(runs, byPath)
	return runs, nil
}

// Combine writes the tables and the page over all reports into the folder of
// results. Their bytes hang on the reports alone.
func Combine(out, tool string, reports Reports) error {
	sweep(out)
	for _, t := range dataset.RunTables() {
		name := filepath.Join(out, t.Name+".parquet")
		if err := writeFile(name, func(w io.Writer) error { return WriteTable(w, t, reports) }); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(out, indexFile), func(w io.Writer) error { return WriteIndex(w, tool, reports) })
}

// WriteTable writes one of dataset.RunTables as a Parquet file.
func WriteTable(w io.Writer, t *dataset.Table, reports Reports) error {
	a, err := dataset.NewAppender(w, dataset.Parquet, t)
	if err != nil {
		return err
	}
	for r, err := range reports {
		if err != nil {
			return err
		}
		if r.Document == nil {
			err = a.Failed(r.Path, r.Error)
		} else {
			err = a.Document(r.Path, r.Document)
		}
		if err != nil {
			return err
		}
	}
	return a.Close()
}

// WriteIndex writes the page over all runs.
func WriteIndex(w io.Writer, tool string, reports Reports) error {
	var b indexBuilder
	for r, err := range reports {
		if err != nil {
			return err
		}
		b.add(r)
	}
	x := b.index()
	x.Tool = tool
	return report.IndexHTML(w, x)
}

// Tidy removes the folders of runs that are not among those given, which an
// earlier batch left in the same place, and gives their number. What the program
// didn't write stays.
func Tidy(out string, runs []Run) (int, error) {
	keep := map[string]bool{}
	for _, r := range runs {
		keep[r.Name] = true
	}
	old, err := storedRuns(out)
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, r := range old {
		if keep[r.Name] {
			continue
		}
		if err := removeRun(filepath.Join(out, runsFolder, r.Name)); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
