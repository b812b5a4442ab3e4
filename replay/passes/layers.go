package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// mostStacks bounds the parts of a pass that repeat themselves in their own
// way, such as an encoder and a decoder; leastShare is what a part must have
// of the pass, in percent of its bytes.
const (
	mostStacks = 4
	leastShare = 5
)

// Repeats finds the parts of what a pass saves that repeat themselves, layer by layer,
// the heaviest first.
func (p *Pass) Repeats(c *classify.Classification) []timeline.Repeat {
	type kind struct { // what a tensor has in common with those of other layers
		bytes int64
		stack uint32
	}
	t, kinds, sums := c.Timeline, make([]kind, len(p.Saved)), make([]int64, len(p.Saved)+1)
	for i, id := range p.Saved {
		kinds[i] = kind{t.Requested(id), uint32(t.Stack(id))}
		sums[i+1] = sums[i] + kinds[i].bytes
	}
	at := timeline.NewRuns(kinds, 1).At
	var found []timeline.Repeat
	open := [][2]int{{0, len(at)}}
	for len(open) > 0 && len(found) < mostStacks {
		part := open[0]
		open = open[1:]
		x, bytes := timeline.HeaviestRepeat(at, sums, part[0], part[1])
		if bytes*100 < sums[len(at)]*leastShare || bytes == 0 {
			continue
		}
		// The first layer's input is made elsewhere than those of the others.
		for x.From-x.Period >= part[0] && slices.EqualFunc(kinds[x.From-x.Period:x.From], kinds[x.From:x.From+x.Period],
			func(a, b kind) bool { return a.bytes == b.bytes }) {
			x.From, x.Count = x.From-x.Period, x.Count+1
		}
		found = append(found, x)
		open = append(open, [2]int{part[0], x.From}, [2]int{x.End(), part[1]})
	}
	return found
}

// Layer is one of the layers of a pass.
type Layer struct {
	Saved      []timeline.AllocationID
	Start, End int                            // of its forward, in events
	First      int                            // the first death of its backward; the number of events when there is none
	Last       int                            // the last one
	Kept       map[timeline.AllocationID]bool // inputs of layers that are saved anyway
	Least      int64                          // bytes from which on a tensor isn't just a statistic of a layer's input
}

// inputShare is how many times larger than a layer's input its largest tensor
// may be: statistics and masks are smaller still.
const inputShare = 256

// Layers tells the layers of a part of a pass apart.
func (p *Pass) Layers(c *classify.Classification, part timeline.Repeat) []Layer {
	t := c.Timeline
	list := make([]Layer, part.Count)
	for k := range list {
		from := part.From + k*part.Period
		x := &list[k]
		x.Saved = p.Saved[from : from+part.Period]
		x.Start, x.End = t.BornAt(x.Saved[0])-1, t.BornAt(x.Saved[part.Period-1])
		if from+part.Period < len(p.Saved) {
			x.End = t.BornAt(p.Saved[from+part.Period]) - 1
		}
		for _, id := range x.Saved {
			x.Last = max(x.Last, t.FreedAt(id))
			x.Least = max(x.Least, t.Requested(id)/inputShare)
		}
	}
	after := p.Saved[part.End():]
	after = after[:min(len(after), tail)]
	kept := savedInputs(c, list, after)
	for k := range list {
		list[k].Kept = kept
	}
	p.findBackward(t, list, after)
	return list
}

// tail is how many tensors after the last layer are looked at to tell where
// their backward ends.
const tail = 6

// findBackward tells the backward passes of layers apart: what a layer saved
// for itself dies after all that later layers did. What it passed on to the
// next one dies with that.
func (p *Pass) findBackward(t *timeline.Timeline, list []Layer, tail []timeline.AllocationID) {
	events := t.Device.Events.Len()
	after := p.Backward - 1
	for _, id := range tail {
		if freed := t.FreedAt(id); freed < list[len(list)-1].Last {
			after = max(after, freed)
		}
	}
	for k := len(list) - 1; k >= 0; k-- {
		x := &list[k]
		x.First = events
		for _, id := range x.Saved {
			if freed := t.FreedAt(id); freed > after && !x.Kept[id] {
				x.First = min(x.First, freed)
			}
		}
		if x.Last < events {
			after = max(after, x.Last)
		}
	}
}

// savedInputs are the inputs of layers, and of what follows them, that are
// saved anyway: what a layer saved last, when nothing else was made after it
// that the next one begins with.
func savedInputs(c *classify.Classification, list []Layer, tail []timeline.AllocationID) map[timeline.AllocationID]bool {
	kept := map[timeline.AllocationID]bool{}
	keep := func(x *Layer) {
		if id, ok := x.Input(c.Timeline); ok && c.Category[id] == classify.Activations {
			kept[id] = true
		}
	}
	for k := range list {
		keep(&list[k])
	}
	if len(tail) > 0 {
		keep(&Layer{Saved: tail, Start: c.Timeline.BornAt(tail[0]) - 1, Least: list[0].Least})
	}
	return kept
}

// mostBetween bounds the search for a layer's input, in allocations.
const mostBetween = 256

// Input is the input of a layer by the order of births: of what is alive
// when the layer begins, the last that was made.
func (x *Layer) Input(t *timeline.Timeline) (timeline.AllocationID, bool) {
	first := int(x.Saved[0])
	for i := first - 1; i >= max(0, first-mostBetween); i-- {
		id := timeline.AllocationID(i)
		if t.BornAt(id) == timeline.NoEvent {
			break
		}
		if t.FreedAt(id) > x.Start && t.Requested(id) >= x.Least {
			return id, true
		}
	}
	return 0, false
}
