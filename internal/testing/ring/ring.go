// Package ring makes of a whole recording what a recorder with too small a ring
// buffer would have kept. It serves tests.
package ring

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
)

// Overflow drops the first part of every device's events, of 1, in place. Blocks
// and their stacks stay, as they do in the allocator.
func Overflow(s *snapshot.Snapshot, part float64) {
	for i := range s.Devices {
		Drop(&s.Devices[i], int(part*float64(s.Devices[i].Events.Len())))
	}
}

// Drop drops a device's first n events, in place.
func Drop(d *snapshot.Device, n int) {
	d.Events = d.Events.Slice(n, d.Events.Len())
	d.OOMs = slices.DeleteFunc(d.OOMs, func(o snapshot.OutOfMemory) bool { return o.Event < n })
	for i := range d.OOMs {
		d.OOMs[i].Event -= n
	}
}
