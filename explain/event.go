package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func (a *asking) event(text string) error {
	e := &a.T.Device.Events
	n, err := number(text, e.Len(), "event")
	if err != nil {
		return err
	}
	s := a.T.Snapshot
	x := &Event{Event: n, Action: s.ActionName(e.Action[n]), Address: e.Address[n], Bytes: e.Size[n], Micros: micros(e, n),
		Stream: s.Streams[e.StreamOf(n)], Pool: poolText(s, e.PoolOf(n)), Around: []Entry{}}
	x.Phase, x.Step = a.spot(n)
	x.RestsOn = []Resting{}
	if span, _ := a.Classes.SpanAt(n); span != nil {
		x.RestsOn = restsOn([]classify.PhaseSpan{*span})
	}
	x.Moment = a.moment(n)
	x.ForwardStack, _ = a.stack(e.ForwardStackOf(n))
	x.UserMetadata = textOrNil(clip(s.String(e.MetadataOf(n))))
	x.CompileContext = textOrNil(clip(s.String(e.CompileContextOf(n))))
	x.InternalMetadata = textOrNil(clip(s.String(e.InternalOf(n))))
	if id := a.T.Of[n]; id != timeline.NoAllocation {
		x.Allocation = new(a.brief(id))
	}
	for i := range a.dev.OOMs {
		if a.dev.OOMs[i].Event == n {
			x.OOM = &i
		}
	}
	for _, bytes := range x.Categories {
		x.Allocated += bytes
	}
	for _, segment := range a.T.LayoutAt(n).Segments {
		x.Reserved += segment.Bytes
	}
	for i := max(0, n-maxAround); i <= min(e.Len()-1, n+maxAround); i++ {
		x.Around = append(x.Around, a.entry(i))
	}
	a.doc.Event = x
	a.doc.Answer = a.eventText(x)
	a.afterEvent(x)
	return nil
}

func (a *asking) moment(event int) (m Moment) {
	m.Categories, m.Sites, m.SitesRest = a.sitesAt(event, all)
	m.Stack, m.StackRest = a.stack(a.T.Device.Events.StackOf(event))
	return m
}

// entry is an event in a list.
func (a *asking) entry(event int) Entry {
	e := &a.T.Device.Events
	x := Entry{Event: event, Action: a.T.Snapshot.ActionName(e.Action[event]), Bytes: e.Size[event]}
	if id := a.T.Of[event]; id != timeline.NoAllocation {
		x.Allocation = new(int(id))
	}
	if stack := e.StackOf(event); stack != 0 {
		x.At = at(new(short(facts.SiteOf(facts.SiteKey{Site: a.View.Site(stack), Known: true}))))
	}
	return x
}

var actionText = map[snapshot.Action]string{snapshot.Alloc: "an allocation", snapshot.FreeRequested: "a free is requested",
	snapshot.FreeCompleted: "a free is completed", snapshot.SegmentAlloc: "a segment is taken from the driver",
	snapshot.SegmentFree: "a segment goes back to the driver", snapshot.SegmentMap: "memory is mapped into a segment",
	snapshot.SegmentUnmap: "memory of a segment is unmapped", snapshot.OOM: "a request fails",
	snapshot.SnapshotTaken: "a snapshot is taken"}

func (a *asking) eventText(x *Event) string {
	what := actionText[a.T.Device.Events.Action[x.Event]]
	if what == "" {
		what = clip(x.Action)
	}
	if x.Bytes > 0 {
		what += " (" + units.Bytes(x.Bytes) + ")"
	}
	if x.Phase != nil {
		what += " in " + report.PhaseText[*x.Phase]
	}
	if x.Step != nil {
		what += fmt.Sprintf(" of step %d", *x.Step)
	}
	return fmt.Sprintf("Event %s: %s. %s are allocated then, %s reserved.", units.Count(x.Event), what,
		units.Bytes(x.Allocated), units.Bytes(x.Reserved))
}

func (a *asking) afterEvent(x *Event) {
	if x.OOM != nil {
		a.next("oom", *x.OOM, "why the request failed")
	}
	if x.Allocation != nil {
		a.next("allocation", x.Allocation.Allocation, "the allocation that the event is about")
	}
	if x.Step != nil {
		a.next("step", *x.Step, "the step that the event lies in")
	}
	a.largestSite(x.Sites, "the line that holds most then")
}

// largestSite asks for the line that holds most.
func (a *asking) largestSite(sites []report.Site, why string) {
	for i := range sites {
		if sites[i].Known && sites[i].File != "" {
			a.nextSite(&sites[i], why)
			return
		}
	}
}

func (a *asking) oom(text string) error {
	n, err := number(text, len(a.dev.OOMs), "failed request")
	if err != nil {
		return err
	}
	x := &OOM{Index: n, OOM: a.dev.OOMs[n], Moment: a.moment(a.dev.OOMs[n].Event), Findings: []string{}}
	_, x.Step = a.spot(x.Event)
	for _, s := range a.T.LayoutAt(x.Event).Segments {
		for _, b := range s.Blocks {
			if b.Pending {
				x.Pending += b.Bytes
			}
		}
	}
	x.PinnedBy, _ = first(x.PinnedBy, maxBriefs)
	for i := range a.dev.Findings {
		if f := &a.dev.Findings[i]; strings.HasPrefix(f.ID, "oom_") && !slices.Contains(x.Findings, f.ID) {
			x.Findings = append(x.Findings, f.ID)
			a.next("finding", f.ID, "the judgement, its evidence and its change")
		}
	}
	a.doc.OOM = x
	a.doc.Answer = fmt.Sprintf("Request %d failed at event %s: %s were asked for (%s). %s were allocated, %s reserved.", x.Index,
		units.Count(x.Event), units.Bytes(x.RequestedBytes), x.Why(), units.Bytes(x.AllocatedBytes),
		units.Bytes(x.ReservedBytes))
	if x.Site != nil {
		a.nextSite(x.Site, "the line that asked")
	}
	a.largestSite(x.Sites, "the line that holds most then")
	if c := largest(x.Categories); c != "" {
		a.next("category", c, "what holds most")
	}
	a.next("event", x.Event, "the events around the failure")
	if x.Step != nil {
		a.next("step", *x.Step, "the step that it failed in")
	}
	return nil
}

// largest is the category with most bytes, "" where there is none.
func largest(categories map[string]int64) string {
	most := ""
	for _, c := range report.Categories {
		if categories[c] > categories[most] {
			most = c
		}
	}
	return most
}
