package open

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
	"github.com/vramscope/vramscope/timeline"
)

// Names are what names allocations: labels files, and the model's tensors.
type Names struct {
	Without []string // ids of rules, and of signals of phases, that nothing is classified by

	files   []*labels.File
	tensors []classify.Tensor
}

// Labels reads labels files.
func (n *Names) Labels(paths ...string) error {
	f := (&Options{}).files()
	defer f.close()
	for _, path := range paths {
		file, err := f.labels(path)
		if err != nil {
			return err
		}
		n.files = append(n.files, file)
	}
	return nil
}

// LabelsBeside are the labels files that lie beside the snapshots among some
// files; those of a store are seen when they are among the files.
func LabelsBeside(names []string) []string {
	var found []string
	for _, name := range names {
		beside := withoutEnding(name) + ".labels.json"
		local, ok := store.Path(name)
		if ok {
			_, err := os.Stat(withoutEnding(local) + ".labels.json")
			ok = err == nil
		} else {
			ok = slices.Contains(names, beside)
		}
		if ok {
			found = append(found, beside)
		}
	}
	return found
}

// Tensors takes the tensors' names from a checkpoint's header or, without one,
// from a model's configuration; "" and nil are none.
func (n *Names) Tensors(checkpoint string, config *budget.Config) error {
	var tensors []modelfile.Tensor
	var err error
	switch {
	case checkpoint != "":
		tensors, err = Checkpoint(checkpoint)
	case config != nil:
		tensors, err = budget.Tensors(config)
	}
	if err != nil {
		return err
	}
	for _, t := range tensors {
		n.tensors = append(n.tensors, classify.Tensor{Name: t.Name, Elements: t.Elements()})
	}
	return nil
}

// Checkpoint lists the tensors of a checkpoint. What a header says lies all over
// some kinds of files, which stores aren't for.
func Checkpoint(name string) ([]modelfile.Tensor, error) {
	local, ok := store.Path(name)
	if !ok {
		return nil, fmt.Errorf("%s: a checkpoint must be a file here: copy it, or give its config.json", store.Show(name))
	}
	return modelfile.ReadCheckpoint(local)
}

// ReadConfig reads a model's configuration from a file and makes sure that its
// numbers can be a model's: later errors don't know the file.
func ReadConfig(path string) (*budget.Config, error) {
	if path == "-" {
		return nil, errors.New("--config -: standard input is for the recording; give the configuration as a file")
	}
	f := (&Options{}).files()
	defer f.close()
	c, err := f.config(path)
	if err == nil {
		err = countable(store.Show(path), c)
	}
	return c, err
}

func countable(name string, c *budget.Config) error {
	if _, err := budget.Count(c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ConfigFrom does the same with a stream, compressed or not.
func ConfigFrom(r io.Reader) (*budget.Config, error) {
	const name = "standard input"
	in, err := snapshot.ReadInput(name, r)
	if err != nil {
		return nil, err
	}
	text, err := textOf(in)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	c, err := configOf(name, text)
	if err == nil {
		err = countable(name, c)
	}
	return c, err
}

// config reads a model's configuration, or that of a pipeline's parts: of its index, or of the folder that has one.
func (f files) config(path string) (*budget.Config, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, budget.PipelineIndex)
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(filepath.Dir(path), "config.json")
		}
	}
	text, err := f.text(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	if folder, ok := strings.CutSuffix(path, budget.PipelineIndex); ok {
		c, err := budget.ReadPipeline(text, func(part string) (io.ReadCloser, error) {
			return f.text(folder + part + "/config.json")
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", store.Show(path), err)
		}
		return c, nil
	}
	return configOf(store.Show(path), text)
}

// configOf reads a configuration; errors name its file.
func configOf(name string, text io.Reader) (*budget.Config, error) {
	c, err := budget.ReadConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// Config is the configuration of a model that lies among the run's files, the
// uppermost one; nil without one. One that can't be read is no reason to fail:
// it may be of another program.
func (r *Run) Config() *budget.Config {
	var found *diagnose.Source
	depth := func(s *diagnose.Source) int { return strings.Count(filepath.ToSlash(s.Path), "/") }
	for i := range r.Sources {
		s := &r.Sources[i]
		if s.Kind != KindConfig || found != nil && depth(found) <= depth(s) {
			continue
		}
		if c, err := r.files.config(s.Path); err == nil {
			s.Config, found = c, s
		}
	}
	if found == nil {
		return nil
	}
	for i := range r.Sources {
		if s := &r.Sources[i]; s.Kind == KindConfig && s != found {
			s.Config = nil
			s.Notes = append(s.Notes, "not used: another model's configuration lies further up")
		}
	}
	return found.Config
}

// Redact takes out of a run, and of what will stand above its report, what
// tells who and where. What comes later never sees the names.
func (r *Run) Redact(x *redact.Redactor, above *diagnose.Options) {
	r.hidden = x
	for i := range r.Sources {
		s := &r.Sources[i]
		path := s.Path
		s.Failed = x.Error(s.Failed, path)
		s.Path = x.Input(path)
		said := filename.Unknown // the rank, which redaction hides
		s.Said = &said
		if s.Snapshot != nil {
			said = ranks.Said(s.Snapshot)
			x.Snapshot(s.Snapshot)
		}
		if open := s.Open; open != nil {
			s.Open = func() (*snapshot.Snapshot, error) {
				recording, err := open()
				if err != nil {
					return nil, x.Renamed(err, path)
				}
				said = ranks.Said(recording)
				x.Snapshot(recording)
				return recording, nil
			}
		}
		if labels := s.Labels; labels != nil {
			s.Labels = func(t *timeline.Timeline) ([]classify.Label, error) {
				found, err := labels(t)
				for k := range found {
					found[k].Name = x.Label(found[k].Name)
				}
				if err != nil {
					err = errors.New(x.Error(err.Error(), r.given...))
				}
				return found, err
			}
		}
	}
	r.redactHolders(x)
	x.Evidence(r.Evidence)
	RedactAbove(x, &above.Title, above.Notes)
}

// redactHolders hides the names of variables.
func (r *Run) redactHolders(x *redact.Redactor) {
	for i := range r.Sources {
		r.Sources[i].Holders = RedactHolders(x, r.Sources[i].Holders, r.given...)
	}
}

// RedactHolders hides the names of variables that are read later, and in an error those of the inputs.
func RedactHolders(x *redact.Redactor, holders func(*timeline.Timeline) ([]classify.Holder, error),
	inputs ...string) func(*timeline.Timeline) ([]classify.Holder, error) {
	if holders == nil {
		return nil
	}
	return func(t *timeline.Timeline) ([]classify.Holder, error) {
		found, err := holders(t)
		for k := range found {
			found[k].Path = x.Variable(found[k].Path)
		}
		if err != nil {
			err = errors.New(x.Error(err.Error(), inputs...))
		}
		return found, err
	}
}

// RedactAbove does so with what the user puts above an answer; the title only if asked to.
func RedactAbove(x *redact.Redactor, title *string, notes []report.Note) {
	if x.Titles {
		*title = x.Text(*title)
	}
	for i := range notes {
		n := &notes[i]
		n.Key, n.Value = x.Note(n.Key, n.Value)
	}
}

// Redact takes what isn't common knowledge out of the names.
func (n *Names) Redact(r *redact.Redactor) {
	for _, f := range n.files {
		for i := range f.Labels {
			f.Labels[i].Name = r.Label(f.Labels[i].Name)
		}
	}
	for i := range n.tensors {
		n.tensors[i].Name = r.Metadata(n.tensors[i].Name)
	}
}

// Options are the names that concern one device.
func (n *Names) Options(t *timeline.Timeline) classify.Options {
	o := classify.Options{Tensors: n.tensors, Without: n.Without}
	for _, f := range n.files {
		o.Labels = append(o.Labels, classify.LabelsOf(t, f)...)
	}
	return o
}
