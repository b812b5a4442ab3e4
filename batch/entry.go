package batch

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/load"
	"github.com/vramscope/vramscope/report"
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
	// asked of it, and the contents of the files.
	Fingerprint string `json:"fingerprint"`
	Inputs      int    `json:"inputs"` // files that were looked at
}

// fingerprint is a hash over all that the report of a run is made of. The
// digests of files that are known already need not be made again.
func fingerprint(run Run, build string, o Options, known map[string]func() (string, int64)) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	_ = e.Encode([]any{entrySchema, report.Schema, build, run.Path, run.Experiment, o, o.Key}) // plain data always can be
	settings := append([]string{o.Config, o.Model}, o.Labels...)
	files := append(slices.Clone(run.Files), load.LabelsBeside(run.Files)...)
	for _, name := range append(settings, files...) {
		var sum string
		if get := known[name]; get != nil {
			sum, _ = get()
		} else if name != "" {
			var err error
			if sum, err = digest(name); err != nil {
				return "", err
			}
		}
		_ = e.Encode([]string{name, sum})
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest is the SHA-256 of a file, "" of one that can't be read.
func digest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", nil // as unreadable the next time, or not the same
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 256<<10)); err != nil {
		return "", fmt.Errorf("%s: %w", name, unwrapPath(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readEntry reads the entry of a folder below runs/.
func readEntry(folder string) (*Entry, error) {
	text, err := os.ReadFile(filepath.Join(folder, entryFile))
	if err != nil {
		return nil, err
	}
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, entryFile), err)
	}
	switch {
	case e.Schema != entrySchema:
		return nil, fmt.Errorf("%s: schema %q: this program writes and reads %s", filepath.Join(folder, entryFile), e.Schema, entrySchema)
	case e.Name != FolderName(e.Path) || e.Name != filepath.Base(folder):
		return nil, fmt.Errorf("%s: is not of the run %q", filepath.Join(folder, entryFile), e.Path)
	}
	return &e, nil
}

// whole tells whether an entry's report is there.
func (e *Entry) whole(folder string) bool {
	for _, name := range []string{reportHTML, reportJSON} {
		st, err := os.Stat(filepath.Join(folder, name))
		if (err == nil && st.Size() > 0) != (e.Error == "") {
			return false
		}
	}
	return true
}

// tempMark is in the names of files that are being written.
const tempMark = ".vramscope-tmp-"

// writeFile writes a whole file or nothing.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+tempMark)
	if err != nil {
		return fmt.Errorf("%s: %w", name, unwrapPath(err))
	}
	defer os.Remove(f.Name()) // gone after the rename
	w := bufio.NewWriterSize(f, 1<<16)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, unwrapPath(err))
	}
	return nil
}

// sweep removes what a run that was killed left half-written in a folder.
func sweep(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), tempMark) {
			os.Remove(filepath.Join(folder, e.Name()))
		}
	}
}

// removeRun removes a run's folder with what the program wrote there, and
// nothing else.
func removeRun(folder string) error {
	sweep(folder)
	for _, name := range slices.Backward(runFiles) { // the entry first
		if err := remove(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return remove(folder)
}
