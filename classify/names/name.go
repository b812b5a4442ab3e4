package names

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Tensor is a named tensor of the model: from its configuration, or from the
// header of a checkpoint.
type Tensor struct {
	Name     string
	Elements int64
	Bytes    int64 // as stored there; 0: not known
}

// places finds allocations by their addresses.
type places struct {
	t         *timeline.Timeline
	byAddress map[uint64][]timeline.AllocationID // in the order in which they were made
	live      map[uint64]timeline.AllocationID
}

// newPlaces looks for the allocations of some addresses, which are the map's keys.
func newPlaces(t *timeline.Timeline, asked map[uint64][]timeline.AllocationID) *places {
	p := &places{t, asked, map[uint64]timeline.AllocationID{}}
	for id := range timeline.AllocationID(t.Len()) {
		if ids, ok := asked[t.Address(id)]; ok {
			asked[t.Address(id)] = append(ids, id)
			if t.FreeRequested[id] == timeline.Never {
				p.live[t.Address(id)] = id
			}
		}
	}
	return p
}

// find is the allocation that lay at an address when so many had been made, or, with -1,
// lies there at the end. One of an address that was given out several times needs the
// history from its beginning; without it none is found.
func (p *places) find(address uint64, allocations int64) timeline.AllocationID {
	ids := p.byAddress[address]
	switch {
	case allocations < 0:
		if id, ok := p.live[address]; ok {
			return id
		}
	case p.t.History == timeline.Complete:
		if n := sort.Search(len(ids), func(i int) bool { return int64(ids[i]) >= allocations }); n > 0 {
			return ids[n-1] // the last of those made by then
		}
	case len(ids) == 1:
		return ids[0]
	}
	return timeline.NoAllocation
}

// LabelsOf finds the allocations that a labels file means.
func LabelsOf(t *timeline.Timeline, f *labels.File) []meaning.Label {
	var found []meaning.Label
	said := slices.DeleteFunc(slices.Clone(f.Labels), func(l labels.Label) bool { return l.Device != t.Device.Ordinal })
	asked := map[uint64][]timeline.AllocationID{}
	for _, l := range said {
		asked[l.Address] = nil
	}
	p := newPlaces(t, asked)
	for _, l := range said {
		id := p.find(l.Address, l.Allocations)
		if id == timeline.NoAllocation {
			continue
		}
		event := -1
		if t.Born[id] != timeline.Never {
			event = int(t.Born[id])
		} else if t.FreeRequested[id] != timeline.Never {
			continue // older than the trace and not there at its end: no label can point at it
		}
		category, _ := meaning.CategoryNamed(l.Category)
		found = append(found, meaning.Label{Address: l.Address, Event: event, Category: category, Name: l.Name})
	}
	return found
}

// ReadLabels notes the names that somebody gave to allocations, and returns
// the categories: those of a labels file, and of the recording's own
// user_metadata, late annotations included.
func ReadLabels(c *meaning.Result, given []meaning.Label) map[timeline.AllocationID]meaning.Category {
	n := newNamer(c)
	categories := readMetadata(c, n)
	if len(given) == 0 {
		return categories
	}
	t := c.Timeline
	atEnd := map[uint64]timeline.AllocationID{}
	for id := range timeline.AllocationID(t.Len()) {
		if t.FreeRequested[id] == timeline.Never {
			atEnd[t.Address(id)] = id
		}
	}
	for _, l := range given {
		id, found := timeline.NoAllocation, false
		if l.Event < 0 {
			id, found = atEnd[l.Address]
		} else if l.Event < len(t.Of) && t.Device.Events.Action[l.Event] == snapshot.Alloc &&
			t.Device.Events.Address[l.Event] == l.Address {
			id, found = t.Of[l.Event], t.Of[l.Event] != timeline.NoAllocation
		}
		if !found {
			continue
		}
		if l.Category != meaning.Unknown {
			categories[id] = l.Category
		}
		n.name(id, l.Name)
	}
	return categories
}

// readMetadata reads what torch.cuda.memory._set_memory_metadata left: on the
// allocation itself, or on an annotate entry for a block that is in use.
func readMetadata(c *meaning.Result, n *namer) map[timeline.AllocationID]meaning.Category {
	categories := map[timeline.AllocationID]meaning.Category{}
	t := c.Timeline
	e := &t.Device.Events
	if e.Metadata == nil {
		return categories
	}
	texts := map[snapshot.StringID]string{}
	live := map[uint64]timeline.AllocationID{}
	annotated := slices.Contains(e.Action, snapshot.Annotate)
	if annotated {
		for id := range timeline.AllocationID(t.Older()) {
			live[t.Address(id)] = id
		}
	}
	for i, action := range e.Action {
		id := timeline.NoAllocation
		switch known, ok := live[e.Address[i]]; {
		case action == snapshot.Alloc:
			if id = t.Of[i]; annotated {
				live[e.Address[i]] = id
			}
		case action == snapshot.FreeCompleted && ok:
			delete(live, e.Address[i])
		case action == snapshot.Annotate && ok:
			id = known
		}
		m := e.MetadataOf(i)
		if m == 0 || id == timeline.NoAllocation {
			continue
		}
		text, known := texts[m]
		if !known {
			text = metadataName(t.Snapshot.String(m))
			texts[m] = text
		}
		if category, ok := meaning.CategoryNamed(text); ok && category != meaning.Unknown {
			categories[id] = category
		}
		n.name(id, text)
	}
	return categories
}

// maxMetadata bounds a name taken from metadata, in bytes.
const maxMetadata = 300

// metadataName is the name in a user_metadata text, which may be JSON.
func metadataName(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var fields map[string]any
		if json.Unmarshal([]byte(text), &fields) == nil {
			for _, key := range []string{"name", "fqn", "module", "label"} {
				if s, ok := fields[key].(string); ok && s != "" {
					text = s
					break
				}
			}
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), maxMetadata)], "")
}

// namer gives names to a classification's allocations.
type namer struct {
	c     *meaning.Result
	index map[string]uint32
}

func newNamer(c *meaning.Result) *namer {
	n := &namer{c: c, index: map[string]uint32{}}
	for i, name := range c.Names {
		n.index[name] = uint32(i)
	}
	return n
}

// name notes an allocation's name.
func (n *namer) name(id timeline.AllocationID, name string) {
	c := n.c
	if name == "" {
		return
	}
	if c.Name == nil {
		c.Name, c.Names = make([]uint32, c.Timeline.Len()), []string{""}
	}
	i, known := n.index[name]
	if !known {
		i = uint32(len(c.Names))
		c.Names, n.index[name] = append(c.Names, name), i
	}
	c.Name[id] = i
}

// named reports whether an allocation has a name already.
func (n *namer) named(id timeline.AllocationID) bool { return n.c.Name != nil && n.c.Name[id] != 0 }
