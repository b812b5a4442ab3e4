package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// givesBack tells whether memory goes back to the driver within the recording.
func givesBack(dev *report.Device) bool {
	return slices.ContainsFunc(dev.Actions, func(a report.KeyCount) bool {
		return a.Key == "segment_free" ||
			a.Key == "segment_unmap"
	})
}

// emptyCacheInLoop finds programs that give the cache back in every step and
// ask the driver for the same memory again.
func (e *examination) emptyCacheInLoop(dev *report.Device, f *facts) []draft {
	if !givesBack(dev) || len(e.classes.Steps) < 3 {
		return nil
	}
	calls := replay.EmptiedCaches(e.t)
	steps := map[int32]bool{}
	var back, again int64
	sure := true
	events := &e.t.Device.Events
	where := map[frames.Line]int{}
	inLoop, captures := calls[:0], 0
	for _, c := range calls {
		step := e.stepNear(c.First)
		if step < 0 {
			continue
		}
		steps[step] = true
		sure = sure && c.Certain
		inLoop = append(inLoop, c)
		back += c.Freed
		if e.captures(events.StackOf(c.First)) {
			captures++
		}
		if lines := e.view.User(events.StackOf(c.First)); len(lines) > 0 {
			where[lines[0]]++
		}
	}
	if len(steps) < 3 || 2*len(steps) < len(e.classes.Steps) {
		return nil
	}
	segments := 0
	for i := inLoop[0].Last; i < events.Len(); i++ {
		if a := events.Action[i]; a == snapshot.SegmentAlloc || a == snapshot.SegmentMap {
			again += events.Size[i]
			segments++
		}
	}
	if again < back/2 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "empty_cache_in_loop", Severity: report.Warning, Confidence: 0.95}}
	if !sure {
		d.Confidence = 0.6
	}
	d.Title = fmt.Sprintf("empty_cache in the loop: %s given back to the driver in %s, and asked for again", units.Bytes(back),
		units.Plural(len(steps), "step"))
	d.Evidence = []string{fmt.Sprintf("%s, %s each on average", units.Plural(len(inLoop), "call"),
		units.Bytes(back/int64(len(inLoop)))),
		fmt.Sprintf("%s in %s asked of the driver again after the first call: each waits for the GPU", units.Bytes(again),
			units.Plural(segments, "piece"))}
	at := ""
	for _, line := range mostOften(where, 1) {
		at = " at " + lineText(line)
	}
	d.Fix = ptr("Take torch.cuda.empty_cache() out of the loop" + at +
		": it makes no room that PyTorch wouldn't find itself, and costs time in every step")
	switch {
	case captures*2 > len(inLoop):
		d.Title = fmt.Sprintf("CUDA graphs captured in the loop: each capture empties the cache, %s given back in %s and "+
			"asked for again", units.Bytes(back), units.Plural(len(steps), "step"))
		d.Fix = ptr("Capture once" + at + " and run the same graphs again: batches, lengths and caches of one size, or of a " +
			"few, padded; or compile without CUDA graphs")
	case captures == 0 && dev.Stacks == "none" && len(dev.Pools) > 0:
		d.Confidence = min(d.Confidence, 0.5)
		d.Evidence = append(d.Evidence, "there are private pools: capturing a CUDA graph empties the cache, too")
		*d.Fix += "; where it is CUDA graphs that are captured in every step, capture them once"
	}
	return []draft{d}
}

// captures tells whether a stack is that of a CUDA graph's capture, which empties
// the cache before it begins.
func (e *examination) captures(stack snapshot.StackID) bool {
	s := e.t.Snapshot
	return slices.ContainsFunc(s.Stack(stack), func(f snapshot.FrameID) bool {
		return strings.HasSuffix(s.String(s.Frames[f].File), "torch/cuda/graphs.py")
	})
}

// stepNear is the number of the step of an event or, between steps, of the one
// before; -1 before the first.
func (e *examination) stepNear(event int) int32 {
	steps := e.classes.Steps
	if len(steps) == 0 || event < steps[0].FirstEvent {
		return -1
	}
	i, found := slices.BinarySearchFunc(steps, event, func(s classify.Step, at int) int { return s.FirstEvent - at })
	if !found {
		i--
	}
	return int32(steps[i].Number)
}

// expandable is the setting that helps most often against memory in pieces.
const expandable = "expandable_segments:True"

// anew is the scenario in which the recorded settings begin with the first
// blocks laid out one after the other, as others have to.
const anew = "recorded, laid out anew"

// otherSettings are tried where much of what is reserved isn't in use, first of
// all PyTorch's default.
var otherSettings = []string{"", expandable, "max_split_size_mb:512", "roundup_power2_divisions:8"}

// Where it counts how reserved memory could be less, in percent of it.
const (
	wasteWorth = 5  // trying other settings
	gainWorth  = 3  // a word
	wasteLong  = 15 // a word on recordings that are too long to replay
)

// settings is what replays under other settings show; nil where none were made.
func (e *examination) settings() *replay.Document {
	if e.settingsTried {
		return e.settingsDoc
	}
	e.settingsTried = true
	p := e.program()
	if p == nil {
		return nil
	}
	others := otherSettings
	if p.Settings.String() == "" {
		others = others[1:]
	}
	d, err := p.WhatIf(nil, replay.Options{GPU: e.options.Capacity, Confs: others, MaxEvents: maxReplays})
	if err == nil && d.Refused == nil && len(d.Scenarios) > 0 {
		e.settingsDoc = d
	}
	return e.settingsDoc
}

// allocatorSetting says whether the recorded settings serve the program, by
// replay.
func (e *examination) allocatorSetting(dev *report.Device, f *facts) []draft {
	if len(dev.OOMs) > 0 || dev.History == "none" {
		return nil // what was tried is said where the failure is
	}
	peak := dev.Peaks.Reserved.Bytes
	waste := peak - dev.Peaks.Allocated.Bytes
	p := e.program()
	if p == nil {
		return e.wasteUnreplayed(dev, waste)
	}
	set := p.Settings.String()
	if set == "" && (share(waste, peak) < wasteWorth || waste < 64<<20) {
		return nil
	}
	doc := e.settings()
	if doc == nil {
		return nil
	}
	recorded := &doc.Scenarios[0]
	begun := recorded.PeakReservedBytes // of the recorded settings, begun in the same way
	// What lay in the cache before a late recording begins anew in a replay: a gain
	// that what was really reserved doesn't bear out is none.
	gain := func(o *replay.Outcome) int64 {
		if o.SavesBytes <= 0 {
			return o.SavesBytes
		}
		return min(o.SavesBytes, max(0, peak-o.PeakReservedBytes))
	}
	var best, standard *replay.Outcome
	for i := range doc.Scenarios[1:] {
		o := &doc.Scenarios[i+1]
		if len(o.Changes) > 0 || o.OOM {
			continue
		}
		if o.Name == anew {
			begun = o.PeakReservedBytes
			continue
		}
		if o.Settings == "" {
			standard = o
		}
		if best == nil || gain(o) > gain(best) {
			best = o
		}
	}
	d := draft{Finding: report.Finding{ID: "allocator_setting", Severity: report.Info, Confidence: 0.95, Evidence: []string{
		fmt.Sprintf("peak reserved %s, peak allocated %s: %s (%s) were never in use at once%s", units.Bytes(peak),
			units.Bytes(dev.Peaks.Allocated.Bytes), units.Bytes(waste), units.Percent(waste, peak), within(dev))}}}
	if begun != recorded.PeakReservedBytes {
		d.Evidence = append(d.Evidence, fmt.Sprintf("replays begin with the first blocks laid out anew: with the recorded "+
			"settings they reserve %s", units.Bytes(begun)))
	}
	for i := range doc.Scenarios[1:] {
		if o := &doc.Scenarios[i+1]; !o.OOM && o.Name != anew {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s: peak reserved %s (%s)", orDefault(o.Settings),
				units.Bytes(o.PeakReservedBytes), difference(o.PeakReservedBytes-begun)))
		}
	}
	if twice := slices.ContainsFunc(dev.Leaks, func(l report.Leak) bool {
		return l.Kind == classify.VaryingShapes || l.Kind == classify.FragmentationCreep
	}); twice {
		d.Evidence = append(d.Evidence, "the same gain as that of the finding about sizes or pieces, not a second one")
	}
	worth := func(o *replay.Outcome) bool {
		return o != nil && share(gain(o), begun) >= gainWorth && gain(o) >= 32<<20
	}
	switch {
	case set != "" && worth(standard):
		d.Severity = report.Warning
		d.Title = fmt.Sprintf("%s makes it worse: without it, %s less are reserved", set, units.Bytes(gain(standard)))
		d.Fix, d.SavesBytes = ptr("Take "+set+" out of PYTORCH_CUDA_ALLOC_CONF"), ptr(gain(standard))
		if worth(best) && gain(best) > gain(standard)+32<<20 {
			d.Fix, d.SavesBytes = ptr(fmt.Sprintf("PYTORCH_CUDA_ALLOC_CONF=%s in its place", best.Settings)), ptr(gain(best))
		}
	case worth(best):
		d.Severity = f.severity()
		d.Title = fmt.Sprintf("%s would reserve %s less", best.Settings, units.Bytes(gain(best)))
		d.Fix, d.SavesBytes = ptr("PYTORCH_CUDA_ALLOC_CONF="+best.Settings), ptr(gain(best))
	case set != "" && standard != nil && share(-standard.SavesBytes, begun) >= gainWorth:
		d.Title = fmt.Sprintf("%s helps: without it, %s more would be reserved; none of those tried is better", set,
			units.Bytes(-standard.SavesBytes))
	case set != "" && standard != nil:
		d.Title = fmt.Sprintf("%s makes no difference to speak of here", set)
	default:
		which := "The allocator's settings are the best of those tried"
		if best != nil && gain(best) > 0 {
			which = "No other setting that was tried gains much"
		}
		d.Title = fmt.Sprintf("%s; %s of %s reserved are never in use at once%s", which, units.Bytes(waste), units.Bytes(peak),
			within(dev))
		if share(begun-dev.Peaks.Allocated.Bytes, begun) < 2*wasteWorth {
			return nil // most of it was cached before the recording began
		}
	}
	return []draft{d}
}

// wasteUnreplayed speaks of recordings that are too long, or too incomplete, to
// replay here.
func (e *examination) wasteUnreplayed(dev *report.Device, waste int64) []draft {
	if share(waste, dev.Peaks.Reserved.Bytes) < wasteLong || waste < 1<<30 || dev.Events <= maxReplayed {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "allocator_setting", Severity: report.Info, Confidence: 0.5}}
	d.Title = fmt.Sprintf("%s of %s reserved were never in use at once%s", units.Bytes(waste),
		units.Bytes(dev.Peaks.Reserved.Bytes), within(dev))
	d.Evidence = []string{fmt.Sprintf("%s are too many to replay here", units.Plural(dev.Events, "event"))}
	d.Fix = ptr("Try PYTORCH_CUDA_ALLOC_CONF=" + expandable +
		"; vramscope whatif on the same file says what it would have reserved")
	return []draft{d}
}

// within limits a statement to the recording where more may have been in use
// before it.
func within(dev *report.Device) string {
	if dev.Before() {
		return " in what was recorded"
	}
	return ""
}

func orDefault(settings string) string {
	if settings == "" {
		return "the default settings"
	}
	return settings
}

// difference says what became of a size.
func difference(n int64) string {
	switch {
	case n > 0:
		return units.Bytes(n) + " more"
	case n < 0:
		return units.Bytes(-n) + " less"
	}
	return "no less"
}
