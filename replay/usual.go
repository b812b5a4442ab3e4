package replay

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// usualSettings are the settings that people try.
func (w *whatIf) usualSettings() []Settings {
	texts := []string{"", "expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512",
		"roundup_power2_divisions:4", "roundup_power2_divisions:8"}
	if w.limits.Allowed > 0 {
		texts = append(texts, "garbage_collection_threshold:0.8")
	}
	var list []Settings
	for _, text := range texts {
		s, _, err := ParseConf(text)
		if err == nil && !same(s, w.p.Settings) {
			list = append(list, s)
		}
	}
	return list
}

// usualChanges are the changes to programs that could matter by what the
// memory holds at its peak.
func (w *whatIf) usualChanges() []Change {
	if w.classes == nil {
		return nil
	}
	t := w.p.Timeline
	var at [classify.NumCategories]int64
	var all int64
	for id, c := range w.classes.Category {
		if t.AliveAt(timeline.AllocationID(id), t.Peaks.Allocated.Event) {
			at[c] += t.Allocated[id]
			all += t.Allocated[id]
		}
	}
	var names []string
	some := func(c classify.Category, percent int64) bool { return at[c] > 0 && at[c]*100 >= all*percent }
	if some(classify.OptimizerState, 3) {
		names = append(names, "optimizer=8bit")
	}
	if some(classify.Logits, 5) {
		names = append(names, "logits=chunked")
	}
	if some(classify.Activations, 10) {
		names = append(names, "checkpointing=full")
	}
	if at[classify.Activations]+at[classify.Logits] > all/5 {
		names = append(names, "batch=x0.5")
	}
	for i := range w.classes.Leaks {
		if w.classes.Leaks[i].Defect {
			names = append(names, "leak=fixed")
			break
		}
	}
	var list []Change
	for _, name := range names {
		if c, err := ParseChange(name); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// judge puts what the scenarios show into a sentence or two.
func (w *whatIf) judge() {
	w.compare()
	if w.anew > 0 && w.Verdict != "" {
		w.Verdict = "Of the recorded part only: " + w.Verdict
	}
}

func (w *whatIf) compare() {
	first := &w.Scenarios[0]
	best := -1 // the best settings by themselves on the recorded device
	for i := 1; i < len(w.Scenarios); i++ {
		o := &w.Scenarios[i]
		if len(o.Changes) > 0 || !sameCapacity(o, first) {
			continue
		}
		if best < 0 {
			best = i
		}
	}
	switch {
	case first.OOM:
		w.judgeOOM(first)
	case best < 0:
		w.Verdict = fmt.Sprintf("The recorded run peaks at %s reserved.", report.Bytes(first.PeakReservedBytes))
	case w.Scenarios[best].OOM || w.Scenarios[best].SavesBytes <= 0:
		w.Verdict = fmt.Sprintf("The recorded settings are the best of those tried: peak reserved %s.", report.Bytes(first.PeakReservedBytes))
	default:
		o := &w.Scenarios[best]
		w.Verdict = fmt.Sprintf("%s lowers peak reserved memory from %s to %s (%s).", o.Name, report.Bytes(o.PeakReservedBytes+o.SavesBytes),
			report.Bytes(o.PeakReservedBytes), report.Percent(o.SavesBytes, o.PeakReservedBytes+o.SavesBytes))
	}
}

func sameCapacity(a, b *Outcome) bool {
	return (a.CapacityBytes == nil) == (b.CapacityBytes == nil) && (a.CapacityBytes == nil || *a.CapacityBytes == *b.CapacityBytes)
}

func (w *whatIf) judgeOOM(first *Outcome) {
	var settings, changes string
	later := 0
	for i := range w.Scenarios[1:] {
		o := &w.Scenarios[i+1]
		if !sameCapacity(o, first) {
			continue
		}
		if o.OOM {
			if len(o.Changes) == 0 {
				later = max(later, o.Allocations-first.Allocations)
			}
			continue
		}
		if len(o.Changes) > 0 && changes == "" {
			changes = o.Name
		} else if len(o.Changes) == 0 && settings == "" {
			settings = o.Name
		}
	}
	known := "; whether the program would have gone on to its end isn't recorded"
	switch {
	case settings != "" && !w.enough(settings):
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met, but what the optimizer's first step still has to make would not have fitted.", settings)
	case settings != "":
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met%s.", settings, known)
	default:
		w.Verdict = fmt.Sprintf("No setting that was tried meets the request that failed; with the recorded ones it lacks %s.", report.Bytes(first.ShortBytes))
	}
	if changes != "" {
		w.Verdict += fmt.Sprintf(" With %s it would have been met%s.", changes, known)
	}
	if settings == "" && later > 0 {
		w.Verdict += fmt.Sprintf(" Others fail up to %s later.", report.Plural(later, "allocation"))
	}
}

// enough tells whether what the first optimizer step has yet to make would
// have fitted, in a scenario that meets the request which failed.
func (w *whatIf) enough(name string) bool {
	if w.classes == nil {
		return true
	}
	for i := range w.p.Timeline.OOMs {
		oom := &w.p.Timeline.OOMs[i]
		for _, o := range w.Scenarios {
			if o.Name == name && o.LastEvent == oom.Event && o.UsableBytes != nil {
				return *o.UsableBytes-o.PeakAllocatedBytes >= StillToCome(w.classes, oom)-oom.Requested
			}
		}
	}
	return true
}
