package checks

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// Each kind of failed request is explained once.
var oomTrueShortage = Check{
	ID: "oom_true_shortage", Group: failed, Severity: "critical",
	Doc: "A request failed, and what was in use together with what the program still needed exceeds what PyTorch could " +
		"have. What counts is the need of the phase at work, by its earlier steps or, in a first optimizer step, by " +
		"the gradients. Where that isn't known, a request that would have left less than 5 % of the memory counts, " +
		"too.\n\nThe evidence names who asked, in which phase and step, how much was missing, all changes that were " +
		"tried, and whether this step's inputs, or what it needs, are larger than all before. With an unknown capacity " +
		"the confidence is 0.3.\n\nThe change is the one that makes most room by replay, or `torch.no_grad()` where graphs " +
		"are kept that no backward pass uses.",
	Saves: "what the change would have saved of the peak, by replay of the recorded requests.",
	Needs: []facts.Need{facts.ToCome, facts.Phases, facts.Replay, facts.Loss, facts.Projection, facts.Unused, facts.Leaked,
		ownAtPeak, facts.Collected},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			if f.Verdict == report.UnknownVerdict {
				d.Confidence = 0.3
				d.Title = fmt.Sprintf("A request of %s failed; what was left on the device was not recorded", f.what())
				d.Evidence = append(d.Evidence, facts.MostOf(p.Dev)...)
				d.advise("capacity")
				return
			}
			f.shortage(d)
			d.Evidence = append(d.Evidence, facts.MostOf(p.Dev)...)
			f.makesRoom(p, d)
			f.heldBesides(d)
		}, report.TrueShortage, report.UnknownVerdict)
	},
}

var oomFragmentation = Check{
	ID: "oom_fragmentation", Group: failed, Severity: "critical",
	Doc: "A request failed although live memory and the request fit together: no free block was large enough. The " +
		"evidence names the blocks that keep segments from being given back, and how much free memory each kind " +
		"pins.\n\nThe change is the allocator setting that meets the request by replay, and what that leaves for the " +
		"rest of the step. A leak is named in its place if it held half of what was in use, or takes in three steps " +
		"what any setting would have left.",
	Needs: []facts.Need{facts.ToCome, facts.Phases, facts.Replay, facts.Loss, facts.Projection, facts.Unused, facts.Leaked},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			d.Title = fmt.Sprintf("Fragmentation: a request of %s failed although %s were free, in pieces that are too small",
				f.what(), units.Bytes(max(0, f.lacked.Usable-f.recorded.Active)))
			d.Evidence = append(d.Evidence, pinnedBy(p, f.recorded)...)
			d.change(advice.Expandable)
			d.Others = tryRemedies(p, f.recorded, f.lacked)
			if f.CacheGrows != nil {
				d.Fix = new(*advice.Text("setting", "setting", advice.Expandable) + UntilCacheFills)
				d.Others = append(d.Others, report.Change{Outcome: report.Outcome{FixID: new("memory.kv_cache")},
					Text: *advice.Text("memory.kv_cache")})
			}
			if leak := LeakFirst(f.OOM); leak != "" {
				d.Fix, d.FixID = new(leak), new("leak=fixed")
			}
			f.summed(p, d)
		}, report.Fragmentation)
	},
}

var oomMemoryFraction = Check{
	ID: "oom_memory_fraction", Group: failed, Severity: "critical",
	Doc: "A request failed although the driver had more left than was asked for: a limit below the size of the device " +
		"refused it, such as `torch.cuda.set_per_process_memory_fraction`. The evidence gives the limit.",
	Needs: []facts.Need{facts.ToCome, facts.Phases, facts.Replay, facts.Loss, facts.Projection, facts.Unused, facts.Leaked},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			d.Title = fmt.Sprintf("A request of %s was refused by a limit below the device's size", f.what())
			if program := facts.Replay.Of(p); program != nil {
				if l := program.Limits(); l.Allowed > 0 {
					f.lacked.Usable = l.Allowed
					d.Others = tryRemedies(p, f.recorded, f.lacked)
					d.Evidence = append(d.Evidence, fmt.Sprintf("the limit is about %s", units.Bytes(l.Allowed)))
				}
			}
			d.Evidence = append(d.Evidence, facts.MostOf(p.Dev)...)
			d.fits("figures", advice.RaiseFraction)
		}, report.MemoryFraction)
	},
}

var oomOtherProcess = Check{
	ID: "oom_other_process", Group: failed, Severity: "critical",
	Doc: "A request failed, and the device lacks more than a CUDA context takes beside PyTorch: other processes hold it. " +
		"Without them the request would have been met.",
	Needs: []facts.Need{facts.ToCome},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			d.Title = fmt.Sprintf("A request of %s failed because other processes hold memory on the same GPU", f.what())
			d.fits("figures", advice.StopOthers, "smi", "nvidia-smi", "visible", "CUDA_VISIBLE_DEVICES")
			if LeakFirst(f.OOM) != "" { // which takes that room, too
				d.Settle(words.MeetsThenFails)
			}
		}, report.OtherProcess)
	},
}

var oomPendingFree = Check{
	ID: "oom_pending_free", Group: failed, Severity: "critical",
	Doc: "A request failed while blocks that the program had freed were still held for another stream " +
		"(`record_stream`): without them it would have fitted. The evidence names the largest of these, their lines " +
		"and their stream.",
	Needs: []facts.Need{facts.ToCome},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			waiting := pendingAt(p, f.recorded.Event)
			d.Title = fmt.Sprintf("A request of %s failed while %s that the program had freed wait for another stream", f.what(),
				units.Bytes(f.recorded.Active-f.recorded.Allocated))
			for _, id := range waiting[:min(len(waiting), 3)] {
				line := "a line that wasn't recorded"
				if stack := p.T.Stack(id); stack != 0 {
					s := facts.SiteOf(facts.SiteKey{Site: p.View.Site(stack), Known: true})
					line = facts.UserLine(&s)
					if d.At == nil {
						d.At = facts.UserPlace(&s)
					}
				}
				d.Evidence = append(d.Evidence, fmt.Sprintf("%s made at %s on stream %d, freed at event %s, still held",
					units.Bytes(p.T.Allocated[id]), line, p.T.Snapshot.Streams[p.T.Stream(id)],
					units.Count(int(p.T.FreeRequested[id]))))
			}
			d.fits("lives", "wait_for_stream")
		}, report.PendingFree)
	},
}

// UntilCacheFills is what becomes of the room that a setting makes where a cache grows.
const UntilCacheFills = ", until keys and values have filled what it gains"

// failure is a request that failed.
type failure struct {
	*report.OOM
	recorded *timeline.OOM
	lacked   facts.Shortage
}

// what is what was asked for.
func (f *failure) what() string { return units.Bytes(f.RequestedBytes) }

// failures are drafts about the first failure with each of some verdicts.
func failures(p *facts.Pass, tell func(*Draft, failure), verdicts ...string) (out []Draft) {
	seen := map[string]bool{}
	for i := range p.Dev.OOMs {
		o := &p.Dev.OOMs[i]
		if seen[o.Verdict] || !slices.Contains(verdicts, o.Verdict) {
			continue
		}
		seen[o.Verdict] = true
		d := Draft{Finding: report.Finding{Severity: report.Critical, Confidence: 0.9, Evidence: []string{asked(p, o),
			roomLeft(o)}}}
		tell(&d, failure{o, &p.T.OOMs[o.Index], p.Shortage(&p.T.OOMs[o.Index])})
		out = append(out, d)
	}
	return out
}

// shortage says how much was missing, and of what.
func (f *failure) shortage(d *Draft) {
	s, active := &f.lacked, units.Bytes(f.recorded.Active)
	switch {
	case s.Still > f.RequestedBytes:
		step, besides := "the rest of the step", ""
		if f.Phase != nil && *f.Phase == classify.Optimizer.String() {
			step, besides = "the optimizer's first step", "; unless it is fused, temporaries come on top"
		}
		d.Title = fmt.Sprintf("True shortage: %s still has to make %s, %s are missing", step, units.Bytes(s.Still),
			units.Bytes(s.Missing))
		if s.Missing == 0 {
			d.Confidence = 0.7
			d.Title = fmt.Sprintf("True shortage: %s still has to make %s, which would leave %s; no setting that was "+
				"replayed carries it on", step, units.Bytes(s.Still), units.Bytes(s.Usable-s.Need(f.recorded)))
		}
		d.Evidence = append(d.Evidence, fmt.Sprintf("the step needs %s in all, of %s that PyTorch could have%s",
			units.Bytes(s.Need(f.recorded)), units.Bytes(s.Usable), besides))
	case s.Missing == 0:
		d.Confidence = 0.7
		d.Title = fmt.Sprintf("True shortage: nearly all is in use, a request of %s would have left %s", f.what(),
			units.Bytes(s.Usable-s.Need(f.recorded)))
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s in use and %s asked for, of %s that PyTorch could have; what is "+
			"free lies in pieces, and an allocator setting that joins them gains no more", active, f.what(),
			units.Bytes(s.Usable)))
	default:
		d.Title = fmt.Sprintf("True shortage: a request of %s found no room, %s are missing", f.what(), units.Bytes(s.Missing))
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s in use and %s asked for, of %s that PyTorch could have: no "+
			"allocator setting helps", active, f.what(), units.Bytes(s.Usable)))
	}
}

// makesRoom says what would have made the room that was missing.
func (f *failure) makesRoom(p *facts.Pass, d *Draft) {
	if f.nothingWould(p, d) || f.sumOfLosses(p, d) {
		return
	}
	last := &p.T.OOMs[len(p.T.OOMs)-1]
	if i := uselessGraphs(p, f.recorded); i >= 0 && len(HeldByAttempt(p, last)) == 0 {
		evaluating(p, d, &p.Dev.Leaks[i], &p.Classes.Leaks()[i])
		return
	}
	f.remedy(p, d)
	f.outlier(p, d)
	if bytes := f.graphs(p); facts.Share(bytes, f.AllocatedBytes) >= 30 && LeakFirst(f.OOM) == "" {
		d.Fix = advice.Text("maybe_no_grad", "bytes", units.Size(bytes), "first", facts.LowerFirst(*d.Fix))
	}
	retried(p, d, f.recorded)
}

// nothingWould advises where no kind of memory is at fault: a request larger than the GPU, an allocator asleep, or what a
// variable holds.
func (f *failure) nothingWould(p *facts.Pass, d *Draft) bool {
	c, id, at := report.Cause{}, "", ""
	if len(f.Causes) > 0 {
		c = f.Causes[0]
	}
	held := ""
	switch {
	case c.Cause == report.TooLarge:
		id, at = "request", f.line(d)
	case c.Cause == report.Sleeping:
		id = "asleep"
	case c.Cause == report.SecondModel && *c.FixID == "loaded_file" && p.Reads(f.recorded.Stack):
		id, d.At = "loaded_file", c.At
		d.falls(f.AllocatedBytes+f.RequestedBytes, f.AllocatedBytes-c.Bytes, "figures")
	case c.Cause == report.HeldCause && 2*c.Most > c.Bytes:
		before := f.AllocatedBytes + f.RequestedBytes
		after := before - c.Most
		if held = *c.Holder; localVariable(held) {
			id = Shown(p, f.recorded)
		}
		if id != "" {
			after -= f.RequestedBytes // it isn't made then, either
		}
		id = cmp.Or(id, report.HeldCause)
		d.falls(before, after, "figures")
	default:
		return false
	}
	d.change(id, "at", at, "held", held)
	return true
}

// heldBesides adds that a variable which lives on holds a quarter of what is in use, or more, where something else holds most.
func (f *failure) heldBesides(d *Draft) {
	const quarter = 4
	for i := 1; i < len(f.Causes); i++ {
		c := &f.Causes[i]
		if c.Cause != report.HeldCause || quarter*c.Most < f.AllocatedBytes || localVariable(*c.Holder) {
			continue
		}
		before := f.AllocatedBytes + f.RequestedBytes
		d.Others = append(d.Others, report.Change{Text: *advice.Text(report.HeldCause, "held", *c.Holder),
			Outcome: report.Outcome{FixID: new(report.HeldCause), PeakBefore: &before, PeakAfter: new(before - c.Most),
				Basis: new("figures")}})
	}
}

// line notes the user's line that asked as the finding's, and gives it as " at …", "" where no stack shows one.
func (f *failure) line(d *Draft) (at string) {
	if f.Site == nil || f.Site.Function == "" {
		return ""
	}
	d.At = facts.UserPlace(f.Site)
	return " at " + facts.UserLine(f.Site)
}

// localVariable reports whether a path is that of a function's own variable, and not of something that lies in another.
func localVariable(path string) bool {
	_, name, ok := strings.Cut(path, "().")
	return ok && !strings.ContainsAny(name, ".[")
}

// graphs is what is saved for a backward pass that nobody saw, 0 where the program trains, or what is there shows that no
// graph was built: it is of few kinds, or variables hold it without one.
func (f *failure) graphs(p *facts.Pass) (bytes int64) {
	if facts.Phases.Of(p).Trains || f.InUse[classify.OptimizerState.String()] > 0 {
		return 0
	}
	var ids []timeline.AllocationID
	for id := range p.Each(classify.Activations) {
		if p.T.AliveAt(id, f.Event) {
			ids = append(ids, id)
			bytes += p.T.Allocated[id]
		}
	}
	if len(ids) == 0 || !p.ManyKinds(ids) || p.HeldAlone(ids) {
		return 0
	}
	return bytes
}

// LeakFirst says to mend the leak that a request failed for, whatever setting would have met it; "" where none did.
func LeakFirst(o *report.OOM) string {
	if len(o.Causes) == 0 || o.Causes[0].Leak == nil {
		return ""
	}
	c, at := &o.Causes[0], ""
	if p := cmp.Or(c.StoredAt, c.At); p != nil {
		at = " at " + facts.PlaceText(p)
	}
	id, each := "leak=fixed.here", ""
	if n := c.Leak.BytesPerStep; n != nil && *n > 0 && !c.Leak.Uneven() {
		id, each = "leak=fixed.grows", units.Size(*n)
	}
	return *advice.Text(id, "at", at, "bytes", units.Size(c.Bytes), "all", units.Size(o.AllocatedBytes), "each", each)
}

// uselessGraphs is the leak that keeps whole graphs, a good part of what was in use,
// of passes that no backward pass follows; -1 for none.
func uselessGraphs(p *facts.Pass, o *timeline.OOM) int {
	const good = 20 // percent
	return slices.IndexFunc(p.Classes.Leaks(), func(l classify.Leak) bool {
		if !p.UnusedGraph(&l) {
			return false
		}
		var there int64
		for _, id := range l.Allocations {
			if p.T.AliveAt(id, o.Event) {
				there += p.T.Allocated[id]
			}
		}
		return !facts.Phases.Of(p).Trains || facts.Share(there, o.Active) >= good
	})
}

// evaluating is about a failure while graphs are kept that no backward pass
// needs.
func evaluating(p *facts.Pass, d *Draft, l *report.Leak, kept *classify.Leak) {
	at := ""
	if l.File != nil {
		at = " around the call in " + facts.LineText(p.CallOf(kept))
	}
	d.advise("missing_no_grad.graphs", "at", at)
	d.FixID, d.Without = new("missing_no_grad"), "without the graphs,"
	if kept.Untrained {
		d.Spells = p.AfterUse(kept.Allocations)
		return
	}
	d.Spells = p.AfterUse(slices.AppendSeq(slices.Collect(p.Each(classify.Activations)), p.Each(classify.Logits)))
}

// outlier says that the step of a failure has a larger batch than all steps before it: that one doesn't fit, others do.
func (f *failure) outlier(p *facts.Pass, d *Draft) {
	o := f.recorded
	x := p.Larger(o)
	what := "this step's are " + facts.Factor(x.Times) + " times as large as any before"
	switch {
	case x.Times == 0, x.Step && LeakFirst(f.OOM) != "":
		return
	case x.Before > 0:
		d.Evidence = append(d.Evidence, fmt.Sprintf("this step's inputs are %.1f times as large as the largest before: %s, in "+
			"%s at most %s", x.Times, units.Bytes(x.Inputs), units.Plural(int(p.StepAt(o.Event)), "step"), units.Bytes(x.Before)))
	case x.Step:
		what = "this step needs " + facts.Factor(x.Times) + " times as much as any before"
		d.Evidence = append(d.Evidence, what)
	default:
		d.Evidence = append(d.Evidence, fmt.Sprintf("what this pass makes is %.1f times as large as in the step before, and "+
			"it needs more than any step did", x.Times))
		what = "what this pass makes is " + facts.Factor(x.Times) + " times as large as in the step before"
	}
	id := "longer_inputs"
	switch {
	case x.Alike: // something else came in, as parts that are trained from now on
		d.Evidence = append(d.Evidence, "this step's inputs are no larger than before")
		return
	case !x.Longer:
		id = "longer_inputs.unknown"
	}
	if d.FixID == nil || !strings.HasPrefix(*d.FixID, "doing.") { // which is about what grows with them
		d.Fix = advice.Text(id, "first", facts.LowerFirst(*d.Fix), "what", what)
	}
}

// HeldByAttempt is what a request that fails finds held of what the attempt of the first one that failed had made, nothing
// where that isn't most of the memory in use, or no attempt followed it.
func HeldByAttempt(p *facts.Pass, o *timeline.OOM) (ids []timeline.AllocationID) {
	const most = 50 // percent
	first := &p.T.OOMs[0]
	if first.Event >= o.Event {
		return nil
	}
	var held int64
	again := false
	for i, bytes := range p.T.Allocated {
		id, born := timeline.AllocationID(i), p.T.Born[i]
		again = again || born != timeline.Never && int(born) > first.Event && int(born) < o.Event
		if phase := p.Classes.Phase[i]; (phase == classify.Forward || phase == classify.Backward) &&
			p.Classes.Category[i] != classify.Gradients && p.T.AliveAt(id, first.Event) && p.T.AliveAt(id, o.Event) {
			held += bytes
			ids = append(ids, id)
		}
	}
	if !again || facts.Share(held, o.Active) < most {
		return nil
	}
	return ids
}

// retried says that a program went on after a failure, and failed again for what the attempt before still held: to let
// go of that comes before all that was weighed so far.
func retried(p *facts.Pass, d *Draft, o *timeline.OOM) {
	last := &p.T.OOMs[len(p.T.OOMs)-1]
	var held int64
	for _, id := range HeldByAttempt(p, last) {
		held += p.T.Allocated[id]
	}
	if held == 0 || o.Event >= last.Event {
		return
	}
	failed := len(p.T.OOMs) - sort.Search(len(p.T.OOMs), func(i int) bool { return p.T.OOMs[i].Event > o.Event })
	d.Evidence = append(d.Evidence, fmt.Sprintf("the program went on, and %s failed, too: %s of what this attempt had made "+
		"were still held then", units.Plural(failed, "more request"), units.Bytes(held)))
	d.Others = append([]report.Change{{Outcome: d.Outcome, Text: *d.Fix, Code: d.Code, At: d.At}}, d.Others...)
	needed := last.Allocated + last.Requested
	d.At, d.Outcome, d.SavesBytes = nil, report.Outcome{}, nil
	d.change(report.KeptException)
	d.falls(needed, needed-held, "lives")
}

// asked says what was asked for, when and by which line.
func asked(p *facts.Pass, o *report.OOM) string {
	text := fmt.Sprintf("event %s: %s asked for", units.Count(o.Event), units.Bytes(o.RequestedBytes))
	if o.Site != nil && (o.Site.Function != "" || o.Site.Op != "") {
		text += " by " + o.Site.Short()
		if o.Site.Function != "" && o.Site.Op != "" {
			text += " (" + o.Site.Op + ")"
		}
		text += facts.CalledFrom(o.Site.CalledFrom)
	}
	if o.Phase != nil {
		text += " in " + report.PhaseText[*o.Phase] + facts.OfStep(p.Dev, o.Event)
	}
	return text
}

func roomLeft(o *report.OOM) string {
	text := fmt.Sprintf("%s allocated, %s reserved", units.Bytes(o.AllocatedBytes), units.Bytes(o.ReservedBytes))
	if o.DeviceFreeBytes != nil {
		text += fmt.Sprintf(", %s left on the device", units.Bytes(*o.DeviceFreeBytes))
	}
	if o.LargestFreeBlock != nil {
		text += fmt.Sprintf("; %s free in PyTorch's cache, the largest block %s", units.Bytes(o.ReservedBytes-o.AllocatedBytes),
			units.Bytes(*o.LargestFreeBlock))
	}
	return text
}

// pin is what blocks of one call site keep from being given back.
type pin struct {
	facts.Tally
	free     int64 // in the segments that hold such blocks
	segments int
	example  timeline.AllocationID // the smallest
}

// pinnedBy says which blocks keep free memory in pieces, by name and line:
// those of segments that have free memory, summed up by who made them.
func pinnedBy(p *facts.Pass, o *timeline.OOM) []string {
	pins := map[facts.SiteKey]*pin{}
	var keys []facts.SiteKey
	for _, s := range p.T.LayoutAt(o.Event).Segments {
		least, free := smallest(p, s.Blocks)
		if free == 0 || least == timeline.NoAllocation {
			continue
		}
		k := facts.SiteKey{Category: p.Classes.Category[least]}
		if stack := p.T.Stack(least); stack != 0 {
			k.Site, k.Known = p.View.Site(stack), true
		}
		x := pins[k]
		if x == nil {
			x = &pin{example: least}
			pins[k], keys = x, append(keys, k)
		}
		x.Add(p.T.Allocated[least])
		x.free += free
		x.segments++
		if p.T.Allocated[least] < p.T.Allocated[x.example] {
			x.example = least
		}
	}
	slices.SortStableFunc(keys, func(a, b facts.SiteKey) int { return cmp.Compare(pins[b].free, pins[a].free) })
	var out []string
	for i, k := range keys[:min(len(keys), 3)] {
		if i > 0 && pins[k].free*20 < pins[keys[0]].free {
			break
		}
		out = append(out, pins[k].text(p, k))
	}
	return out
}

// smallest is the smallest block of a segment that is in use, and the bytes that are
// free beside it.
func smallest(p *facts.Pass, blocks []timeline.Block) (least timeline.AllocationID, free int64) {
	least = timeline.NoAllocation
	for _, b := range blocks {
		if b.Allocation == timeline.NoAllocation {
			free += b.Bytes
		} else if least == timeline.NoAllocation || b.Bytes < p.T.Allocated[least] {
			least = b.Allocation
		}
	}
	return least, free
}

func (x *pin) text(p *facts.Pass, k facts.SiteKey) string {
	what := strings.ReplaceAll(k.Category.String(), "_", " ")
	if name := p.NameOf(x.example); name != "" {
		what += " such as " + name
	}
	from := ""
	if s := facts.SiteOf(k); k.Known && s.Short() != "" {
		from = " from " + facts.UserLine(&s)
	}
	sizes := units.Bytes(x.Largest)
	if least := p.T.Allocated[x.example]; least < x.Largest {
		sizes = units.Bytes(least) + " to " + sizes
	}
	return fmt.Sprintf("%s (%s)%s, of %s, pin %s of free memory in %s", units.Plural(x.Blocks, "block"), what, from, sizes,
		units.Bytes(x.free), units.Plural(x.segments, "segment"))
}

// pendingAt are the allocations that were freed and are still held at an event, the largest
// first.
func pendingAt(p *facts.Pass, event int) (ids []timeline.AllocationID) {
	for i, asked := range p.T.FreeRequested {
		id := timeline.AllocationID(i)
		freed := p.T.Freed[i] // timeline.Never is beyond all events
		if asked != timeline.Never && (asked == timeline.Before || int(asked) <= event) && (freed == timeline.Never ||
			freed != timeline.Before && int(freed) > event) && p.T.BornAt(id) <= event {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b timeline.AllocationID) int { return cmp.Compare(p.T.Allocated[b], p.T.Allocated[a]) })
	return ids
}
