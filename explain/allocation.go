package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func (a *asking) allocation(text string) error {
	n, err := number(text, a.T.Len(), "allocation")
	if err != nil {
		return err
	}
	id := timeline.AllocationID(n)
	x := &Allocation{Brief: a.brief(id), Signal: a.Classes.Signal[id].String(), Detail: textOrNil(a.Classes.Detail[id].String()),
		FreeCompleted: eventOrNil(a.T.Freed[id]), AtFailures: []int{},
		AtPeak: a.T.AliveAt(id, a.T.Peaks.Allocated.Event), AtEnd: a.T.Outlives(id), HasStack: a.T.Stack(id) != 0,
		FreedBeforeRecord: a.T.FreeRequested[id] == timeline.Before, ForwardStack: []Frame{}, FreedBy: []Frame{}}
	if rule := a.Classes.Rule[id]; rule > 0 {
		x.Rule, x.Reason = new(classify.RuleID(rule)), new(classify.RuleReason(rule))
	}
	if a.Classes.Name != nil && a.Classes.Name[id] != 0 {
		x.Name = new(clip(a.Classes.Names[a.Classes.Name[id]]))
	}
	for i := range a.dev.OOMs {
		if a.T.AliveAt(id, a.dev.OOMs[i].Event) && len(x.AtFailures) < maxFound {
			x.AtFailures = append(x.AtFailures, i)
		}
	}
	x.Leak, x.Holders = a.leakOf(id), a.holdersOf(id)
	a.recorded(x, id)
	x.SameSite = a.group(a.all(func(other timeline.AllocationID) bool {
		return a.T.Stack(other) == a.T.Stack(id) && (x.HasStack || a.T.Requested(other) == x.Requested)
	}))
	moment, event := "peak", a.T.Peaks.Allocated.Event
	if !x.AtPeak {
		if moment, event = "birth", a.T.BornAt(id); x.AtEnd {
			moment, event = "end", a.T.Device.Events.Len()-1
		}
	}
	x.Segment = a.neighbors(x.Address, event, moment, id)
	a.doc.Allocation = x
	a.doc.Answer = a.allocationText(x)
	a.afterAllocation(x, id)
	return nil
}

// holdersOf are the variables that hold an allocation, where recorded.
func (a *asking) holdersOf(id timeline.AllocationID) []string {
	paths := []string{}
	for _, h := range a.Holders {
		if len(paths) < maxFound && (slices.Contains(h.Tensors, id) || slices.Contains(h.Graph, id)) {
			paths = append(paths, clip(h.Path))
		}
	}
	return paths
}

// leakOf is the leak that an allocation is part of.
func (a *asking) leakOf(id timeline.AllocationID) *int {
	for i, l := range a.Classes.Leaks() {
		if _, ok := slices.BinarySearch(l.Allocations, id); ok && i < len(a.dev.Leaks) {
			return &i
		}
	}
	return nil
}

// recorded takes over what the trace has of an allocation's birth and death.
func (a *asking) recorded(x *Allocation, id timeline.AllocationID) {
	s, e := a.T.Snapshot, &a.T.Device.Events
	x.Stream = s.Streams[a.T.Stream(id)]
	x.Stack, x.StackRest = a.stack(a.T.Stack(id))
	if x.HasStack {
		if site := a.siteOf(id); site.CalledFrom != nil {
			x.CalledFrom = new(facts.PlaceText(site.CalledFrom))
		}
	}
	x.Pool = poolText(s, 0)
	if x.AllocEvent != nil {
		born := *x.AllocEvent
		x.Pool = poolText(s, e.PoolOf(born))
		x.UserMetadata = textOrNil(clip(s.String(e.MetadataOf(born))))
		x.CompileContext = textOrNil(clip(s.String(e.CompileContextOf(born))))
		x.BornMicros = micros(e, born)
		x.ForwardStack, _ = a.stack(e.ForwardStackOf(born))
	}
	if x.FreeEvent != nil {
		x.FreedMicros = micros(e, *x.FreeEvent)
		x.FreedBy, _ = a.stack(e.StackOf(*x.FreeEvent))
		_, x.FreedIn = a.spot(*x.FreeEvent)
	}
}

func micros(e *snapshot.Events, event int) *int64 {
	if at := e.TimeOf(event); at > 0 {
		return &at
	}
	return nil
}

func poolText(s *snapshot.Snapshot, pool uint32) string {
	if int(pool) >= len(s.Pools) {
		return "(0, 0)"
	}
	return fmt.Sprintf("(%d, %d)", s.Pools[pool][0], s.Pools[pool][1])
}

// sureness is a word before a category that isn't sure.
func sureness(confidence float64) string {
	switch {
	case confidence >= 0.9:
		return ""
	case confidence >= 0.7:
		return "probably "
	}
	return "perhaps "
}

func (a *asking) allocationText(x *Allocation) string {
	name, end := "", "It is alive at the end of the recording."
	if x.Name != nil {
		name = " (" + *x.Name + ")"
	}
	switch {
	case x.FreedBeforeRecord:
		end = "Its free was requested before the recording."
	case x.FreedIn != nil:
		end = fmt.Sprintf("It was freed at event %s in step %d.", units.Count(*x.FreeEvent), *x.FreedIn)
	case x.FreeEvent != nil:
		end = fmt.Sprintf("It was freed at event %s.", units.Count(*x.FreeEvent))
	}
	return fmt.Sprintf("Allocation %s: %s%s, made %s. %s", units.Count(x.Allocation), ofCategory(&x.Brief), name,
		madeText(&x.Brief), end)
}

// ofCategory is how much an allocation is of what.
func ofCategory(x *Brief) string {
	return units.Bytes(x.Allocated) + " of " + sureness(x.Confidence) + report.CategoryWords(x.Category)
}

// madeText says when and where an allocation was made.
func madeText(x *Brief) string {
	when := "before the recording"
	if x.AllocEvent != nil {
		when = fmt.Sprintf("at event %s in %s", units.Count(*x.AllocEvent), report.PhaseText[x.Phase])
		if x.Step >= 0 {
			when += " of step " + strconv.Itoa(x.Step)
		}
		if x.At != "" && !strings.HasPrefix(x.At, "no ") {
			when += " by " + x.At
		}
	}
	return when
}

func (a *asking) afterAllocation(x *Allocation, id timeline.AllocationID) {
	if x.HasStack {
		a.nextSite(new(a.siteOf(id)), "all that the line allocates")
	}
	if x.Leak != nil {
		a.next("leak", *x.Leak, "the leak that this allocation is part of")
	}
	if x.Rule != nil {
		a.next("rule", *x.Rule, "what else this rule decided")
	}
	a.next("category", x.Category, "all "+report.CategoryWords(x.Category))
	if x.Segment != nil && len(x.Segment.Others) > 0 {
		a.next("allocation", x.Segment.Others[0].Allocation, "the largest other block of the segment")
	}
	if x.FreeEvent != nil {
		a.next("event", *x.FreeEvent, "the moment of its free")
	}
}

func (a *asking) address(text string) error {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	at, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return fmt.Errorf("not a hexadecimal address")
	}
	uses := a.all(func(id timeline.AllocationID) bool {
		begin := a.T.Address(id)
		return at >= begin && at-begin < uint64(max(a.T.Allocated[id], 1))
	})
	slices.Reverse(uses)
	x := &Address{Address: at}
	x.Uses, x.Rest = a.listed(uses)
	if x.Segment = a.neighbors(at, a.T.Device.Events.Len()-1, "end", timeline.NoAllocation); x.Segment == nil {
		x.Segment = a.neighbors(at, a.T.Peaks.Allocated.Event, "peak", timeline.NoAllocation)
	}
	if len(uses) == 0 && x.Segment == nil {
		return fmt.Errorf("no block and no segment of device %d ever lay there, as far as recorded", a.dev.Device)
	}
	a.doc.Address = x
	a.doc.Answer = fmt.Sprintf("Address 0x%x: %s had it", at, units.Plural(len(uses), "allocation"))
	if len(uses) > 0 {
		last := &x.Uses[0]
		a.doc.Answer += fmt.Sprintf("; the last was allocation %s, %s, made %s", units.Count(last.Allocation), ofCategory(last),
			madeText(last))
	}
	a.doc.Answer += "."
	for i := range x.Uses[:min(3, len(x.Uses))] {
		a.next("allocation", x.Uses[i].Allocation, "its life, stack and reason")
	}
	return nil
}
