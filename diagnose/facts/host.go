package facts

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// maxHostSites bounds the call sites of pinned memory.
const maxHostSites = 20

// HostOf sums up the pinned memory of the host.
func HostOf(s *snapshot.Snapshot, d *snapshot.Device) *report.HostMemory {
	t := timeline.New(s, d)
	unclassified := &classify.Classification{Result: &meaning.Result{Category: make([]classify.Category, t.Len()),
		Rule: make([]uint8, t.Len())}}
	sites, _, _ := New(t, unclassified, frames.New(s), nil).SitesAt(t.Peaks.Allocated.Event)
	for i := range sites {
		sites[i].Category = nil
	}
	h := &report.HostMemory{Segments: len(d.Segments), Events: d.Events.Len(), PeakBytes: t.Peaks.Allocated.Bytes,
		Allocations: t.Len(), Sites: sites[:min(len(sites), maxHostSites)], Curve: CurveOf(t)}
	if peak := t.Peaks.Allocated.Event; peak >= 0 {
		h.PeakEvent = &peak
	}
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
