// Package open opens whatever a user names and tells by content what it is.
package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

// Run is all that was given about one run. Its recordings are decoded when they
// are asked for.
type Run struct {
	Sources  []diagnose.Source
	Evidence *evidence.Evidence
	// PassedOver says of which of several named files nothing could be made, and why.
	PassedOver []error

	files  files
	inputs []*snapshot.Input
	opened *recording       // the last one decoded
	given  []string         // the paths of Sources before they were redacted
	hidden *redact.Redactor // nil: they weren't

	recipes []found
}

// Close lets go of the files. Digests that weren't asked for are waited for.
func (r *Run) Close() {
	r.opened.settle()
	for _, in := range r.inputs {
		in.Close()
	}
	r.files.close()
}

// Unread is why something of the run could not be got at that may be another time; nil:
// all of it could. What is said without it may be wrong. It is known after the diagnosis,
// which reads.
func (r *Run) Unread() error {
	for _, in := range r.inputs {
		_ = r.files.wholly(in, nil)
	}
	r.opened.settle()
	r.files.passing.mu.Lock()
	defer r.files.passing.mu.Unlock()
	if r.files.passing.err != nil && r.hidden != nil {
		return r.hidden.Renamed(r.files.passing.err, r.given...)
	}
	return r.files.passing.err
}

// Without are the inputs that the run has to do without: they can't be got at.
func (r *Run) Without() []string {
	var out []string
	for i := range r.Sources {
		if r.Sources[i].Unread {
			out = append(out, r.Sources[i].Failed)
		}
	}
	return out
}

// Options steer the reading.
type Options struct {
	Stdin     io.Reader
	MaxMemory int64 // bytes, 0: no limit
	Partial   bool
	// Undigested says that nobody will ask for digests: Digest gives sizes alone.
	Undigested bool
	// Sum gives a file's digest where something else works it out faster; nil: nothing does.
	Sum func(name string, size int64) string
	// Lenient passes over what is of no known kind among the named files, and
	// notes what is broken, as is done within a directory.
	Lenient bool
	// Context ends the reading of stores; nil: nothing does.
	Context context.Context
	// Stores are the connections to them; nil: the run has its own.
	Stores *store.Pool

	several bool // files were named
}

// maxFiles bounds the files of a run's directory that are looked at.
const maxFiles = 10_000

// Files reads the named files, directories and "-" for standard input. Of a
// directory, what is of no known kind is passed over; so is it among several
// files, of which a shell may have made the list, but not without a word. A
// recording or trace that was named must be whole.
func Files(names []string, o Options) (*Run, error) {
	run := &Run{Evidence: evidence.New(), files: o.files()}
	err := run.addAll(names, o)
	if run.files.passing.err != nil {
		err = run.files.passing.err
	}
	if err == nil {
		err = run.check()
	}
	if err == nil {
		err = run.pair()
	}
	if err != nil {
		run.Close()
		return nil, err
	}
	return run, nil
}

// RecordingIn is the recording that lies in a run's directory; a file's name stays as it is. The
// error is about a directory with none of them, or with several.
func RecordingIn(directory string) (string, error) {
	if st, err := os.Stat(directory); err != nil || !st.IsDir() {
		return directory, nil
	}
	run, err := Files([]string{directory}, Options{Undigested: true})
	if err != nil {
		return "", err
	}
	defer run.Close()
	var found []string
	for i := range run.Sources {
		if s := &run.Sources[i]; s.Kind == KindSnapshot && s.Failed == "" {
			found = append(found, s.Path)
		}
	}
	switch len(found) {
	case 0:
		return "", &snapshot.Error{File: directory, Offset: -1, Err: ErrNothing, Cause: "no recording in this directory"}
	case 1:
		return found[0], nil
	}
	return "", &snapshot.Error{File: directory, Offset: -1, Cause: fmt.Sprintf("holds %d recordings, and this is about one",
		len(found)), Advice: "Name it: " + strings.Join(found[:min(len(found), maxListed)], ", ")}
}

// Snapshot reads one recording, wherever it lies; "-" is standard input.
func Snapshot(name string, stdin io.Reader, o snapshot.Options) (*snapshot.Snapshot, error) {
	f := (&Options{Undigested: true}).files()
	defer f.close()
	var in *snapshot.Input
	var err error
	if name == "-" {
		in, err = snapshot.ReadInput("standard input", stdin)
	} else {
		in, err = f.input(name)
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s, err := in.Snapshot(o)
	return s, f.wholly(in, err)
}

func (r *Run) addAll(names []string, o Options) error {
	if o.Lenient {
		return r.leniently("these files", filepath.Dir(common(names)), slices.Values(names), o)
	}
	o.several = len(names) > 1
	for _, name := range names {
		err := r.add(name, o)
		if err != nil && o.several && isNobodys(name, err) {
			r.PassedOver = append(r.PassedOver, err)
		} else if err != nil {
			return err
		}
	}
	if len(r.PassedOver) > 0 && r.check() != nil {
		return r.PassedOver[0]
	}
	return nil
}

// isNobodys tells by an error about a file or directory that it is no evidence of
// any run, from what was to be a recording: a pickle may be one that was cut off.
func isNobodys(name string, err error) bool {
	return errors.Is(err, errUnknown) || errors.Is(err, ErrNothing) || isEmpty(err) && !sniff.CalledRecording(name)
}

// emptyFile is the cause of errors about a file without a byte.
const emptyFile = "the file is empty"

// isEmpty tells such an error.
func isEmpty(err error) bool {
	var e *snapshot.Error
	return errors.As(err, &e) && e.Cause == emptyFile
}

func (r *Run) add(name string, o Options) error {
	if name == "-" {
		if o.Stdin == nil {
			return &snapshot.Error{File: name, Offset: -1, Cause: "there is no standard input here",
				Advice: "A file of that name is ./-"}
		}
		in, err := snapshot.ReadInput("standard input", o.Stdin)
		if err != nil {
			return err
		}
		return r.files.wholly(in, r.read(in, o, false))
	}
	if local, ok := store.Path(name); !ok {
		if below, err := r.files.below(name); err != nil || below != nil {
			return r.prefix(name, below, err, o)
		}
	} else if st, err := os.Stat(local); err == nil && st.IsDir() {
		return r.directory(local, o)
	}
	in, err := r.files.input(name)
	if err != nil {
		return err
	}
	before := len(r.Sources)
	if err := r.files.wholly(in, r.read(in, o, false)); err != nil {
		return err
	}
	r.nameSources(before, nearest(name))
	return nil
}

// nearest is a file's path as far as its folders say something about it: those
// of a dump and of a rank lie next to it.
func nearest(name string) string {
	parts := strings.Split(filepath.ToSlash(name), "/")
	return strings.Join(parts[max(0, len(parts)-3):], "/")
}

// nameSources reads the names of the sources added since there were so many.
func (r *Run) nameSources(before int, name string) {
	for i := before; i < len(r.Sources); i++ {
		r.Sources[i].Name = new(filename.Parse(name))
	}
}

// directory reads what it can of the files below a folder, in order of their names.
func (r *Run) directory(name string, o Options) error {
	var walked error
	err := r.leniently(name, filepath.Dir(filepath.Clean(name)), func(yield func(string) bool) {
		seen := 0
		walked = walk(name, func(path string) error {
			if seen++; seen > maxFiles {
				return fmt.Errorf("%s: more than %d files", name, maxFiles)
			}
			if !yield(path) {
				return fs.SkipAll
			}
			return nil
		})
	}, o)
	if walked != nil {
		return walked
	}
	return err
}

// prefix reads what it can of a bucket's objects.
func (r *Run) prefix(name string, below []string, err error, o Options) error {
	if err != nil {
		return err
	}
	name = store.Show(name)
	return r.leniently(name, path.Dir(strings.TrimSuffix(name, "/")), slices.Values(below), o)
}

// walk visits the files below a folder that could be a run's, in order of
// their names, and the folders that can't be read.
func walk(root string, visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return &snapshot.Error{File: root, Offset: -1, Cause: errors.Unwrap(err).Error(), Err: err}
		case err != nil:
			return visit(path) // who opens it finds out why
		case d.IsDir():
			if path != root && sniff.OtherFolder(d.Name()) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || sniff.OtherFile(d.Name()):
			return nil
		}
		return visit(path)
	})
}

// settingsDepth is how far below a run's folder its settings lie: what is further down is
// a program's.
const settingsDepth = 2

// leniently reads what it can of some files: those of no known kind are passed
// over, those that are broken are noted as long as there are others. What is
// below root in their paths may tell their ranks.
func (r *Run) leniently(where, root string, files iter.Seq[string], o Options) error {
	before := len(r.Sources)
	var failed, rejected []error
	var broken []diagnose.Source
	for path := range files {
		name := path
		if below, err := filepath.Rel(root, path); err == nil {
			name = filepath.ToSlash(below)
		}
		if sniff.CalledSettings(filepath.Base(path)) && strings.Count(name, "/") > settingsDepth {
			continue
		}
		added := len(r.Sources)
		in, err := r.files.input(path)
		if err == nil {
			if err = r.files.wholly(in, r.read(in, o, true)); err == nil {
				r.nameSources(added, name)
				continue
			}
		}
		if snapshot.IsPassing(err) {
			return err
		}
		if isBroken(path, err) {
			failed = append(failed, err)
			kind := KindSnapshot
			if errors.Is(err, errText) {
				kind = evidence.KindTrainingLog
			}
			broken = append(broken, diagnose.Source{Path: path, Kind: kind, Failed: OneLine(err),
				Unread: errors.Is(err, snapshot.ErrUnread), Name: new(filename.Parse(name))})
		} else {
			rejected = append(rejected, err)
		}
	}
	switch added := r.Sources[before:]; {
	case failed != nil && !slices.ContainsFunc(added, isEvidence):
		return failed[0]
	case len(added) == 0:
		return &snapshot.Error{File: where, Offset: -1, Err: ErrNothing, Cause: "no recording, log or trace in this directory",
			Advice: list(rejected)}
	}
	r.Sources = append(r.Sources, broken...)
	return nil
}

// maxListed is how many files of no known kind are named.
const maxListed = 5

// list says why there was nothing in files, with what to give in their place.
func list(rejected []error) string {
	if len(rejected) == 0 {
		return "Give the directory of one run, or its files. Source code, settings, pictures, tables and hidden files aren't " +
			"looked at."
	}
	var lines []string
	for i, err := range rejected {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %s more", units.Plural(len(rejected)-i, "file")))
			break
		}
		what := OneLine(err)
		if e := (*snapshot.Error)(nil); errors.As(err, &e) {
			what = e.File + ": " + strings.TrimSuffix(e.Cause, nothingToAnalyse)
		}
		lines = append(lines, what)
	}
	var e *snapshot.Error
	if errors.As(rejected[0], &e) && e.Advice != "" && len(rejected) == 1 {
		return lines[0] + "\n  " + e.Advice
	}
	return strings.Join(append(lines, "Give the directory of one run, or its files."), "\n  ")
}

// OneLine is an error without what it advises.
func OneLine(err error) string {
	cause, _, _ := strings.Cut(err.Error(), "\n")
	return cause
}

// isBroken tells a recording that can't be read from what is none.
func isBroken(path string, err error) bool {
	var e *snapshot.Error
	switch {
	case !errors.As(err, &e) || errors.Is(err, errUnknown):
		return false
	case errors.Is(err, snapshot.ErrNotSnapshot):
		return isEmpty(err) && sniff.CalledRecording(path)
	}
	return true
}

// common is the longest path that all names begin with.
func common(names []string) string {
	if len(names) == 0 {
		return ""
	}
	first := names[0]
	n := len(first)
	for _, name := range names[1:] {
		i := 0
		for i < min(n, len(name)) && name[i] == first[i] {
			i++
		}
		n = i
	}
	return first[:n]
}

// ErrNothing is wrapped by errors about files of which none is of a known kind,
// or none but accessories.
var ErrNothing = errors.New("nothing known")

// errUnknown is for input of no known kind.
var errUnknown = errors.New("of no known kind")

// errText is for text that is cut before anything known stands in it.
var errText = errors.New("text that is cut")

// isEvidence tells sources from accessories.
func isEvidence(s diagnose.Source) bool {
	accessories := []string{KindConfig, KindCheckpoint, KindLabels, KindRunRecord, KindRecipe}
	return !slices.Contains(accessories, s.Kind)
}

// check refuses a run of nothing but accessories.
func (r *Run) check() error {
	if slices.ContainsFunc(r.Sources, isEvidence) {
		return nil
	}
	if len(r.Sources) == 0 {
		return errors.New("nothing to analyse: give a snapshot, a log or a run's directory")
	}
	advice := "Give the snapshot too; `vramscope record` prints how to make one."
	flags := map[string]string{KindConfig: "config", KindCheckpoint: "model", KindRecipe: "recipe"}
	if ask := flags[r.Sources[0].Kind]; ask != "" {
		advice = "Give the snapshot too, or ask what it should need: `vramscope budget --" + ask + " FILE`."
	}
	what := map[string]string{KindConfig: "a model's configuration", KindCheckpoint: "a checkpoint",
		KindLabels: "a labels file", KindRunRecord: "what `vramscope run` says of a run",
		KindRecipe: "a framework's configuration"}[r.Sources[0].Kind]
	return &snapshot.Error{File: r.Sources[0].Path, Offset: -1, Err: ErrNothing, Cause: "is " + what +
		": an analysis needs a recording beside it",
		Advice: advice}
}
