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
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/store"
)

// Merge puts the parts of a batch, each the results of a shard, together: the
// runs' folders are copied and tables and page made anew, byte for byte what one
// go over all would have written. Two parts may hold the same run only if they
// say the same of it. It gives the runs, by path.
//
// Parts are somebody else's: nothing outside of them is read, and all of it is looked at
// before anything is written. Runs that are in out and in no part are only removed when
// prune says so.
func Merge(ctx context.Context, parts []*store.Place, out *store.Place, tool string, prune bool) ([]Run, error) {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i] = parts[i].Untrusted()
	}
	if err := missingPart(ctx, parts); err != nil {
		return nil, err
	}
	runs, from, scripts, err := runsOfParts(ctx, parts)
	if err != nil {
		return nil, err
	}
	if err := others(ctx, out, from, prune); err != nil {
		return nil, err
	}
	reports := func(yield func(*Report, error) bool) {
		for r, err := range reportsOf(ctx, runs, func(run Run) *store.Place { return from[run.Name] }) {
			if err == nil && r == nil {
				err = fmt.Errorf("a run was removed from its part meanwhile")
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
	err = combine(ctx, out, tool, reports, func() error {
		if err := copyAll(ctx, runs, from, out); err != nil {
			return err
		}
		for name, part := range scripts {
			if !sameFolder(part, out) {
				if err := copyFile(ctx, part, out, name); err != nil {
					return err
				}
			}
		}
		_, err := Tidy(ctx, out, runs)
		return err
	})
	return runs, err
}

// scriptFile is what the script of reports is called, whatever version wrote them.
var scriptFile = pattern.Of(`^page-[0-9a-f]{12}\.js$`)

// runsOfParts are the runs, by path, the part of each by name, and that of each of their
// scripts. Each run is whole.
func runsOfParts(ctx context.Context, parts []*store.Place) (runs []Run, from, scripts map[string]*store.Place, err error) {
	from, scripts = map[string]*store.Place{}, map[string]*store.Place{}
	for _, part := range parts {
		if _, err := part.Stat(ctx, indexFile); errors.Is(err, fs.ErrNotExist) { // it is written last
			return nil, nil, nil, fmt.Errorf("%s: no finished part of a batch: run its shard again", part.URL(""))
		}
		found, err := storedEntries(ctx, part)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: no part of a batch: %w", part.URL(""), unwrapPath(err))
		}
		if err := counted(ctx, part, len(found)); err != nil {
			return nil, nil, nil, err
		}
		for _, entry := range found {
			if err := ctx.Err(); err != nil {
				return nil, nil, nil, err
			}
			if other, ok := from[entry.Name]; ok {
				if !sameRun(ctx, part, other, entry.Name) {
					return nil, nil, nil, fmt.Errorf("%s is in %s and, with other results, in %s", entry.Path, other.URL(""),
						part.URL(""))
				}
				continue
			}
			if !entry.whole(ctx, part, maxReport) {
				return nil, nil, nil, fmt.Errorf("%s: isn't whole: run its shard again",
					part.URL(path.Join(runsFolder, entry.Name)))
			}
			from[entry.Name] = part
			runs = append(runs, entry.run())
			if scriptFile().MatchString(entry.Script) && scripts[entry.Script] == nil {
				scripts[entry.Script] = part
			}
		}
	}
	if len(runs) == 0 {
		return nil, nil, nil, errors.New("the parts hold no run")
	}
	return ByPath(runs), from, scripts, nil
}

// counted is an error where a part's own table has another number of runs than its folder.
func counted(ctx context.Context, part *store.Place, runs int) error {
	const table = "runs.parquet"
	rows, err := parquetRows(ctx, part, table)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no finished part of a batch: it has no %s: run its shard again", part.URL(""), table)
	}
	if err == nil && rows != int64(runs) {
		err = fmt.Errorf("%s has %s, %s below %s: copy the part anew, or run its shard again", part.URL(table),
			units.Plural(int(rows), "row"), units.Plural(runs, "run"), runsFolder+"/")
	}
	return err
}

// others is an error about runs that are there and in no part, unless they may go.
func others(ctx context.Context, out *store.Place, from map[string]*store.Place, prune bool) error {
	names, err := storedNames(ctx, out)
	if err != nil || prune {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return from[name] != nil })
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s holds %s that no part has, such as %s: give the results a folder of their own, or --prune to "+
		"remove them", out.URL(""), units.Plural(len(names), "run"), names[0])
}

// copyAll copies the runs' folders. When that fails, those that weren't there before go.
func copyAll(ctx context.Context, runs []Run, from map[string]*store.Place, out *store.Place) error {
	var fresh []string
	for _, run := range runs {
		if _, err := out.Stat(ctx, in(run.Name, entryFile)); errors.Is(err, fs.ErrNotExist) {
			fresh = append(fresh, run.Name)
		}
		if err := copyRun(ctx, from[run.Name], out, run.Name); err != nil {
			for _, name := range fresh {
				_ = removeRun(context.WithoutCancel(ctx), out, name) // the error before says more
			}
			return err
		}
	}
	return nil
}

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
// reason counts. Nor has one that was made without an input; its report does.
func sameRun(ctx context.Context, a, b *store.Place, run string) bool {
	same := func(file string) bool {
		x, err := readAll(ctx, a, in(run, file), maxReport)
		if err != nil {
			return false
		}
		y, err := readAll(ctx, b, in(run, file), maxReport)
		return err == nil && bytes.Equal(x, y)
	}
	e, err := readEntry(ctx, a, run)
	return err == nil && same(entryFile) && (e.Error != "" || e.Fingerprint != "" || same(reportJSON))
}
