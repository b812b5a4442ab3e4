package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// maxLayoutBlocks bounds the blocks of one segment map.
const maxLayoutBlocks = 200_000

// layouts are where everything lies at the end, at the peak, and at the last
// failed request.
func (p *picture) layouts(dev *report.Device) {
	end := p.out.Events - 1
	moments := []report.Layout{{Name: "end", Event: end}}
	if dev.AtPeak.Event != nil && *dev.AtPeak.Event != end {
		moments = append(moments, report.Layout{Name: "peak", Event: *dev.AtPeak.Event})
	}
	if n := len(dev.OOMs); n > 0 {
		moments = append(moments, report.Layout{Name: "oom", Event: dev.OOMs[n-1].Event})
	}
	for _, m := range moments {
		l := p.T.LayoutAt(m.Event)
		blocks := 0
		for _, s := range l.Segments {
			blocks += len(s.Blocks)
		}
		if blocks == 0 || blocks > maxLayoutBlocks {
			continue
		}
		for _, s := range l.Segments {
			m.Segments = append(m.Segments, p.segment(&s))
		}
		p.out.Maps = append(p.out.Maps, m)
	}
}

func (p *picture) segment(s *timeline.Segment) report.LayoutSegment {
	out := report.LayoutSegment{Address: s.Address, Bytes: s.Bytes, Small: s.Small, Expandable: s.Expandable,
		Blocks: make([]report.LayoutBlock, 0, len(s.Blocks))}
	if s.Pool != 0 {
		id := p.T.Snapshot.Pools[s.Pool]
		out.Pool = fmt.Sprintf("(%d, %d)", id[0], id[1])
	}
	for _, b := range s.Blocks {
		block := report.LayoutBlock{Bytes: b.Bytes}
		if b.Allocation != timeline.NoAllocation {
			block.State = report.BlockUsed
			if b.Pending {
				block.State = report.BlockPending
			}
			block.Allocation, block.Kind = uint32(b.Allocation), p.kind(int(b.Allocation))
			block.Stack = p.stacks.index(p.stackOf(int(b.Allocation)))
		}
		out.Blocks = append(out.Blocks, block)
	}
	return out
}

// maxSpans bounds the named ranges of a page; the longest stay.
const maxSpans = 300

// spans are the ranges that the program annotated, on the axis of events.
func (p *picture) spans() {
	e := &p.T.Device.Events
	if e.TimeUS == nil || e.Len() == 0 {
		return
	}
	at := func(us int64) int { return sort.Search(e.Len(), func(i int) bool { return e.TimeUS[i] >= us }) }
	open := map[snapshot.StringID][]int{}
	var spans []report.Span
	for _, a := range p.T.Snapshot.Annotations {
		if a.Device != p.T.Device.Ordinal {
			continue
		}
		started := open[a.Name]
		switch {
		case a.Start:
			open[a.Name] = append(started, len(spans))
			spans = append(spans, report.Span{Name: shorten(p.T.Snapshot.String(a.Name)), FirstEvent: at(a.TimeUS),
				LastEvent: e.Len() - 1})
		case len(started) > 0:
			s := &spans[started[len(started)-1]]
			s.LastEvent = max(s.FirstEvent, at(a.TimeUS)-1)
			open[a.Name] = started[:len(started)-1]
		}
	}
	spans = slices.DeleteFunc(spans, func(s report.Span) bool { return s.FirstEvent >= e.Len() })
	slices.SortStableFunc(spans, func(a, b report.Span) int {
		return cmp.Compare(b.LastEvent-b.FirstEvent,
			a.LastEvent-a.FirstEvent)
	})
	spans = spans[:min(len(spans), maxSpans)]
	slices.SortStableFunc(spans, func(a, b report.Span) int { return cmp.Compare(a.FirstEvent, b.FirstEvent) })
	p.out.Spans = spans
}

// growth sums up by call site what was made in the loop and outlived each step.
func (p *picture) growth(dev *report.Device) {
	if len(dev.Steps) < 2 {
		return
	}
	every := (len(dev.Steps) + growthSteps - 1) / growthSteps
	g := &report.Growth{}
	var ends []int
	for i := 0; i < len(dev.Steps); i += every {
		g.Steps = append(g.Steps, dev.Steps[i].Step)
		ends = append(ends, dev.Steps[i].LastEvent)
	}
	loop := dev.Steps[0].FirstEvent
	after := make(map[int][]int64)
	for id := range p.T.Born {
		born, died := p.lifetime(id)
		if born < loop {
			continue
		}
		from, to := sort.SearchInts(ends, born), sort.SearchInts(ends, died)
		if from == to {
			continue
		}
		site := p.stacks.site(p.stackOf(id))
		if after[site] == nil {
			after[site] = make([]int64, len(ends)+1)
		}
		after[site][from] += p.T.Allocated[id]
		after[site][to] -= p.T.Allocated[id]
	}
	var sites []int
	for site, levels := range after {
		for k := 1; k < len(levels); k++ {
			levels[k] += levels[k-1]
		}
		sites = append(sites, site)
	}
	last := len(ends) - 1
	grown := func(site int) int64 { return after[site][last] - after[site][0] }
	slices.SortFunc(sites, func(a, b int) int {
		return cmp.Or(cmp.Compare(grown(b), grown(a)), cmp.Compare(after[b][last], after[a][last]), cmp.Compare(a, b))
	})
	others := make([]int64, len(ends))
	for i, site := range sites {
		if i < growthSites && site >= 0 {
			g.Sites = append(g.Sites, site)
			g.Bytes = append(g.Bytes, after[site][:len(ends)])
			continue
		}
		for k := range others {
			others[k] += after[site][k]
		}
	}
	g.Sites, g.Bytes = append(g.Sites, -1), append(g.Bytes, others)
	p.out.Growth = g
}
