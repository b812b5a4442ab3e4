package engine

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/sniff"
)

// Group is what is read as one run.
type Group struct {
	Name   string   `json:"name"`
	Inputs []string `json:"inputs"`
	Beside []string `json:"beside,omitempty"` // of the inputs, what is no recording
}

// Plan parts files that came together into runs, by their names: ranks and dumps of one process belong together, other
// recordings don't. What is no recording goes to the run of its folder, or to the only one.
func Plan(paths []string) []Group {
	var runs []Group
	where := map[string]int{} // a run's place by its recordings' common name
	var others []string
	for _, p := range paths {
		if !sniff.CalledRecording(p) {
			others = append(others, p)
			continue
		}
		key := runOf(p)
		i, known := where[key]
		if !known {
			i = len(runs)
			where[key] = i
			runs = append(runs, Group{Name: p})
		}
		runs[i].Inputs = append(runs[i].Inputs, p)
	}
	if len(runs) == 0 {
		return []Group{{Name: common(paths), Inputs: folded(paths, paths), Beside: paths}}
	}
	for i := range runs {
		if len(runs[i].Inputs) > 1 {
			runs[i].Name = common(runs[i].Inputs)
		}
	}
	for _, p := range others {
		if i := nearest(runs, p); i >= 0 {
			runs[i].Inputs, runs[i].Beside = append(runs[i].Inputs, p), append(runs[i].Beside, p)
		}
	}
	for i := range runs {
		runs[i].Inputs = folded(runs[i].Inputs, paths)
	}
	return runs
}

// folded is a run's folder instead of its files, where nothing else lies in it.
func folded(inputs, all []string) []string {
	dir := common(inputs)
	if len(inputs) < 2 || dir == inputs[0] || slices.ContainsFunc(all, func(p string) bool {
		return strings.HasPrefix(p, dir+"/") && !slices.Contains(inputs, p)
	}) {
		return inputs
	}
	return []string{dir}
}

// runOf is what the names of one run's recordings have in common: all but ranks and dumps, and within a folder all but numbers.
func runOf(p string) string {
	n := filename.Parse(p)
	folders, _ := path.Split(n.Stem)
	_, base := path.Split(n.Shape)
	return folders + base
}

// nearest is the run that a file which is no recording belongs to: the only one, or the only one in the nearest folder that has
// any, or the one that it is named after; -1: it can't be told.
func nearest(runs []Group, p string) int {
	if len(runs) == 1 {
		return 0
	}
	dir, base := path.Split(p)
	found, among := -1, 0
	for i := range runs {
		for _, in := range runs[i].Inputs {
			other, name := path.Split(in)
			if other != dir {
				continue
			}
			if stem, _, _ := strings.Cut(name, "."); strings.HasPrefix(base, stem) {
				return i
			}
			if found != i {
				found, among = i, among+1
			}
		}
	}
	if among == 1 {
		return found
	}
	return -1
}

// common is the folder that files share, or the first one's name.
func common(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	if len(paths) == 1 {
		return paths[0]
	}
	dir := path.Dir(paths[0])
	for dir != "." && slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, dir+"/") }) {
		dir = path.Dir(dir)
	}
	return cmp.Or(strings.TrimPrefix(dir, "."), paths[0])
}
