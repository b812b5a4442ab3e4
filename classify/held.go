package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Held is what every category holds at an instant of a walk over a timeline's
// events; the categories sum to what is allocated.
type Held struct {
	Bytes  [NumCategories]int64
	t      *timeline.Timeline
	of     []Category
	unseen []timeline.UnseenFree
}

// HeldAtStart is what is held before the first event.
func (c *Classification) HeldAtStart(t *timeline.Timeline) *Held {
	h := &Held{t: t, of: c.Category, unseen: t.Unseen}
	for id := range t.Older() {
		if t.FreeRequested[id] != timeline.Before {
			h.Bytes[h.of[id]] += t.Allocated[id]
		}
	}
	return h
}

// Step goes on to what is held after the next event, and reports whether it makes
// or ends an allocation.
func (h *Held) Step(event int) bool {
	for len(h.unseen) > 0 && h.unseen[0].Event == uint32(event) {
		h.Bytes[h.of[h.unseen[0].ID]] -= h.t.Allocated[h.unseen[0].ID]
		h.unseen = h.unseen[1:]
	}
	switch id := h.t.Of[event]; {
	case id == timeline.NoAllocation:
		return false
	case h.t.Device.Events.Action[event] == snapshot.Alloc:
		h.Bytes[h.of[id]] += h.t.Allocated[id]
	case h.t.FreeRequested[id] == uint32(event):
		h.Bytes[h.of[id]] -= h.t.Allocated[id]
	default:
		return false
	}
	return true
}
