package facts

import (
	"cmp"
	"slices"

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
	h := &report.HostMemory{Segments: len(d.Segments), Events: d.Events.Len(), PeakBytes: t.Peaks.Allocated.Bytes,
		Allocations: t.Len(), Sites: hostSites(t), Curve: CurveOf(t)}
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

// hostSites are the lines that pinned what was in use at the peak.
func hostSites(t *timeline.Timeline) []report.Site {
	type key struct {
		site         frames.Site
		known, older bool
	}
	sums := map[key]*Tally{}
	view := frames.New(t.Snapshot)
	for id := range timeline.AllocationID(t.Len()) {
		if !t.AliveAt(id, t.Peaks.Allocated.Event) {
			continue
		}
		k := key{older: t.Born[id] == timeline.Never}
		if stack := t.Stack(id); stack != 0 {
			k = key{site: view.Site(stack), known: true}
		}
		if sums[k] == nil {
			sums[k] = &Tally{}
		}
		sums[k].Add(t.Allocated[id])
	}
	sites := []report.Site{}
	for k, sum := range sums {
		site := SiteOf(SiteKey{Site: k.site, Known: k.known, Older: k.older})
		site.Category, site.Bytes, site.Blocks, site.Largest = nil, sum.Bytes, sum.Blocks, sum.Largest
		sites = append(sites, site)
	}
	line := func(s *report.Site) int {
		if s.Line == nil {
			return 0
		}
		return *s.Line
	}
	slices.SortFunc(sites, func(a, b report.Site) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(line(&a), line(&b)),
			cmp.Compare(a.Function, b.Function), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Blocks, b.Blocks))
	})
	return sites[:min(len(sites), maxHostSites)]
}
