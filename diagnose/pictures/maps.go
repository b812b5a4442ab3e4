package pictures

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

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
