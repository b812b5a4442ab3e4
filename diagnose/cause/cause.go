// Package cause weighs what may have filled a GPU against what was missing of it. It is the
// one place where that is judged; all that prints a verdict takes it from there.
//
//	s := cause.Scene{Asked: 64 << 20, Lacked: 20 << 20, InUse: 78 << 30, Defects: leaks, Design: categories}
//	fmt.Println(s.Judge()[0].Cause)
package cause

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// Scene is a moment at which memory matters: that of a request that failed, or a run's peak.
type Scene struct {
	Asked  int64 // by the request; 0: none failed
	Whole  int64 // the GPU's size, 0: not known
	InUse  int64
	Lacked int64 // of what the program needed then; 0: what was free would have done in one piece
	ToCome int64 // of the optimizer's state
	Left   int64 // of it, what would have been left in one piece
	Length int64 // of which the request is the square, beyond all that was there; 0: it is none
	// Defects of the program, with what each held then.
	Defects []report.Cause
	// Around is what kept memory from the request that was there: another process, a limit, pieces; nil: nothing.
	Around *report.Cause
	// Design is what the rest of the memory is for.
	Design []report.Cause
}

// From which shares of what is in use on, in percent, a defect may be the verdict, and a
// cause is worth a mention.
const (
	verdictLeast = 2
	mentionLeast = 10
)

// Judge gives the causes: a request that nothing could meet alone; else defects that held what was missing, then
// what stood around it, then what the job needs by design, the largest first in each.
func (s *Scene) Judge() []report.Cause {
	if s.Length > 0 || s.Whole > 0 && s.Asked > s.Whole {
		return []report.Cause{{Cause: report.TooLarge, Bytes: s.Asked, Length: s.Length, FixID: new("request")}}
	}
	largest := func(a, b report.Cause) int { return cmp.Compare(b.Bytes, a.Bytes) }
	var out, rest []report.Cause
	for _, c := range s.Defects {
		switch {
		case s.explained(&c):
			out = append(out, c)
		case c.Bytes*100 >= s.InUse*mentionLeast:
			rest = append(rest, c)
		}
	}
	slices.SortStableFunc(out, largest)
	if s.Around != nil {
		out = append(out, *s.Around)
	}
	for _, c := range s.Design {
		if c.Cause == words.OptimizerState.String() {
			c.Bytes += s.ToCome
		}
		if c.Bytes > 0 && (c.Bytes*100 >= s.InUse*mentionLeast || len(s.Design) == 1) {
			rest = append(rest, c)
		}
	}
	slices.SortStableFunc(rest, largest)
	out = append(out, rest...)
	switch {
	case len(out) > 0:
		return out
	case len(s.Design) > 0:
		return []report.Cause{slices.MinFunc(s.Design, largest)}
	}
	return []report.Cause{{Cause: report.Unclear}}
}

// explained reports whether a defect did it: without what it held, the request would have been met, or where memory
// was there, it held most or would have taken the rest in a few steps more, whatever the allocator's settings.
func (s *Scene) explained(c *report.Cause) bool {
	const few = 3 // steps
	switch {
	case c.Bytes*100 < s.InUse*verdictLeast:
		return false
	case s.Asked == 0 || s.Lacked > 0:
		return c.Bytes >= s.Lacked
	case s.Around == nil || s.Around.Cause == report.OtherProcess: // full, but for small pieces
		return c.Bytes >= s.Asked
	case 2*c.Bytes >= s.InUse:
		return true
	}
	return c.Leak != nil && c.Leak.BytesPerStep != nil && few**c.Leak.BytesPerStep > s.Left
}
