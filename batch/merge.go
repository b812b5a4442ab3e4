package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Merge puts the parts of a batch, each the results of a shard, together: the
// runs' folders are copied and tables and page made anew, byte for byte what one
// go over all would have written. Two parts may hold the same run only if they
// say the same of it. It gives the runs, by path.
func Merge(ctx context.Context, parts []string, out, tool string) ([]Run, error) {
	if err := os.MkdirAll(filepath.Join(out, runsFolder), 0o755); err != nil {
		return nil, err
	}
	from := map[string]string{} // the part of each run, by name
	var runs []Run
	for _, part := range parts {
		found, err := storedRuns(part)
		if err != nil {
			return nil, fmt.Errorf("%s: no part of a batch: %w", part, unwrapPath(err))
		}
		for _, run := range found {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if other, ok := from[run.Name]; ok {
				if !sameRun(filepath.Join(part, runsFolder, run.Name), filepath.Join(other, runsFolder, run.Name)) {
					return nil, fmt.Errorf("%s is in %s and, with other results, in %s", run.Path, other, part)
				}
				continue
			}
			from[run.Name] = part
			runs = append(runs, run)
			if err := copyRun(filepath.Join(part, runsFolder, run.Name), filepath.Join(out, runsFolder, run.Name)); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(runs, byPath)
	if len(runs) == 0 {
		return nil, errors.New("the parts hold no run")
	}
	if _, err := Tidy(out, runs); err != nil {
		return nil, err
	}
	return runs, Combine(out, tool, Stored(out, runs...))
}

// runFiles are the files of a run's folder; the entry is written last.
var runFiles = []string{reportHTML, reportJSON, entryFile}

// copyRun copies a run's folder, unless it is the same already.
func copyRun(from, to string) error {
	if a, err := os.Stat(from); err == nil {
		if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
			return nil
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	sweep(to)
	if sameRun(from, to) {
		return nil
	}
	if err := remove(filepath.Join(to, entryFile)); err != nil {
		return err
	}
	for _, name := range runFiles {
		f, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			if err := remove(filepath.Join(to, name)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		err = writeFile(filepath.Join(to, name), func(w io.Writer) error { _, err := io.Copy(w, f); return err })
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// sameRun tells whether two folders hold the same: the entry's fingerprint is of
// all that the reports are made of. A failed run has none; its reason counts.
func sameRun(a, b string) bool {
	x, err := os.ReadFile(filepath.Join(a, entryFile))
	if err != nil {
		return false
	}
	y, err := os.ReadFile(filepath.Join(b, entryFile))
	return err == nil && bytes.Equal(x, y)
}
