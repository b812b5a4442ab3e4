package replay

import (
	"fmt"
	"slices"
	"strings"

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
	if some(classify.KVCache, 2) && at[classify.Activations] > 0 {
		names = append(names, "use_cache=off")
	}
	if states := at[classify.Weights] + at[classify.Gradients] + at[classify.OptimizerState]; len(t.OOMs) > 0 && states > all/3 {
		names = append(names, "sharding=2")
	}
	for i := range w.classes.Leaks() {
		if w.classes.Leaks()[i].Defect {
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
	var best *Outcome // the settings by themselves that leave most
	var changes []string
	later, closer := 0, false
	for i := range w.Scenarios[1:] {
		o := &w.Scenarios[i+1]
		switch {
		case !sameCapacity(o, first):
		case o.OOM && len(o.Changes) == 0:
			later = max(later, o.Allocations-first.Allocations)
			closer = closer || o.Allocations > first.Allocations || o.Allocations == first.Allocations && o.ShortBytes < first.ShortBytes
		case !o.OOM && len(o.Changes) > 0:
			if len(changes) < 3 && w.toComeAfter(o) <= 0 {
				changes = append(changes, o.Name+left(o, " (%s left)"))
			}
		case !o.OOM && len(o.Changes) == 0 && (best == nil || w.toComeAfter(best) > 0 && w.toComeAfter(o) <= 0):
			best = o
		}
	}
	switch {
	case best == nil:
		w.Verdict = fmt.Sprintf("No setting that was tried meets the request that failed; with the recorded ones it lacks %s", report.Bytes(first.ShortBytes))
		switch {
		case later > 0:
			w.Verdict += fmt.Sprintf(", others fail up to %s later.", report.Plural(later, "allocation"))
		case !closer:
			w.Verdict += ", and none comes closer."
		default:
			w.Verdict += "."
		}
	case w.toComeAfter(best) > 0:
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met, but the same step still has to make about %s, more than the %s that are left then: it would have failed later.",
			best.Name, report.Bytes(w.toComeAfter(best)), report.Bytes(*best.LeftBytes))
	default:
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met%s; what the program needed after it isn't recorded.", best.Name, left(best, ", with %s left"))
	}
	if len(changes) > 0 {
		w.Verdict += " Changes to the program that meet it: " + strings.Join(changes, ", ") + "."
	}
}

// left is how much memory a scenario leaves, in a format; "" when unknown.
func left(o *Outcome, format string) string {
	if o.LeftBytes == nil {
		return ""
	}
	return fmt.Sprintf(format, report.Bytes(*o.LeftBytes))
}

// toComeAfter is what a step still had to allocate after the request that
// failed, where that is more than a scenario which meets it leaves; else 0.
func (w *whatIf) toComeAfter(o *Outcome) int64 {
	for i := range w.Failures {
		f := &w.Failures[i]
		if slices.ContainsFunc(o.Changes, f.shrinks) {
			continue // how much of it is left nobody knows
		}
		if n := f.StillToComeBytes - f.RequestedBytes; o.LastEvent == f.Event && o.LeftBytes != nil && n > *o.LeftBytes {
			return n
		}
	}
	return 0
}

// shrinks tells whether a change makes less of what was still to come.
func (f *Failure) shrinks(change string) bool {
	switch about, _, _ := strings.Cut(change, "="); about {
	case "optimizer", "sharding":
		return f.inOptimizer
	case "checkpointing", "batch", "logits", "use_cache":
		return !f.inOptimizer
	}
	return false
}
