package timeline

// Instant is a point of the four curves: what they are right after an event.
type Instant struct {
	Event int // NoEvent: before the first event
	Levels
}

// Stretch is a part of the recording: its first instant, and the first of those
// at which allocated and reserved memory were largest.
type Stretch struct {
	First, High, Wide Instant
	End               int // the event after its last one
}

// stretches is into about how many a recording is cut.
const stretches = 500

// thinning takes the curves as they are walked.
type thinning struct {
	Stretch
	done         []Stretch
	events       int // of the recording
	length, next int // events of a stretch; the first event of the next one
}

func newThinning(events int) *thinning {
	return &thinning{events: events, length: max(1, (events+stretches-1)/stretches)}
}

// take sees one event: the first of a stretch, or one that is higher than those
// before it. All others may be passed over.
func (c *thinning) take(now Instant) {
	if now.Event >= c.next {
		c.flush()
		c.next += c.length
		c.Stretch = Stretch{now, now, now, min(c.next, c.events)}
		return
	}
	if now.Allocated > c.High.Allocated {
		c.High = now
	}
	if now.Reserved > c.Wide.Reserved {
		c.Wide = now
	}
}

func (c *thinning) flush() {
	if c.next > 0 {
		c.done = append(c.done, c.Stretch)
	}
}

// Curve is the four quantities over the recording, thinned out.
func (t *Timeline) Curve() []Instant {
	out := []Instant{{NoEvent, t.Start}}
	add := func(p Instant) {
		if p.Event != out[len(out)-1].Event {
			out = append(out, p)
		}
	}
	for _, s := range t.Stretches {
		add(s.First)
		if s.High.Event < s.Wide.Event {
			add(s.High)
			add(s.Wide)
		} else {
			add(s.Wide)
			add(s.High)
		}
	}
	add(Instant{t.Device.Events.Len() - 1, t.End})
	return out
}
