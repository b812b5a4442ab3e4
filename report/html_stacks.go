package report

// stackView is a call site with the stack that holds most for it.
type stackView struct {
	Site   Site
	Frames []frameRun
}

// frameRun is a line of a stack, or several in a row that are folded.
type frameRun struct {
	Frames []Frame
	Fold   bool
}

// Bounds of the stacks that stand in the page as text.
const (
	stackViews = 30
	stackLines = 400
)

// stackViews are the call sites with most bytes at the peak, each with its
// largest stack, the machinery of torch folded.
func (d *Device) stackViews() []stackView {
	p := d.Pictures
	peak := -1
	if d.AtPeak.Event != nil {
		peak = *d.AtPeak.Event
	}
	bytes := make([]int64, len(p.Stacks))
	for i, born := range p.Bands.Born {
		if (i < p.Bands.Older || int(born) <= peak) && (p.Bands.Freed[i] == NotFreed || int(p.Bands.Freed[i]) > peak) {
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
		if out = append(out, stackView{s, p.runs(i)}); len(out) == stackViews {
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

func nameOf(s *Site) siteName {
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

// runs are a stack's frames, innermost first, neighbours of one kind together.
func (p *Pictures) runs(stack int) []frameRun {
	var out []frameRun
	for node, lines := p.Stacks[stack].Node, 0; node > 0 && lines < stackLines; node, lines = p.Nodes[node].Parent, lines+1 {
		f := p.Frames[p.Nodes[node].Frame]
		if n := len(out); n > 0 && out[n-1].Fold == f.Fold {
			out[n-1].Frames = append(out[n-1].Frames, f)
			continue
		}
		out = append(out, frameRun{[]Frame{f}, f.Fold})
	}
	return out
}
