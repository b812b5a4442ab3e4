package timeline

import (
	"fmt"

	"github.com/vramscope/vramscope/snapshot"
)

// History says how much of the device's life the recording covers.
type History uint8

// The four cases.
const (
	Complete   History = iota // from the process's first allocation on
	Overflowed                // the ring buffer dropped its oldest events
	Late                      // recording began after the first allocations
	None                      // no allocation or free was recorded
)

// String is the word of the JSON report.
func (h History) String() string { return [...]string{"complete", "overflowed", "late", "none"}[h] }

// judgeHistory tells what the recording covers, and by which signs.
func (t *Timeline) judgeHistory() {
	if t.counts[snapshot.Alloc]+t.counts[snapshot.FreeRequested]+t.counts[snapshot.FreeCompleted] == 0 {
		t.History, t.Reason = None, t.whyNone()
		return
	}
	// A ring of one entry is what enabled="state", and the recorder of old by
	// default, leave behind: an event, but no history.
	if t.counts[snapshot.Alloc] == 0 && t.Device.Events.Len() == 1 {
		t.History, t.Reason = None, "only the very last event was kept: enabled=\"state\" or max_entries=1 was used"
		if len(t.Snapshot.Histories) > 0 {
			t.Reason = t.whyNone()
		}
		return
	}
	if sign := t.overflowSign(); sign != "" {
		t.History, t.Reason = Overflowed, "the ring buffer was full and dropped its oldest events: "+sign
		return
	}
	switch {
	case len(t.older) == 1:
		t.History, t.Reason = Late, "one block was allocated before the first event"
	case len(t.older) > 1:
		t.History, t.Reason = Late, fmt.Sprintf("%d blocks were allocated before the first event", len(t.older))
	case t.Start.Reserved > 0:
		t.History, t.Reason = Late, "memory was reserved before the first event, though none of it was in use"
	default:
		t.History, t.Reason = Complete, "nothing was reserved before the first event"
	}
	if t.Snapshot.Cut >= 0 {
		t.History, t.Reason = Late,
			fmt.Sprintf("the file ends at offset %d: events up to there, and not the state that they led to", t.Snapshot.Cut)
	}
}

// overflowSign is what shows that older events were dropped, "" when nothing does.
// The first sign that is there is told.
func (t *Timeline) overflowSign() string {
	d, e := t.Device, &t.Device.Events
	switch {
	case d.Overflowed == snapshot.Yes:
		return "the recorder says so"
	case d.Overflowed == snapshot.No:
		return ""
	case len(t.older) == 0 && t.Start.Reserved == 0:
		return ""
	case d.TraceMax > 0 && int64(e.Len()) >= d.TraceMax:
		return fmt.Sprintf("it holds max_entries = %d events", d.TraceMax)
	}
	recorded := 0
	for _, o := range t.older {
		if o.sizeKnown && o.stack != 0 {
			recorded++
		}
	}
	// One or two such blocks are left by a recording that was switched on twice.
	if recorded > 2 && 20*recorded > len(t.older) {
		return fmt.Sprintf("%d blocks have a recorded stack but no event", recorded)
	}
	if e.Action[0] == snapshot.FreeCompleted && t.counts[snapshot.FreeRequested] > 0 && e.Len() > 1 &&
		e.Action[1] != snapshot.FreeCompleted {
		return "it begins in the middle of a free"
	}
	if name := t.annotatedBefore(); name != "" {
		return fmt.Sprintf("%q was run more than once before the first event", name)
	}
	if n := e.Len(); n >= 1000 && n%1000 == 0 || n >= 1024 && n&(n-1) == 0 {
		return fmt.Sprintf("it holds exactly %d events", n)
	}
	return ""
}

// annotatedBefore is a range that was entered twice before the first event: a
// step of training that left no event was dropped.
func (t *Timeline) annotatedBefore() string {
	first := t.Device.Events.TimeOf(0)
	if first == 0 {
		return ""
	}
	seen := map[snapshot.StringID]bool{}
	for _, a := range t.Snapshot.Annotations {
		if !a.Start || a.TimeUS >= first || a.Device != t.Device.Ordinal {
			continue
		}
		if seen[a.Name] {
			return t.Snapshot.String(a.Name)
		}
		seen[a.Name] = true
	}
	return ""
}

// unended tells of events that a file's end cuts off: its segments are of a later
// moment than the last event that is left.
func (t *Timeline) unended() bool { return t.Snapshot.Cut >= 0 && t.Device.Events.Len() > 0 }

// whyNone tells the ways apart in which a recording ends up without history.
func (t *Timeline) whyNone() string {
	stacks := 0
	for _, o := range t.older {
		if o.stack != 0 {
			stacks++
		}
	}
	switch {
	case t.Device.Unpaired > 0:
		return "skip_actions left out the allocations, or all frees: nobody knows how long a block was held"
	case t.Snapshot.BareSegments:
		return "this is the list of torch.cuda.memory_snapshot(), which holds no events"
	case t.Snapshot.Cut >= 0:
		return fmt.Sprintf("the file ends at offset %d, before the first event of this device", t.Snapshot.Cut)
	case len(t.Snapshot.Histories) > 0 && !t.Snapshot.HasTraces:
		return "PyTorch before 2.0 recorded no events, only the last uses of each block"
	case !t.Snapshot.HasTraces:
		return "the file has no traces: it was made with include_traces=False, or by a tool that left them out"
	case len(t.Snapshot.Histories) > 0:
		return "PyTorch up to 2.0 kept only the last uses of each block unless trace_alloc_max_entries was raised"
	case stacks > 0:
		return "no event is left although blocks have stacks: recording was switched off before the dump (which clears the " +
			"events), or enabled=\"state\" was used"
	case t.Device.Events.Len() > 0:
		return "recording was on, but kept no allocation and no free: none happened meanwhile, or only the very last events " +
			"were kept"
	}
	return "recording was never switched on, or it was switched off before the dump, which clears the events"
}
