package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/store"
)

// Merge puts the parts of a batch, each the results of a shard, together: the
// runs' folders are copied and tables and page made anew, byte for byte what one
// go over all would have written. Two parts may hold the same run only if they
// say the same of it. It gives the runs, by path.
func Merge(ctx context.Context, parts []*store.Place, out *store.Place, tool string) ([]Run, error) {
	if err := missingPart(ctx, parts); err != nil {
		return nil, err
	}
	from := map[string]*store.Place{} // the part of each run, by name
	scripts := map[string]bool{}      // that were copied
	var runs []Run
	for _, part := range parts {
		if _, err := part.Stat(ctx, indexFile); errors.Is(err, fs.ErrNotExist) { // it is written last
			return nil, fmt.Errorf("%s: no finished part of a batch: run its shard again", part.URL(""))
		}
		found, err := storedEntries(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("%s: no part of a batch: %w", part.URL(""), unwrapPath(err))
		}
		for _, e := range found {
			run := e.run()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if other, ok := from[run.Name]; ok {
				if !sameRun(ctx, part, other, run.Name) {
					return nil, fmt.Errorf("%s is in %s and, with other results, in %s", run.Path, other.URL(""), part.URL(""))
				}
				continue
			}
			from[run.Name] = part
			runs = append(runs, run)
			if err := copyRun(ctx, part, out, run.Name); err != nil {
				return nil, err
			}
			if err := copyScript(ctx, part, out, e.Script, scripts); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(runs, byPath)
	if len(runs) == 0 {
		return nil, errors.New("the parts hold no run")
	}
	if _, err := Tidy(ctx, out, runs); err != nil {
		return nil, err
	}
	return runs, Combine(ctx, out, tool, Stored(ctx, out, runs...))
}

// scriptFile is what the script of reports is called, whatever version wrote them.
var scriptFile = pattern.Of(`^page-[0-9a-f]{12}\.js$`)

// runFiles are the files of a run's folder; the entry is written last.
var runFiles = []string{reportHTML, reportJSON, entryFile}

// copyRun copies a run's folder, unless it is the same already.
func copyRun(ctx context.Context, from, to *store.Place, run string) error {
	if sameFolder(from, to) {
		return nil
	}
	to.Sweep(path.Join(runsFolder, run))
	if sameRun(ctx, from, to, run) {
		return nil
	}
	if err := to.Remove(ctx, in(run, entryFile)); err != nil {
		return err
	}
	for _, name := range runFiles {
		if err := copyFile(ctx, from, to, in(run, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyScript copies the script of a report, once.
func copyScript(ctx context.Context, from, to *store.Place, name string, copied map[string]bool) error {
	if copied[name] || !scriptFile().MatchString(name) || sameFolder(from, to) {
		return nil
	}
	copied[name] = true
	return copyFile(ctx, from, to, name)
}

// copyFile copies a file, or removes the copy of one that isn't there.
func copyFile(ctx context.Context, from, to *store.Place, name string) error {
	r, err := from.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return to.Remove(ctx, name)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return to.Write(ctx, name, func(w io.Writer) error { _, err := io.Copy(w, r); return err })
}

// sameFolder reports whether two places are one.
func sameFolder(a, b *store.Place) bool {
	x, here := a.Local()
	y, there := b.Local()
	if !here || !there {
		return here == there && a.URL("") == b.URL("")
	}
	s, err := os.Stat(x)
	if err != nil {
		return false
	}
	t, err := os.Stat(y)
	return err == nil && os.SameFile(s, t)
}

// sameRun reports whether two places hold the same of a run: the entry's
// fingerprint is of all that the reports are made of. A failed run has none; its
// reason counts.
func sameRun(ctx context.Context, a, b *store.Place, run string) bool {
	x, err := readAll(ctx, a, in(run, entryFile))
	if err != nil {
		return false
	}
	y, err := readAll(ctx, b, in(run, entryFile))
	return err == nil && bytes.Equal(x, y)
}
