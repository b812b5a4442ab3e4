package load

import (
	"os"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/snapshot/labels"
	"github.com/vramscope/vramscope/timeline"
)

// pair gives labels files that were found to the recordings that they are of:
// the one beside which they lie, or the only one there is.
func (r *Run) pair() {
	var recordings []int
	for i := range r.Sources {
		r.given = append(r.given, r.Sources[i].Path)
		if r.Sources[i].Kind == KindSnapshot && r.Sources[i].Failed == "" {
			recordings = append(recordings, i)
		}
	}
	for i := range r.Sources {
		s := &r.Sources[i]
		if s.Kind != KindLabels {
			continue
		}
		of := -1
		for _, k := range recordings {
			if withoutEnding(r.Sources[k].Path) == strings.TrimSuffix(s.Path, ".labels.json") {
				of = k
			}
		}
		if of < 0 && len(recordings) == 1 {
			of = recordings[0]
		}
		if of < 0 {
			s.Notes = append(s.Notes, "not used: it lies beside none of the recordings")
			continue
		}
		s.Notes = append(s.Notes, "names what the recording beside it holds")
		r.Sources[of].Labels = readLabels(s.Path, r.Sources[of].Labels)
	}
}

// withoutEnding is a snapshot's path as its labels file repeats it.
func withoutEnding(name string) string {
	for _, ending := range []string{".gz", ".zst", ".zip", ".pickle", ".pkl"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// labeller gives the labels that concern one device.
type labeller = func(*timeline.Timeline) ([]classify.Label, error)

// readLabels reads a labels file when its recording is looked at: of many
// ranks, one file at a time.
func readLabels(path string, more labeller) labeller {
	return func(t *timeline.Timeline) ([]classify.Label, error) {
		var found []classify.Label
		if more != nil {
			var err error
			if found, err = more(t); err != nil {
				return nil, err
			}
		}
		f, err := os.Open(path)
		if err != nil {
			return found, &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
		}
		defer f.Close()
		file, err := labels.Read(f)
		if err != nil {
			return found, &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
		}
		if file.Device != t.Device.Ordinal {
			return found, nil
		}
		return append(found, classify.LabelsOf(t, file)...), nil
	}
}
