package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
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
	NeedsBytes       int64  `json:"needs_bytes"`         // by the run in all, at the least, as far as that is known
	Text             string `json:"text"`
	Pins             []Pin  `json:"pinned_by"` // what frees most first; only where memory was there

	after  passes.ToCome
	wentOn bool
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
		w.Failures = append(w.Failures, w.p.explain(&t.OOMs[i], w.classes, view))
	}
}

// explain tells why a recorded request failed. Without a classification nothing is
// known of what was still to come, nor of what pins segments.
func (p *Program) explain(oom *timeline.OOM, classes *classify.Classification, view *frames.View) Failure {
	layout := p.Timeline.LayoutAt(oom.Event)
	f := Failure{Event: oom.Event, RequestedBytes: oom.Requested, LiveBytes: oom.Active, ReservedBytes: oom.Reserved,
		NeedsBytes: oom.Active + oom.Requested, Pins: []Pin{}}
	f.FreeBytes, f.LargestFreeBytes = layout.Free()
	limits := p.Limits()
	s := Scenario{Usable: limits.Usable, Allowed: limits.Allowed}
	if most := s.most(); most > 0 {
		f.AvailableBytes, f.MissingBytes = &most, max(0, oom.Active+oom.Requested-most)
	}
	if classes != nil {
		f.after = passes.After(classes, oom, true)
		f.StillToComeBytes, f.wentOn = f.after.Bytes, passes.StepsAfter(classes, oom.Event) > 0
		if need := passes.Whole(classes, oom, f.after); need != nil && !f.wentOn {
			f.NeedsBytes = max(f.NeedsBytes, need.Bytes)
		}
		if f.MissingBytes == 0 {
			f.Pins = pinsOf(pinnedSegments(&layout), classes, view)
		}
	}
	check := p.Verify()
	f.Text = f.text(check.Refusal())
	return f
}

func (f *Failure) text(refusal string) string {
	s := fmt.Sprintf("%s were asked for with %s in use and %s reserved", units.Bytes(f.RequestedBytes), units.Bytes(f.LiveBytes),
		units.Bytes(f.ReservedBytes))
	switch {
	case f.AvailableBytes == nil:
		s += "; how much there was isn't recorded."
	case f.MissingBytes > 0:
		s += fmt.Sprintf(": %s more than the %s that PyTorch could have. No setting can help.", units.Bytes(f.MissingBytes),
			units.Bytes(*f.AvailableBytes))
	default:
		s += fmt.Sprintf("; %s were there, but the largest free piece was %s.", units.Bytes(*f.AvailableBytes-f.LiveBytes),
			units.Bytes(f.LargestFreeBytes))
	}
	switch {
	case f.StillToComeBytes <= f.RequestedBytes:
	case f.after.InOptimizer():
		lists := f.after.State.Lists
		s += fmt.Sprintf(" The optimizer's first step has yet to make about %s of state%s.", units.Bytes(f.after.State.ToCome),
			map[bool]string{true: ", and " + units.Bytes(lists) + " of temporaries"}[lists > 0])
	default:
		s += fmt.Sprintf(" By the step before, the rest of this one needs about %s at a time.", units.Bytes(f.StillToComeBytes))
	}
	if refusal != "" {
		s += " Settings are not tried: " + refusal + "."
	}
	return s
}

// pinnedSegment is a segment with free memory that blocks in use keep from being given
// back: if they were freed or lay elsewhere, all of it could serve any request.
type pinnedSegment struct {
	bytes, free int64
	pins        []timeline.Block // smallest first
}

// pinnedSegments are those of a layout, the one with most free memory first.
func pinnedSegments(l *timeline.Layout) []pinnedSegment {
	var list []pinnedSegment
	for _, s := range l.Segments {
		g := pinnedSegment{bytes: s.Bytes}
		for _, b := range s.Blocks {
			if b.Allocation == timeline.NoAllocation {
				g.free += b.Bytes
			} else {
				g.pins = append(g.pins, b)
			}
		}
		if g.free > 0 && len(g.pins) > 0 {
			slices.SortStableFunc(g.pins, func(a, b timeline.Block) int { return cmp.Compare(a.Bytes, b.Bytes) })
			list = append(list, g)
		}
	}
	slices.SortStableFunc(list, func(a, b pinnedSegment) int { return cmp.Compare(b.free, a.free) })
	return list
}

// pinsOf groups the blocks that pin segments. A segment counts for a group
// when all of its blocks belong to it.
func pinsOf(segments []pinnedSegment, c *classify.Classification, view *frames.View) []Pin {
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
		first := of(&s.pins[0])
		for k := range s.pins {
			from := of(&s.pins[k])
			alone = alone && from == first
			at, ok := index[from]
			if !ok {
				at = len(list)
				index[from] = at
				list = append(list, newPin(from.category, &from.site))
			}
			list[at].Blocks++
			list[at].Bytes += s.pins[k].Bytes
		}
		if alone {
			list[index[first]].Segments++
			list[index[first]].Frees += s.bytes
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
