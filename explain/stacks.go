package explain

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var owners = map[frames.Owner]string{frames.User: "user", frames.Library: "library", frames.Compiled: "compiled",
	frames.Torch: "torch", frames.Internal: "native"}

// frame is a frame as a line of an answer.
func (a *asking) frame(id snapshot.FrameID) Frame {
	line := a.View.Line(id)
	f := Frame{Function: clip(line.Function), File: clip(line.File), Owner: owners[a.View.Owner(id)]}
	if line.Line > 0 {
		f.Line = &line.Line
	}
	if n := a.View.FX(id); n != (frames.Node{}) {
		f.FX = &Node{Op: clip(n.Op), Name: clip(n.Name), Target: clip(n.Target), Info: clip(n.Info), Trace: clip(n.Trace)}
	}
	return f
}

// stack is a stack's frames, innermost first: the Python ones where there is room, and
// of native ones that tell something as many as fit besides.
func (a *asking) stack(id snapshot.StackID) (out []Frame, rest int) {
	out = []Frame{}
	if id == 0 {
		return out, 0
	}
	all := a.T.Snapshot.Stack(id)
	python := 0
	for _, f := range all {
		if a.View.Owner(f) != frames.Internal {
			python++
		}
	}
	native := max(6, maxFrames-python)
	for _, f := range all {
		if a.View.Owner(f) == frames.Internal {
			if native == 0 || frames.Silent(a.T.Snapshot.String(a.T.Snapshot.Frames[f].Function)) {
				continue
			}
			native--
		}
		if len(out) == maxFrames {
			break
		}
		out = append(out, a.frame(f))
	}
	return out, len(all) - len(out)
}

// neighbors is the segment that an address lies in right after an event; nil: in none.
func (a *asking) neighbors(address uint64, event int, moment string, but timeline.AllocationID) *Neighbors {
	layout := a.T.LayoutAt(event)
	i, found := slices.BinarySearchFunc(layout.Segments, address, func(s timeline.Segment, address uint64) int {
		return cmp.Compare(s.Address, address)
	})
	if !found {
		i--
	}
	if i < 0 || address-layout.Segments[i].Address >= uint64(layout.Segments[i].Bytes) {
		return nil
	}
	s := &layout.Segments[i]
	n := &Neighbors{Moment: moment, Address: s.Address, Bytes: s.Bytes, Expandable: s.Expandable}
	if event >= 0 {
		n.Event = &event
	}
	var others []timeline.AllocationID
	for _, b := range s.Blocks {
		if b.Allocation == timeline.NoAllocation {
			n.Free += b.Bytes
			n.Largest = max(n.Largest, b.Bytes)
			continue
		}
		n.Used += b.Bytes
		if b.Allocation != but {
			others = append(others, b.Allocation)
		}
	}
	n.Others, n.Rest = a.briefs(others)
	return n
}

// spot is the phase and the step that an event lies in.
func (a *asking) spot(event int) (phase *string, step *int) {
	span, in := a.Classes.SpanAt(event)
	if span != nil {
		phase = new(span.Phase.String())
	}
	if in != nil {
		step = &in.Number
	}
	return phase, step
}

// restsOn are the signals that told the phases of some spans, in the order of the spans.
func restsOn(spans []classify.PhaseSpan) []Resting {
	out := []Resting{}
	for _, p := range spans {
		x := Resting{Reason: "Rules that look at what memory holds told it: a cache that grows, a loss that failed."}
		if s := phases.SignalOf(p.By); s != nil {
			x.Signal, x.Reason = &s.ID, s.Reason()
		}
		k := slices.IndexFunc(out, func(y Resting) bool { return evidence.Or(x.Signal, "") == evidence.Or(y.Signal, "") })
		if k < 0 {
			k, out = len(out), append(out, x)
		}
		if word := p.Phase.String(); !slices.Contains(out[k].Phases, word) {
			out[k].Phases = append(out[k].Phases, word)
		}
	}
	return out
}
