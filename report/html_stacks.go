package report

// stackView is a call site with the stack that holds most for it.
type stackView struct {
	Site   Site
	Frames []frameRun
}

// frameRun are some lines of a stack in a row: those to show, or a place to
// unfold the others, which the script takes from the device's data.
type frameRun struct {
	Frames             []Frame
	Fold               bool
	Stack, From, Count int // of the device's stacks; of its lines
}

// Bounds of the stacks that stand in the page as text.
const (
	stackViews = 30
	stackLines = 100
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
	for node, line := p.Stacks[stack].Node, 0; node > 0; node, line = p.Nodes[node].Parent, line+1 {
		f := p.Frames[p.Nodes[node].Frame]
		if n := len(out); n == 0 || out[n-1].Fold != f.Fold {
			out = append(out, frameRun{Fold: f.Fold, Stack: stack, From: line})
		}
		run := &out[len(out)-1]
		if run.Count++; !f.Fold && run.Count <= stackLines {
			run.Frames = append(run.Frames, f)
		}
	}
	return out
}
