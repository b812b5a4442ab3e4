package timeline

// Instant is a point of the four curves: what they are right after an event.
type Instant struct {
	Event int // NoEvent: before the first event
	Levels
}

// curvePoints is about how many instants the curves are thinned out to.
const curvePoints = 1500

// thinning keeps of each stretch of events its first one and those at which
// allocated and reserved memory were largest.
type thinning struct {
	kept              []Instant
	stretch, next     int // events; the first event of the next stretch
	first, high, wide Instant
}

func newThinning(events int, start Levels) *thinning {
	const stretches = curvePoints / 3
	return &thinning{kept: []Instant{{NoEvent, start}}, stretch: max(1, (events+stretches-1)/stretches),
		first: Instant{Event: NoEvent}, high: Instant{Event: NoEvent}, wide: Instant{Event: NoEvent}}
}

// take sees one event: the first of a stretch, or one that is higher than those
// before it. All others may be passed over.
func (c *thinning) take(now Instant) {
	if now.Event >= c.next {
		c.flush()
		c.first, c.high, c.wide = now, now, now
		c.next += c.stretch
		return
	}
	if now.Allocated > c.high.Allocated {
		c.high = now
	}
	if now.Reserved > c.wide.Reserved {
		c.wide = now
	}
}

func (c *thinning) flush() {
	a, b := c.high, c.wide
	if a.Event > b.Event {
		a, b = b, a
	}
	c.keep(c.first)
	c.keep(a)
	c.keep(b)
}

func (c *thinning) keep(p Instant) {
	if p.Event != c.kept[len(c.kept)-1].Event {
		c.kept = append(c.kept, p)
	}
}

// curve is what was kept, up to the last event.
func (c *thinning) curve(last Instant) []Instant {
	c.flush()
	c.keep(last)
	return c.kept
}
