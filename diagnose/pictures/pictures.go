// Package pictures works out what the HTML page draws of one device: bands of
// allocations over the events, the events themselves, curves of categories, and
// the stacks behind them, each within a bound that keeps the page small.
//
// It knows the device's timeline and classes, and what the report says of the
// device so far. It must not know other devices, evidence, or what is wrong with
// the run: nothing here finds anything.
package pictures

import (
	"math"
	"math/bits"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Up to maxBands allocations are drawn one by one; of more than that only the
// keptBands which are largest by bytes × lifetime.
const (
	maxBands  = 500_000
	keptBands = 300_000
	// A page that a server has may draw more: what a browser takes for a second's work.
	servedBands = 3_000_000
)

// maxMapBlocks bounds what a moment's map may add to them.
const maxMapBlocks = 200_000

// clockPoints is about how many times of events are kept.
const clockPoints = 20_000

// picture is the work on one device's pictures.
type picture struct {
	*facts.Pass
	out *report.Pictures

	limit, keep int // allocations that are drawn one by one

	place   [classify.NumCategories]int // of a category in out.Categories
	kindKey map[uint64]uint16
	stacks  stackTable
}

// Of fills what only the page draws of a device, in a few passes over its
// allocations.
func Of(look *facts.Pass, dev *report.Device, served bool) *report.Pictures {
	p := newPicture(look, dev)
	if served {
		p.limit, p.keep = servedBands, servedBands
	}
	p.draw(dev)
	return p.out
}

func newPicture(look *facts.Pass, dev *report.Device) *picture {
	p := &picture{Pass: look, out: &report.Pictures{Events: dev.Events, Rules: map[string]string{}},
		kindKey: map[uint64]uint16{}, limit: maxBands,
		keep: keptBands}
	p.categories()
	p.stacks = newStackTable(look, p.out)
	return p
}

func (p *picture) draw(dev *report.Device) {
	p.clock()
	kept := p.bands(dev)
	p.curves(dev, kept)
	p.events(kept == nil)
	p.spans()
	p.growth(dev)
	p.stacks.finish()
}

// categories lists those that occur, in the order of pictures.
func (p *picture) categories() {
	var seen [classify.NumCategories]bool
	for _, c := range p.Classes.Category {
		seen[c] = true
	}
	for _, c := range classify.Stacked {
		if seen[c] {
			p.place[c] = len(p.out.Categories)
			p.out.Categories = append(p.out.Categories, c.String())
		}
	}
	if len(p.out.Categories) == 0 {
		p.out.Categories = []string{classify.Unknown.String()}
	}
}

// clock keeps the times of evenly spread events.
func (p *picture) clock() {
	times := p.T.Device.Events.TimeUS
	p.out.TimeEvery = max(1, len(times)/clockPoints)
	for i := 0; i < len(times); i += p.out.TimeEvery {
		p.out.TimeUS = append(p.out.TimeUS, times[i])
	}
}

// category is an allocation's place in the list of categories.
func (p *picture) category(id int) int {
	return p.place[p.Classes.Category[id]]
}

// kind is an allocation's index into the list of kinds, which are few.
func (p *picture) kind(id int) uint16 {
	c := p.Classes
	key := uint64(c.Rule[id])<<40 | uint64(c.Category[id])<<32 | uint64(c.Detail[id])<<24 | uint64(c.Confidence[id])<<16 | uint64(
		c.Signal[id])<<8 | uint64(c.Phase[id])
	k, ok := p.kindKey[key]
	if ok {
		return k
	}
	kind := report.Kind{Category: p.category(id), Detail: c.Detail[id].String(), Confidence: int(c.Confidence[id]),
		Signal: c.Signal[id].String(), Phase: c.Phase[id].String(), Rule: classify.RuleID(c.Rule[id])}
	if kind.Rule != "" {
		p.out.Rules[kind.Rule] = classify.RuleReason(c.Rule[id])
	}
	k = uint16(min(len(p.out.Kinds), math.MaxUint16))
	if len(p.out.Kinds) <= int(k) {
		p.out.Kinds = append(p.out.Kinds, kind)
	}
	p.kindKey[key] = k
	return k
}

// counts reports whether an allocation is ever allocated within the recording.
func (p *picture) counts(id int) bool { return p.T.FreeRequested[id] != timeline.Before }

// lifetime is an allocation's birth and death as events; what is older than
// the recording is born at -1, what outlives it dies after its last event.
func (p *picture) lifetime(id int) (born, died int) {
	born, died = -1, p.out.Events
	if b := p.T.Born[id]; b != timeline.Never {
		born = int(b)
	}
	if f := p.T.FreeRequested[id]; f != timeline.Never && f != timeline.Before {
		died = int(f)
	}
	return born, died
}

// bands fills the columns and tells which allocations are in them; nil: all.
func (p *picture) bands(dev *report.Device) (kept []bool) {
	t, b := p.T, &p.out.Bands
	room := t.Len()
	if room > p.limit {
		kept = p.largest(p.keep)
		p.keepMoments(dev, kept)
		room = 0
		for _, k := range kept {
			if k {
				room++
			}
		}
		b.ID = make([]uint32, 0, room)
	}
	b.Born, b.Freed, b.Bytes = make([]uint32, 0, room), make([]uint32, 0, room), make([]int64, 0, room)
	b.Kind, b.Stack = make([]uint16, 0, room), make([]uint32, 0, room)
	b.Completed, b.Address, b.Requested = make([]uint32, 0, room), make([]uint64, 0, room), make([]int64, 0, room)
	b.Stream, b.Pool = make([]uint32, 0, room), make([]uint32, 0, room)
	b.Name, b.Forward = p.named(room), column(t.Device.Events.ForwardStack != nil, room)
	for id := range t.Len() {
		if kept != nil && !kept[id] {
			continue
		}
		if b.ID != nil {
			b.ID = append(b.ID, uint32(id))
		}
		if t.Born[id] == timeline.Never {
			b.Older++
		}
		a := timeline.AllocationID(id)
		b.Born = append(b.Born, t.Born[id])
		b.Freed = append(b.Freed, t.FreeRequested[id])
		b.Completed = append(b.Completed, t.Freed[id])
		b.Bytes = append(b.Bytes, max(0, t.Allocated[id]))
		b.Requested = append(b.Requested, max(0, t.Requested(a)))
		b.Address = append(b.Address, t.Address(a))
		b.Stream, b.Pool = append(b.Stream, t.Stream(a)), append(b.Pool, t.Pool(a))
		b.Kind = append(b.Kind, p.kind(id))
		b.Stack = append(b.Stack, p.stacks.index(t.Stack(a)))
		p.said(id)
	}
	return kept
}

// named is the column of names, nil where there are none.
func (p *picture) named(room int) []uint32 {
	c := p.Classes
	if len(c.Names) == 0 || c.Name == nil {
		return nil
	}
	for _, name := range c.Names {
		p.out.Names = append(p.out.Names, shorten(name))
	}
	return column(true, room)
}

// column has room for so many, where there is anything to say.
func column(there bool, room int) []uint32 {
	if !there {
		return nil
	}
	return make([]uint32, 0, room)
}

// said adds what an allocation is called, and its forward operation's stack.
func (p *picture) said(id int) {
	b := &p.out.Bands
	if b.Name != nil {
		b.Name = append(b.Name, p.Classes.Name[id])
	}
	if b.Forward != nil {
		stack := snapshot.StackID(0)
		if born := p.T.Born[id]; born != timeline.Never {
			stack = p.T.Device.Events.ForwardStackOf(int(born))
		}
		b.Forward = append(b.Forward, p.stacks.bare(stack))
	}
}

// keepMoments keeps what the map of segments needs at the moments that matter:
// the end, the peak, and the last failed request.
func (p *picture) keepMoments(dev *report.Device, kept []bool) {
	moments := []int{p.out.Events - 1}
	if dev.AtPeak.Event != nil {
		moments = append(moments, *dev.AtPeak.Event)
	}
	if n := len(dev.OOMs); n > 0 {
		moments = append(moments, dev.OOMs[n-1].Event)
	}
	for _, event := range moments {
		var there []int
		for id := range kept {
			if p.T.Occupies(timeline.AllocationID(id), event) {
				there = append(there, id)
			}
		}
		if len(there) > maxMapBlocks {
			continue
		}
		for _, id := range there {
			kept[id] = true
		}
		p.out.Moments = append(p.out.Moments, event)
	}
}

// largest marks the allocations with the most bytes × lifetime: by a histogram
// of its logarithm, in time linear in their number.
func (p *picture) largest(count int) []bool {
	t := p.T
	class := func(id int) int { // 16 classes for each power of two
		born, died := p.lifetime(id)
		hi, lo := bits.Mul64(uint64(max(0, t.Allocated[id])), uint64(died-born))
		if hi != 0 {
			lo = math.MaxUint64
		}
		n := bits.Len64(lo)
		if n <= 5 {
			return int(lo)
		}
		return n<<4 | int(lo>>(n-5)&15)
	}
	var histogram [65 << 4]int
	for id := range t.Born {
		if p.counts(id) {
			histogram[class(id)]++
		}
	}
	limit, above := len(histogram)-1, 0
	for ; limit > 0 && above+histogram[limit] <= count; limit-- {
		above += histogram[limit]
	}
	rest := count - above // of the class at the limit, the first ones
	kept := make([]bool, t.Len())
	for id := range t.Born {
		if !p.counts(id) {
			continue
		}
		c := class(id)
		if c == limit && rest > 0 {
			rest--
			kept[id] = true
		}
		if c > limit {
			kept[id] = true
		}
	}
	return kept
}

// curves sums up the categories, and what isn't drawn one by one, at the
// instants of the device's curve: by what begins and ends between two of them.
func (p *picture) curves(dev *report.Device, kept []bool) {
	events := dev.Curve.Events
	if len(events) == 0 {
		return
	}
	next := make([]int32, p.out.Events+1) // the first instant at or after an event
	k := 0
	for e := range next {
		for k < len(events) && events[k] < e {
			k++
		}
		next[e] = int32(k)
	}
	levels := func() [][]int64 {
		out := make([][]int64, len(p.out.Categories))
		for i := range out {
			out[i] = make([]int64, len(events)+1)
		}
		return out
	}
	all, rest, others := levels(), levels(), 0
	for id := range p.T.Born {
		if !p.counts(id) {
			continue
		}
		born, died := p.lifetime(id)
		from, to := int32(0), next[min(died, p.out.Events)]
		if born >= 0 {
			from = next[born]
		}
		bytes, category := p.T.Allocated[id], p.category(id)
		all[category][from] += bytes
		all[category][to] -= bytes
		if kept != nil && !kept[id] {
			rest[category][from] += bytes
			rest[category][to] -= bytes
			others++
		}
	}
	sum := func(columns [][]int64) [][]int64 {
		for i, c := range columns {
			for k := 1; k < len(c); k++ {
				c[k] += c[k-1]
			}
			columns[i] = c[:len(events)]
		}
		return columns
	}
	p.out.Curve = report.CategoryCurve{Events: events, Bytes: sum(all), Reserved: dev.Curve.Reserved}
	if others > 0 {
		p.out.Rest = &report.Rest{Allocations: others, Events: events, Bytes: sum(rest)}
	}
}

// growthSteps and growthSites bound the picture of what steps leave behind.
const (
	growthSteps = 200
	growthSites = 7
)

// stackOf is where an allocation was made.
func (p *picture) stackOf(id int) snapshot.StackID { return p.T.Stack(timeline.AllocationID(id)) }
