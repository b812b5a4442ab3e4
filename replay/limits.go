package replay

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/allocator"
)

// Outside is what a CUDA context and its libraries take of a GPU, in bytes, as
// far as nothing better is known.
const Outside = int64(520) << 20

// Limits are how much memory a recorded process could have had.
type Limits struct {
	Usable  int64 // bytes that the driver would have given PyTorch; 0: not known
	Allowed int64 // bytes that a memory fraction allowed; 0: none was noticed
	Note    string

	// Where the recording doesn't tell exactly, the true limit, of Allowed if
	// that is set and else of Usable, lies in between; else both are 0.
	From, To int64
}

// Limits finds how much memory the process could have had: from the failed
// requests, else from those that had to wait for cached memory to be freed.
func (p *Program) Limits() Limits {
	t := p.Timeline
	var l Limits
	from, to := t.Peaks.Reserved.Bytes, int64(math.MaxInt64)
	check := p.Verify()
	refused := check.refused
	capped := false
	for i := range t.OOMs {
		o := &t.OOMs[i]
		want := p.Settings.SegmentFor(o.Requested)
		if o.DeviceFree >= 0 {
			l.Usable = max(l.Usable, o.Capacity())
		}
		if o.DeviceFree >= p.Settings.Needs(o.Requested) {
			capped = true
			to = min(to, o.Reserved+want-1)
		}
	}
	if capped {
		to = min(to, refused-1) // pressure came from the same cap
		if to >= from {
			l.From, l.To = from, to
			l.Allowed, l.Note = p.guessAllowed(from, to, l.Usable)
		}
		return l
	}
	if l.Usable > 0 {
		return l
	}
	to = refused - 1
	if refused < math.MaxInt64 && to >= from {
		l.From, l.To = from, to
		const step = 2 << 20 // to which segments are rounded
		l.Usable = max(from, to/step*step)
		l.Note = fmt.Sprintf("no request failed, but %d had to free the cache first: the device had room for %d to %d bytes",
			p.pressures(), from, to)
	}
	return l
}

func (p *Program) pressures() int {
	n := 0
	for i := range p.flushes {
		if !p.flushes[i].Emptied {
			n++
		}
	}
	return n
}

// guessAllowed picks a limit between two that a round share of the GPU would
// give: people write 0.33, not 0.330001.
func (p *Program) guessAllowed(from, to, usable int64) (int64, string) {
	if p.Settings.Fraction > 0 && usable > 0 {
		if n := allocator.AllowedOf(p.Settings.Fraction, usable+Outside); n >= from && n <= to {
			return n, fmt.Sprintf("a memory fraction of %g refused requests", p.Settings.Fraction)
		}
	}
	middle := from + (to-from)/2
	if usable > 0 {
		total := usable + Outside
		for _, parts := range []int64{20, 100, 200, 1000} {
			k := int64(math.Ceil(float64(from) / float64(total) * float64(parts)))
			if n := allocator.AllowedOf(float64(k)/float64(parts), total); n >= from && n <= to {
				return n, fmt.Sprintf("a memory fraction refused requests: about %g of the GPU (between %s and %s)",
					float64(k)/float64(parts), units.Bytes(from), units.Bytes(to))
			}
		}
	}
	return middle, fmt.Sprintf("a memory fraction refused requests: between %s and %s", units.Bytes(from), units.Bytes(to))
}

// Recorded is the scenario of the recording itself.
func (p *Program) Recorded() Scenario {
	l := p.Limits()
	s := Scenario{Name: "recorded", Settings: p.Settings, Usable: l.Usable, Allowed: l.Allowed, recorded: true}
	if l.Usable > 0 {
		s.GPU = l.Usable + Outside
	}
	return s
}
