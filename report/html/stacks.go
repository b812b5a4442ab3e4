package html

import "github.com/vramscope/vramscope/report"

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
	peak := -1
	if d.AtPeak.Event != nil {
		peak = *d.AtPeak.Event
	}
	bytes := make([]int64, len(p.Stacks))
	for i := range p.Bands.Born {
		if p.Bands.Alive(i, peak) {
			bytes[p.Bands.Stack[i]] += p.Bands.Bytes[i]
		}
	}
	largest := map[siteName]int{}
	for i, s := range p.Stacks {
		if s.Site < 0 {
			continue
		}
		name := nameOf(&p.Sites[s.Site])
		if best, ok := largest[name]; !ok || bytes[i] > bytes[best] {
			largest[name] = i
		}
	}
	var out []stackView
	shown := map[siteName]bool{}
	for _, s := range d.Sites {
		name := nameOf(&s)
		i, ok := largest[name]
		if !ok || shown[name] {
			continue
		}
		shown[name] = true
		if out = append(out, newStackView(p, s, i)); len(out) == mostStacks {
			break
		}
	}
	return out
}

// siteName tells call sites apart, whatever their categories.
type siteName struct {
	function, file, op, from string
	line, fromLine           int
}

func nameOf(s *report.Site) siteName {
	n := siteName{function: s.Function, file: s.File, op: s.Op}
	if s.Line != nil {
		n.line = *s.Line
	}
	if s.CalledFrom != nil {
		n.from = s.CalledFrom.Function + "\x00" + s.CalledFrom.File
		if s.CalledFrom.Line != nil {
			n.fromLine = *s.CalledFrom.Line
		}
	}
	return n
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
