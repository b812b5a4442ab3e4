package facts

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// Shortage is what a failed request lacked, in bytes.
type Shortage struct {
	Usable  int64 // what PyTorch could have had; 0: not known
	Still   int64 // what the phase at work had yet to make, this request included; 0: not known
	Missing int64 // of what the program needed then; 0 where memory was there, or isn't known
	After   int   // steps that the program made after it without another failure
}

// Need is what the program wanted to hold next.
func (s *Shortage) Need(o *timeline.OOM) int64 { return o.Active + max(o.Requested, s.Still) }

// Shortage is what a request lacked that failed.
func (p *Pass) Shortage(o *timeline.OOM) Shortage {
	s := Shortage{Usable: o.Capacity(), Still: p.StillToCome(o), After: passes.StepsAfter(p.Classes, o.Event)}
	if s.Usable < 0 {
		s.Usable = 0
		if p.Dev.CapacityBytes != nil {
			s.Usable = *p.Dev.CapacityBytes
		}
	}
	if s.Usable > 0 {
		s.Missing = max(0, s.Need(o)-s.Usable)
	}
	return s
}

// MaxExplained bounds the failures for which the rest of their step is worked out.
const MaxExplained = 8

// ToCome is what the phases in which requests failed had yet to make, by event.
var ToCome = Named("memory still to come", func(p *Pass) map[int]passes.ToCome {
	all := map[int]passes.ToCome{}
	for i := range p.T.OOMs {
		o := &p.T.OOMs[i]
		all[o.Event] = passes.After(p.Classes, o, len(all) < MaxExplained && Replay.Of(p) != nil)
	}
	return all
})

// StillToCome is what the phase in which a request failed had yet to make: the
// state of a first optimizer step, or what the rest of a step needs by one
// before. The one failing request may have fitted; the step can't. 0: not known.
func (p *Pass) StillToCome(o *timeline.OOM) int64 { return ToCome.Of(p)[o.Event].Bytes }

// InPieces reports whether a failed request, which what was free would have held in
// one piece, failed for the pieces: the rest of its phase would have fitted, too, and
// if settings were replayed, one of them meets it and carries the phase on.
func (p *Pass) InPieces(o *timeline.OOM, capacity int64) bool {
	const nearlyAll = 5 // percent that the request would have left: the rest needs more, unless a like step shows it
	rest, left := ToCome.Of(p)[o.Event], capacity-o.Active
	if rest.Bytes > left || (rest.Bytes == 0 || rest.Estimated()) && (left-o.Requested)*100 < nearlyAll*capacity {
		return false
	}
	if need := passes.Whole(p.Classes, o, rest); need != nil && slices.ContainsFunc(need.Missing, func(m passes.Missing) bool {
		return m.Category == classify.Activations && m.Bytes > left
	}) {
		return false // of the layers that follow in this pass
	}
	tried := OtherSettings.Of(p)
	return tried == nil || !tried.Scenarios[0].OOM || *tried.Scenarios[0].OOMEvent != o.Event ||
		slices.ContainsFunc(tried.Scenarios, func(x replay.Outcome) bool {
			left, _, known := x.Spare()
			return x.Survived && !x.OOM && (!known || left >= rest.Bytes-o.Requested)
		})
}
