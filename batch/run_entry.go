package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/store"
)

// Names below the folder of the results.
const (
	runsFolder = "runs"
	reportHTML = "report.html"
	reportJSON = "report.json"
	entryFile  = "run.json"
	indexFile  = "index.html"
)

// entrySchema names the form of an Entry.
const entrySchema = "vramscope.run/1"

// Entry is what a folder below runs/ says of its run, besides the report: it is
// written last, so that a folder with one is whole.
type Entry struct {
	Schema     string `json:"schema"`
	Path       string `json:"path"` // as of a Run
	Name       string `json:"name"`
	Experiment string `json:"experiment"`
	Error      string `json:"error"` // why there is no report, in one line; "" when there is one
	// Fingerprint is of all that the report is made of: the program, what was
	// asked of it, and the contents of the files. "" where these weren't all to be had: the
	// next batch does the run again.
	Fingerprint string `json:"fingerprint"`
	Inputs      int    `json:"inputs"` // files that were looked at
	// Script is the file beside the page over all runs that the report needs, "" when
	// it needs none.
	Script string `json:"script"`
}

// fingerprint is a hash over all that the report of a run is made of. The
// digests of files that are known already need not be made again, and of files
// in stores, which are far to read, the store's own version is taken.
func fingerprint(ctx context.Context, run Run, build string, o Options, known map[string]func() (string, int64)) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	// plain data always can be
	_ = e.Encode([]any{entrySchema, report.Schema, build, run.Path, run.Experiment, o, o.Key, run.Versions})
	settings := append([]string{o.Config, o.Model}, o.Labels...)
	files := append(slices.Clone(run.Files), open.LabelsBeside(run.Files)...)
	if len(run.Versions) == len(run.Files) {
		files = nil // all are in Versions
	}
	for _, name := range append(settings, files...) {
		var sum string
		if get := known[name]; get != nil {
			sum, _ = get()
		} else if name != "" {
			var err error
			if sum, err = digest(ctx, name, o.Stores); err != nil {
				return "", err
			}
		}
		if name != "" && sum == "" {
			return "", nil // not to be had
		}
		_ = e.Encode([]string{store.Show(name), sum})
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest is the SHA-256 of a file, "" of one that isn't there or that one may not read.
func digest(ctx context.Context, name string, stores *store.Pool) (string, error) {
	f, err := stores.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// in is a file's name in the place of the results.
func in(run, file string) string { return path.Join(runsFolder, run, file) }

// readEntry reads the entry of the folder of that name below runs/.
func readEntry(ctx context.Context, out *store.Place, name string) (*Entry, error) {
	text, err := readAll(ctx, out, in(name, entryFile), maxEntry)
	if err != nil {
		return nil, err
	}
	var e Entry
	where := out.URL(in(name, entryFile))
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	switch {
	case e.Schema != entrySchema:
		return nil, fmt.Errorf("%s: schema %q: this program writes and reads %s", where, e.Schema, entrySchema)
	case e.Name != FolderName(e.Path) || e.Name != name:
		return nil, fmt.Errorf("%s: is not of the run %q", where, e.Path)
	}
	return &e, nil
}

// The longest that an entry and a report are, in bytes, however large the run.
const (
	maxEntry  = 1 << 20
	maxReport = 512 << 20
)

// errLarge is wrapped by the error about one of the results that is larger than was asked for.
var errLarge = errors.New("bytes are too many for one")

// readAll reads one of the results.
func readAll(ctx context.Context, out *store.Place, name string, most int64) ([]byte, error) {
	r, err := out.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Size > most {
		return nil, fmt.Errorf("%s: %d %w", out.URL(name), r.Size, errLarge)
	}
	text := make([]byte, r.Size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	return text, nil
}

// whole reports whether an entry's report is there, and of at most so many bytes.
func (e *Entry) whole(ctx context.Context, out *store.Place, most int64) bool {
	for _, name := range []string{reportHTML, reportJSON} {
		f, err := out.Stat(ctx, in(e.Name, name))
		if name == reportJSON && f.Size > most {
			return false
		}
		if (err == nil && f.Size > 0) != (e.Error == "") {
			return false
		}
	}
	return true
}

// removeRun removes a run's folder with what the program wrote there, and
// nothing else.
func removeRun(ctx context.Context, out *store.Place, name string) error {
	out.Sweep(path.Join(runsFolder, name))
	for _, file := range []string{entryFile, reportHTML, reportJSON} {
		if err := out.Remove(ctx, in(name, file)); err != nil {
			return err
		}
	}
	return nil
}
