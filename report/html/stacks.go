package html

import (
	"fmt"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// stackView is a call site with the stack that holds most for it.
type stackView struct {
	Site  report.Site
	Lines []report.Frame // those worth reading; the script has all others
	Stack int            // index into the device's stacks
	Count int            // of all its lines; 0: it was left out
}

// Bounds of the stacks that stand in the page as text.
const (
	mostStacks     = 30
	stackLines     = 100
	machineryLines = 8
)

// largestStacks are the call sites with most bytes at the peak, each with its
// largest stack, the machinery of torch folded.
func largestStacks(d *report.Device) []stackView {
	p := d.Pictures
	peak := evidence.Or(d.AtPeak.Event, -1)
	bytes := make([]int64, len(p.Stacks))
	for i := range p.Bands.Born {
		if p.Bands.Alive(i, peak) {
			bytes[p.Bands.Stack[i]] += p.Bands.Bytes[i]
		}
	}
	names := make([]string, len(p.Sites))
	for i := range p.Sites {
		names[i] = nameOf(&p.Sites[i])
	}
	largest := map[string]int{}
	for i, s := range p.Stacks {
		if s.Site < 0 {
			continue
		}
		if best, ok := largest[names[s.Site]]; !ok || bytes[i] > bytes[best] {
			largest[names[s.Site]] = i
		}
	}
	var out []stackView
	for _, s := range d.Sites {
		name := nameOf(&s)
		i, ok := largest[name]
		if !ok {
			continue
		}
		delete(largest, name) // once, whatever the category
		if out = append(out, newStackView(p, s, i)); len(out) == mostStacks {
			break
		}
	}
	return out
}

// nameOf tells call sites apart, whatever their categories.
func nameOf(s *report.Site) string {
	from := evidence.Or(s.CalledFrom, report.Place{})
	return fmt.Sprintf("%q %q %d %q %q %q %d", s.Function, s.File, evidence.Or(s.Line, 0), s.Op, from.Function, from.File,
		evidence.Or(from.Line, 0))
}

// newStackView picks the lines of a stack that are not torch's machinery,
// innermost first; of a stack that has no others, the innermost from the first that tells something.
func newStackView(p *report.Pictures, site report.Site, stack int) stackView {
	v := stackView{Site: site, Stack: stack}
	var machinery []report.Frame
	silent := true // so far
	for node := p.Stacks[stack].Node; node > 0; node = p.Nodes[node].Parent {
		f := p.Frames[p.Nodes[node].Frame]
		v.Count++
		switch {
		case !f.Fold && len(v.Lines) < stackLines:
			v.Lines = append(v.Lines, f)
		case f.Fold && !f.Silent && silent:
			machinery, silent = []report.Frame{f}, false
		case f.Fold && len(machinery) < machineryLines:
			machinery = append(machinery, f)
		}
	}
	if len(v.Lines) == 0 {
		v.Lines = machinery
	}
	return v
}
