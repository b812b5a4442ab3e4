package profiles

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// Up to allEvents events, counters are written at every event that changes one.
// Of a longer recording only some instants are: of each of about
// maxStretches stretches the last one, those at which a counter is highest, and
// those at which allocated or reserved is lowest. So no peak is lost, and at every
// instant that is written the categories sum to what is allocated.
const (
	allEvents    = 200_000
	maxStretches = 5_000
)

// bytesAt is what every category holds and the four curves after an event;
// the categories sum to Allocated.
type bytesAt struct {
	timeline.Levels
	*classify.Held
}

// curves are the allocator's counters; the first is the sum of the categories.
var curves = [...]struct {
	name, meaning string
	of            func(*bytesAt) int64
}{
	{"allocated", "blocks given out, until their free is requested: the categories sum to it; torch.cuda.memory_allocated()",
		func(b *bytesAt) int64 { return b.Allocated }},
	{"reserved", "held from the driver; torch.cuda.memory_reserved()", func(b *bytesAt) int64 { return b.Reserved }},
	{"active", "allocated, and blocks whose free is pending", func(b *bytesAt) int64 { return b.Active }},
	{"requested", "what the program asked for, without the allocator's rounding", func(b *bytesAt) int64 { return b.Requested }},
}

const numCounters = classify.NumCategories + len(curves)

// values are all counters of a device at an instant: the allocator's curves,
// then the categories in the order of pictures.
type values [numCounters]int64

func (b *bytesAt) values() (v values) {
	for i, c := range curves {
		v[i] = c.of(b)
	}
	for i, c := range classify.Stacked {
		v[len(curves)+i] = b.Bytes[c]
	}
	return v
}

// counters writes the counters of one device.
type counters struct {
	x       *trace
	d       Device
	shown   [numCounters]bool
	last    values
	stretch int // events of which some are written; 1: all are
	rows    []values
}

func newCounters(x *trace, d Device) *counters {
	c := &counters{x: x, d: d, stretch: 1}
	for i := range curves {
		c.shown[i] = true
	}
	var occurs [classify.NumCategories]bool
	for _, k := range d.Classes.Category {
		occurs[k] = true
	}
	for i, k := range classify.Stacked {
		c.shown[len(curves)+i] = occurs[k]
	}
	if n := d.Timeline.Device.Events.Len(); n > x.allEvents {
		c.stretch = (n + x.stretches - 1) / x.stretches
	}
	return c
}

func (c *counters) thinned() bool { return c.stretch > 1 }

// write writes the counters' tracks and values.
func (c *counters) write() {
	for i, shown := range c.shown {
		if !shown {
			continue
		}
		name, meaning := "", ""
		if i < len(curves) {
			name, meaning = curves[i].name, curves[i].meaning
		} else {
			name, meaning = classify.Stacked[i-len(curves)].String(), "a part of what is allocated"
		}
		descriptor := message(nil).uint(counterUnit, unitBytes)
		if i < len(curves) {
			descriptor = descriptor.text(counterShare, "allocator") // one scale for all four
		}
		c.x.track(counterTrack+i, name, meaning, message(nil).sub(trackCounter, descriptor))
	}
	t := c.d.Timeline
	now := bytesAt{t.Start, c.d.Classes.HeldAtStart(t)}
	c.emit(timeline.NoEvent, now.values(), true)
	n := t.Device.Events.Len()
	t.Walk(func(event int, l timeline.Levels) {
		now.Levels = l
		now.Step(event)
		if !c.thinned() {
			c.emit(event, now.values(), false)
			return
		}
		if c.rows = append(c.rows, now.values()); len(c.rows) == c.stretch || event == n-1 {
			c.thin(event + 1 - len(c.rows))
			c.rows = c.rows[:0]
		}
	})
}

// emit writes those counters that changed, or all.
func (c *counters) emit(event int, v values, all bool) {
	x := c.x
	at := x.times.at(event)
	for i := range v {
		if c.shown[i] && (all || v[i] != c.last[i]) {
			x.begin(counter, counterTrack+i)
			x.event = x.event.int(eventCounter, v[i])
			x.emit(at)
		}
	}
	c.last = v
}

// thin writes what has to be kept of the stretch that begins with an event.
func (c *counters) thin(first int) {
	keep := []int{len(c.rows) - 1}
	for i, shown := range c.shown {
		if !shown {
			continue
		}
		high, low := 0, 0
		for k := range c.rows {
			if c.rows[k][i] > c.rows[high][i] {
				high = k
			}
			if c.rows[k][i] < c.rows[low][i] {
				low = k
			}
		}
		keep = append(keep, high)
		if i < 2 { // allocated, reserved
			keep = append(keep, low)
		}
	}
	slices.Sort(keep)
	for _, k := range slices.Compact(keep) {
		c.emit(first+k, c.rows[k], false)
	}
}
