package facts

import (
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
	s := Shortage{Usable: o.Capacity(), Still: p.StillToCome(o), After: StepsAfter(p.Dev, o.Event)}
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
var ToCome = Named("memory still to come", func(p *Pass) map[int]int64 {
	all := map[int]int64{}
	for i := range p.T.OOMs {
		o := &p.T.OOMs[i]
		n := passes.OptimizerStateToCome(p.Classes, o)
		if n == 0 && len(all) < MaxExplained && Replay.Of(p) != nil {
			n = passes.RestOfStep(p.Classes, o)
		}
		all[o.Event] = n
	}
	return all
})

// StillToCome is what the phase in which a request failed had yet to make: the
// state of a first optimizer step, or what the rest of a step needs by one
// before. The one failing request may have fitted; the step can't. 0: not known.
func (p *Pass) StillToCome(o *timeline.OOM) int64 { return ToCome.Of(p)[o.Event] }
