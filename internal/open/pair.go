package open

import (
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// pair gives labels files to the recordings that they are of: the one beside
// which they lie, or the only one there is. The error is about a file beside a
// recording that was named by itself.
func (r *Run) pair() error {
	var recordings []int
	given := map[string]int{} // labels files among the inputs
	for i := range r.Sources {
		s := &r.Sources[i]
		r.given = append(r.given, s.Path)
		switch {
		case s.Kind == KindSnapshot && s.Failed == "":
			recordings = append(recordings, i)
		case s.Kind == KindLabels:
			given[s.Path] = i
		}
	}
	for _, k := range recordings {
		s := &r.Sources[k]
		s.Holders = r.files.holdersBeside(s.Path)
		beside := withoutEnding(s.Path) + ".labels.json"
		if _, ok := given[beside]; !ok && !r.files.exists(beside) {
			continue
		}
		s.Labels = r.files.labelsOf(beside)
		delete(given, beside)
		if s.Optional {
			continue // a broken one is noted
		}
		if _, err := r.files.labels(beside); err != nil {
			return err
		}
	}
	r.pairRest(recordings, given)
	return nil
}

// pairRest gives labels files that lie beside no recording to the only one there is.
func (r *Run) pairRest(recordings []int, given map[string]int) {
	for i := range r.Sources {
		s := &r.Sources[i]
		if _, left := given[s.Path]; s.Kind != KindLabels || !left {
			continue
		}
		if len(recordings) != 1 || r.Sources[recordings[0]].Labels != nil {
			s.Notes = append(s.Notes, "not used: it lies beside no recording")
			continue
		}
		s.Notes = append(s.Notes, "names what the recording holds")
		r.Sources[recordings[0]].Labels = r.files.labelsOf(s.Path)
	}
}

// withoutEnding is a snapshot's path as its labels file repeats it.
func withoutEnding(name string) string {
	for _, ending := range []string{".gz", ".zst", ".zip", ".pickle", ".pkl"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// labelsOf reads a labels file when its recording is looked at: of many ranks,
// one file at a time.
func (f files) labelsOf(path string) func(*timeline.Timeline) ([]classify.Label, error) {
	return func(t *timeline.Timeline) ([]classify.Label, error) {
		file, err := f.labels(path)
		if err != nil {
			return nil, err
		}
		return classify.LabelsOf(t, file), nil
	}
}

// HoldersBeside reads, for each device, the file beside a recording that says what variables hold; nil without one.
func HoldersBeside(recording string) func(*timeline.Timeline) ([]classify.Holder, error) {
	f := (&Options{}).files()
	defer f.close()
	if f.holdersBeside(recording) == nil {
		return nil
	}
	return func(t *timeline.Timeline) ([]classify.Holder, error) {
		f := (&Options{}).files()
		defer f.close()
		return f.holdersBeside(recording)(t)
	}
}

func (f files) holdersBeside(recording string) func(*timeline.Timeline) ([]classify.Holder, error) {
	path := withoutEnding(recording) + ".holders.json"
	if !f.exists(path) {
		return nil
	}
	return func(t *timeline.Timeline) ([]classify.Holder, error) {
		text, err := f.text(path)
		if err != nil {
			return nil, err
		}
		defer text.Close()
		found, err := labels.ReadHolders(text)
		if err != nil {
			return nil, &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
		}
		return classify.HoldersOf(t, found), nil
	}
}

// labels reads a labels file.
func (f files) labels(path string) (*labels.File, error) {
	text, err := f.text(path)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	file, err := labels.Read(text)
	if err != nil {
		return nil, &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
	}
	return file, nil
}
