package names

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/timeline"
)

// Holder is a variable of the program, with the allocations that it keeps alive.
type Holder struct {
	Path           string
	Tensors, Graph []timeline.AllocationID
	Cycle          bool // no variable: objects that refer to each other
	Grew           bool // looks found more in it, one after the other
	// Bound is how many elements its container may hold at most, and Elements how many it held when it was looked at last; 0
	// without a bound.
	Bound, Elements int64
	// Shown are the bytes that its tensors show of allocations, where they are parts of what those hold.
	Shown map[timeline.AllocationID]int64
}

// HoldersOf finds the allocations of a device that variables hold, as they are at the dump and were at looks before it.
// Each belongs to the first variable that holds it; objects that refer to each other come after all variables.
func HoldersOf(t *timeline.Timeline, said []labels.Holder) []Holder {
	said = slices.DeleteFunc(slices.Clone(said), func(h labels.Holder) bool { return h.Device != t.Device.Ordinal })
	slices.SortStableFunc(said, func(a, b labels.Holder) int { return phases.AsInt(a.Cycle) - phases.AsInt(b.Cycle) })
	asked := map[uint64][]timeline.AllocationID{}
	for _, h := range said {
		for _, address := range slices.Concat(h.Tensors, h.Graph) {
			asked[address] = nil
		}
	}
	p := newPlaces(t, asked)
	taken := map[timeline.AllocationID]bool{}
	of := func(h *labels.Holder, addresses []uint64) (ids []timeline.AllocationID) {
		for _, address := range addresses {
			if id := p.find(address, h.Allocations); id != timeline.NoAllocation && !taken[id] {
				taken[id] = true
				ids = append(ids, id)
			}
		}
		return ids
	}
	var all []Holder
	at := map[string]int{}
	looks := make([][]look, 0, len(said))
	called := commonNames(said)
	for i := range said {
		h := &said[i]
		path := called(h.Path)
		k, ok := at[path]
		if !ok {
			k = len(all)
			at[path], all, looks = k, append(all, Holder{Path: path, Cycle: h.Cycle}), append(looks, nil)
		}
		tensors := of(h, h.Tensors)
		all[k].Tensors = append(all[k].Tensors, tensors...)
		all[k].shows(p, h, tensors)
		all[k].Graph = append(all[k].Graph, of(h, h.Graph)...)
		looks[k] = append(looks[k], look{h.Allocations, len(h.Tensors) + len(h.Graph), h.Bound, h.Elements})
	}
	for k := range all {
		all[k].Grew = grew(looks[k])
		last := looks[k][len(looks[k])-1]
		all[k].Bound, all[k].Elements = last.bound, last.elements
	}
	return slices.DeleteFunc(all, func(h Holder) bool { return len(h.Tensors)+len(h.Graph) == 0 })
}

// Apart are the allocations that variables hold as nothing of a model's: labels name its weights, and the way to them goes
// through none of those, as it does to a quantized weight's scales. None where labels name no weights.
func Apart(holders []Holder, given []meaning.Label) (ids []timeline.AllocationID) {
	weights := map[string]bool{}
	for _, l := range given {
		if l.Category == meaning.Weights {
			weights[l.Name] = true
			if _, name, ok := strings.Cut(l.Name, "."); ok { // several models' names begin with their classes
				weights[name] = true
			}
		}
	}
	if len(weights) == 0 {
		return nil
	}
	for i := range holders {
		if !through(holders[i].Path, weights) {
			ids = append(ids, holders[i].Tensors...)
		}
	}
	return ids
}

// through reports whether a variable's path has one of some names within.
func through(path string, names map[string]bool) bool {
	const most = 12 // parts of a name
	parts := strings.Split(path, ".")
	for i := range parts {
		for j := i + 1; j <= min(len(parts), i+most); j++ {
			if names[strings.Join(parts[i:j], ".")] {
				return true
			}
		}
	}
	return false
}

// shows notes what a look tells of parts that are shown of allocations.
func (h *Holder) shows(p *places, said *labels.Holder, of []timeline.AllocationID) {
	if len(said.Shown) == 0 {
		return
	}
	own := map[timeline.AllocationID]bool{}
	for _, id := range of {
		own[id] = true
	}
	if h.Shown == nil {
		h.Shown = map[timeline.AllocationID]int64{}
	}
	for i, bytes := range said.Shown {
		if id := p.find(said.Tensors[i], said.Allocations); own[id] {
			h.Shown[id] = bytes
		}
	}
}

// look is how much a variable held when so many allocations had been made, -1 at the dump.
type look struct {
	allocations int64
	holds       int

	bound, elements int64
}

// grew sorts looks by time, and reports whether each found more than the one before.
func grew(looks []look) bool {
	slices.SortFunc(looks, func(a, b look) int { // the dump is the last
		return cmp.Or(cmp.Compare(uint64(a.allocations), uint64(b.allocations)), cmp.Compare(a.holds, b.holds))
	})
	for i := 1; i < len(looks); i++ {
		if looks[i].allocations == looks[i-1].allocations || looks[i].holds <= looks[i-1].holds {
			return false
		}
	}
	return len(looks) > 1
}

// manyKeys of one dictionary, each a variable of its own in a look, are told as the dictionary.
const manyKeys = 6

var index, key = pattern.Of(`\[\d+\]`), pattern.Of(`\['[^']*'\]`)

// commonNames calls the only element that one look found in a container as the container
// is called where another look found several; and keys as their dictionary, where that has many.
func commonNames(said []labels.Holder) func(string) string {
	paths, keys := map[string]bool{}, map[string]map[string]bool{}
	for i := range said {
		path := said[i].Path
		if paths[path] = true; strings.Contains(path, "['") {
			all := together(key().ReplaceAllString(path, "[*]"))
			if keys[all] == nil {
				keys[all] = map[string]bool{}
			}
			keys[all][path] = true
		}
	}
	return func(path string) string {
		if !strings.HasSuffix(path, "]") && !strings.Contains(path, "].") && !strings.Contains(path, "][") {
			return path
		}
		if strings.Contains(path, "['") {
			if all := together(key().ReplaceAllString(path, "[*]")); paths[all] || len(keys[all]) >= manyKeys {
				return all
			}
		}
		if all := together(index().ReplaceAllString(path, "[*]")); paths[all] {
			return all
		}
		return path
	}
}

// together is the path of all elements of the containers at a path's end.
func together(path string) string {
	for strings.HasSuffix(path, "[*]") {
		path = strings.TrimSuffix(path, "[*]")
	}
	return path
}
