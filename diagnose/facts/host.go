package facts

import (
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// HostOf sums up the pinned memory of the host.
func HostOf(s *snapshot.Snapshot, d *snapshot.Device) *report.HostMemory {
	t := timeline.New(s, d)
	h := &report.HostMemory{Segments: len(d.Segments), Events: d.Events.Len(), PeakBytes: t.Peaks.Allocated.Bytes}
	for _, g := range d.Segments {
		h.Bytes += g.TotalSize
		for _, b := range g.Blocks {
			if b.State != snapshot.Inactive {
				h.Used += b.Size
			}
		}
	}
	return h
}
