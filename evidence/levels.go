package evidence

import "math"

// Level is what a device held during a slot of time.
type Level struct {
	Micros    float64 // at which the slot begins
	Low, High int64   // bytes allocated at least and at most
	Reserved  int64   // at most; negative where the trace doesn't carry it
}

// Levels is a curve of bounded length: slots of equal time that double when
// the events reach beyond the last one.
type Levels struct {
	Width float64 // of a slot, in microseconds
	Slots []Level // those in which something happened, in order of time
	// Relative tells that Low and High count from the first event: traces
	// before PyTorch 1.11 carry no totals.
	Relative bool

	sum int64 // of the sizes of all events so far
}

const (
	levelSlots = 2048
	levelWidth = 16 // microseconds, at first
	// farthestMicros is the year 5000, in microseconds since 1970.
	farthestMicros = 1e17
)

// Add takes the next event.
func (l *Levels) Add(e *MemoryEvent) {
	l.sum += e.Bytes
	if math.Abs(e.Micros) > farthestMicros || math.IsNaN(e.Micros) {
		return // a time that no slot is wide enough for
	}
	level := e.TotalAllocated
	if level < 0 {
		l.Relative = true
		level = l.sum
	}
	if l.Width == 0 {
		l.Width = levelWidth
	}
	n := len(l.Slots)
	if n > 0 && e.Micros < l.Slots[n-1].Micros+l.Width { // threads may be a little out of order
		s := &l.Slots[n-1]
		s.Low, s.High, s.Reserved = min(s.Low, level), max(s.High, level), max(s.Reserved, e.TotalReserved)
		return
	}
	l.Slots = append(l.Slots, Level{Micros: e.Micros, Low: level, High: level, Reserved: e.TotalReserved})
	for len(l.Slots) == levelSlots {
		l.Width *= 2
		l.merge()
	}
}

// merge joins slots that are now less than a width apart.
func (l *Levels) merge() {
	kept := l.Slots[:1]
	for _, s := range l.Slots[1:] {
		last := &kept[len(kept)-1]
		if s.Micros < last.Micros+l.Width {
			last.Low, last.High, last.Reserved = min(last.Low, s.Low), max(last.High, s.High), max(last.Reserved, s.Reserved)
			continue
		}
		kept = append(kept, s)
	}
	l.Slots = kept
}
