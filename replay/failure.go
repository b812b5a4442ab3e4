package replay

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// Failure is a recorded request that could not be met; bytes of memory.
type Failure struct {
	Event            int    `json:"event"`
	RequestedBytes   int64  `json:"requested_bytes"`
	LiveBytes        int64  `json:"live_bytes"` // in use, blocks pending free included
	ReservedBytes    int64  `json:"reserved_bytes"`
	AvailableBytes   *int64 `json:"available_bytes"` // what PyTorch could have had
	MissingBytes     int64  `json:"missing_bytes"`   // what live and requested memory exceed that by; 0: it was there
	FreeBytes        int64  `json:"free_bytes"`      // within segments
	LargestFreeBytes int64  `json:"largest_free_block_bytes"`
	StillToComeBytes int64  `json:"still_to_come_bytes"` // what the phase at work has yet to allocate, as far as that is known
	Text             string `json:"text"`
	Pins             []Pin  `json:"pinned_by"` // what frees most first; only where memory was there

	inOptimizer bool // what is still to come is the state of the first optimizer step
}

// Pin is a group of blocks that keep segments from being given back: those of
// one category that one line made.
type Pin struct {
	Category string  `json:"category"`
	Function *string `json:"function"`
	File     *string `json:"file"`
	Line     *int    `json:"line"`
	Blocks   int     `json:"blocks"`
	Bytes    int64   `json:"bytes"`    // of the blocks
	Segments int     `json:"segments"` // that they alone keep
	// of those segments: what could serve any request if the blocks were freed or lay elsewhere
	Frees int64 `json:"frees_bytes"`
}

// maxFailures and maxPins bound what a document lists.
const (
	maxFailures = 5
	maxPins     = 10
)

// failures explains the recorded requests that could not be met.
func (w *whatIf) failures() {
	t := w.p.Timeline
	view := frames.New(t.Snapshot)
	for i := range t.OOMs[:min(len(t.OOMs), maxFailures)] {
		x := w.p.Explain(&t.OOMs[i], w.classes, []Settings{})
		f := Failure{Event: x.Event, RequestedBytes: x.Requested, LiveBytes: x.Live, ReservedBytes: x.Reserved,
			MissingBytes: max(0, x.Missing),
			FreeBytes:    x.Free, LargestFreeBytes: x.LargestFree, StillToComeBytes: x.StillToCome, Text: x.Text, Pins: []Pin{},
			inOptimizer: x.inOptimizer}
		if x.Usable > 0 {
			f.AvailableBytes = &x.Usable
		}
		if x.Missing <= 0 && w.classes != nil {
			f.Pins = pinsOf(x.pinnedAll, w.classes, view)
		}
		w.Failures = append(w.Failures, f)
	}
}

// pinsOf groups the blocks that pin segments. A segment counts for a group
// when all of its blocks belong to it.
func pinsOf(segments []PinnedSegment, c *classify.Classification, view *frames.View) []Pin {
	type source struct {
		category classify.Category
		site     frames.Site
	}
	of := func(b *timeline.Block) source {
		return source{c.Category[b.Allocation], view.Site(c.Timeline.Stack(b.Allocation))}
	}
	index := map[source]int{}
	var list []Pin
	for i := range segments {
		s := &segments[i]
		alone := true
		first := of(&s.Pins[0])
		for k := range s.Pins {
			from := of(&s.Pins[k])
			alone = alone && from == first
			at, ok := index[from]
			if !ok {
				at = len(list)
				index[from] = at
				list = append(list, newPin(from.category, &from.site))
			}
			list[at].Blocks++
			list[at].Bytes += s.Pins[k].Bytes
		}
		if alone {
			list[index[first]].Segments++
			list[index[first]].Frees += s.Bytes
		}
	}
	list = slices.DeleteFunc(list, func(p Pin) bool { return p.Frees == 0 })
	slices.SortStableFunc(list, func(a, b Pin) int { return cmp.Compare(b.Frees, a.Frees) })
	return list[:min(len(list), maxPins)]
}

func newPin(c classify.Category, site *frames.Site) Pin {
	p := Pin{Category: c.String()}
	switch {
	case site.File != "" || site.Function != "":
		p.Function, p.File = &site.Function, &site.File
		if site.Line.Line > 0 {
			p.Line = &site.Line.Line
		}
	case site.Op != "":
		p.Function = &site.Op // made by autograd, in no line of Python
	}
	return p
}
