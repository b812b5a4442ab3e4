package facts

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TopSite is the line of code that holds most of a category at the peak, nil
// when no stack shows any.
func TopSite(sites []report.Site, category classify.Category) *report.Site {
	for i := range sites {
		if s := &sites[i]; *s.Category == category.String() && s.Known && s.Function != "" {
			return s
		}
	}
	return nil
}

// SiteLine is a call site with what it holds, for a line of evidence.
func SiteLine(s *report.Site) string {
	return units.Bytes(s.Bytes) + " in " + units.Plural(s.Blocks, "block") + " from " + s.Short() + CalledFrom(s.CalledFrom)
}

// SiteLines are the lines that hold most of a category at the peak, each once,
// whatever operations it runs.
func SiteLines(sites []report.Site, category classify.Category, n int) []string {
	byPlace := map[string]int{}
	var lines []report.Site
	for _, s := range sites {
		if *s.Category != category.String() || !s.Known || s.Function == "" && s.Op == "" {
			continue
		}
		place := s.Short() + CalledFrom(s.CalledFrom)
		i, ok := byPlace[place]
		if !ok {
			byPlace[place] = len(lines)
			lines = append(lines, s)
			continue
		}
		lines[i].Bytes += s.Bytes
		lines[i].Blocks += s.Blocks
	}
	slices.SortStableFunc(lines, func(a, b report.Site) int { return cmp.Compare(b.Bytes, a.Bytes) })
	out := []string{}
	for i := range lines[:min(n, len(lines))] {
		out = append(out, SiteLine(&lines[i]))
	}
	return out
}

// CalledFrom goes on after a line of code with the one that called it, if any.
func CalledFrom(p *report.Place) string {
	if p == nil {
		return ""
	}
	return ", called from " + PlaceText(p)
}

func PlaceText(p *report.Place) string {
	return (&report.Site{Function: p.Function, File: p.File, Line: p.Line}).Short()
}

// LineText names a line of code in a sentence.
func LineText(l frames.Line) string {
	s := report.Site{Function: l.Function, File: l.File, Line: LineOf(l.Line)}
	return s.Short()
}

// UserLine is the user's line of a call site, else the library's.
func UserLine(s *report.Site) string {
	if c := s.CalledFrom; c != nil {
		return PlaceText(c)
	}
	return s.Short()
}

// UserPlace is the same as a line of code, nil where it has none.
func UserPlace(s *report.Site) *report.Place {
	switch {
	case s.CalledFrom != nil:
		return s.CalledFrom
	case s.File == "":
		return nil
	}
	return &report.Place{Function: s.Function, File: s.File, Line: s.Line}
}

// CallOf is the line that runs the passes whose graphs a leak keeps, data aside; the leak's own where no line covers them.
func (p *Pass) CallOf(l *classify.Leak) frames.Line {
	var graphs []timeline.AllocationID
	for _, id := range l.Allocations {
		if p.Classes.Category[id] != classify.Inputs {
			graphs = append(graphs, id)
		}
	}
	if line := p.CoveringLine(p.ByStack(graphs)); line.File != "" {
		return line
	}
	return frames.Line{Function: l.Function, File: l.File, Line: l.Line}
}

// CoveringLine is the innermost of the user's lines, forward methods of modules
// aside, that nearly all of some memory was asked for under: the call that a
// change has to go around. It is empty when no stack shows the user's code.
func (p *Pass) CoveringLine(bytes map[snapshot.StackID]int64) frames.Line {
	return p.CoveringLineBut(bytes, nil)
}

// CoveringLineBut is the same, of lines that aren't among some.
func (p *Pass) CoveringLineBut(bytes map[snapshot.StackID]int64, not map[frames.Line]bool) frames.Line {
	type cover struct {
		bytes int64
		depth int // most lines that it was called through
	}
	covers := map[frames.Line]cover{}
	var all int64
	for id, n := range bytes {
		all += n
		seen := map[frames.Line]bool{}
		lines := p.View.User(id)
		for i, line := range lines {
			depth := len(lines) - i
			if seen[line] || line.Function == "forward" || not[line] {
				continue
			}
			seen[line] = true
			c := covers[line]
			c.depth = max(c.depth, depth)
			c.bytes += n
			covers[line] = c
		}
	}
	var best frames.Line
	found := cover{}
	for line, c := range covers {
		enough, was := Share(c.bytes, all) >= 98, Share(found.bytes, all) >= 98
		better := enough && !was || enough == was && cmp.Or(deeper(enough, c.depth, found.depth),
			cmp.Compare(c.bytes, found.bytes), compareLines(best, line)) > 0
		if found.bytes == 0 || better {
			best, found = line, c
		}
	}
	if Share(found.bytes, all) < 50 {
		return frames.Line{}
	}
	return best
}

// deeper prefers the inner one of lines that cover enough.
func deeper(enough bool, depth, other int) int {
	if !enough {
		return 0
	}
	return cmp.Compare(depth, other)
}

func compareLines(a, b frames.Line) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
}

// StacksWith tells stacks that hold a frame of some kind, looking at each frame and
// each stack once.
func (p *Pass) StacksWith(is func(function, file string) bool) func(snapshot.StackID) bool {
	s := p.T.Snapshot
	marked, some := make([]bool, len(s.Frames)), false
	for i, f := range s.Frames {
		marked[i] = is(s.String(f.Function), s.String(f.File))
		some = some || marked[i]
	}
	known := map[snapshot.StackID]bool{}
	return func(stack snapshot.StackID) bool {
		if !some {
			return false
		}
		holds, ok := known[stack]
		if !ok {
			holds = slices.ContainsFunc(s.Stack(stack), func(f snapshot.FrameID) bool { return marked[f] })
			known[stack] = holds
		}
		return holds
	}
}
