package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
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
	var all, lists int64 // lists: what an optimizer's step makes for itself
	for id, c := range w.classes.Category {
		if t.AliveAt(timeline.AllocationID(id), t.Peaks.Allocated.Event) {
			at[c] += t.Allocated[id]
			all += t.Allocated[id]
			if c == classify.Temporary && w.classes.Phase[id] == classify.Optimizer {
				lists += t.Allocated[id]
			}
		}
	}
	var names []string
	some := func(c classify.Category, percent int64) bool { return at[c] > 0 && at[c]*100 >= all*percent }
	if some(classify.OptimizerState, 3) {
		names = append(names, "optimizer=8bit")
	}
	if lists*20 >= all && lists > 0 {
		names = append(names, "optimizer=fused")
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
		w.Verdict = fmt.Sprintf("The recorded run peaks at %s reserved.", units.Bytes(first.PeakReservedBytes))
	case w.Scenarios[best].OOM || w.Scenarios[best].SavesBytes <= 0:
		w.Verdict = fmt.Sprintf("The recorded settings are the best of those tried: peak reserved %s.",
			units.Bytes(first.PeakReservedBytes))
	default:
		o := &w.Scenarios[best]
		w.Verdict = fmt.Sprintf("%s lowers peak reserved memory from %s to %s (%s).", o.Name, units.Bytes(o.PeakReservedBytes+
			o.SavesBytes),
			units.Bytes(o.PeakReservedBytes), units.Percent(o.SavesBytes, o.PeakReservedBytes+o.SavesBytes))
	}
}

func sameCapacity(a, b *Outcome) bool {
	return (a.CapacityBytes == nil) == (b.CapacityBytes == nil) && (a.CapacityBytes == nil ||
		*a.CapacityBytes == *b.CapacityBytes)
}

func (w *whatIf) judgeOOM(first *Outcome) {
	var best *Outcome          // the settings by themselves that leave most
	var changes, open []string // open: with these the rest of the step may still fail
	later, closer := 0, false
	for i := range w.Scenarios[1:] {
		o := &w.Scenarios[i+1]
		o.rest = w.restAfter(o)
		switch {
		case !sameCapacity(o, first):
		case o.OOM && len(o.Changes) == 0:
			later = max(later, o.Allocations-first.Allocations)
			closer = closer || o.Allocations > first.Allocations || o.Allocations == first.Allocations &&
				o.ShortBytes < first.ShortBytes
		case !o.OOM && len(o.Changes) > 0:
			if len(changes) < 3 && o.toCome() == 0 {
				changes = append(changes, o.Name+o.spare())
				if !o.rest.known {
					open = append(open, o.Name)
				}
			}
		case !o.OOM && len(o.Changes) == 0 && (best == nil || best.toCome() > 0 && o.toCome() <= 0):
			best = o
		}
	}
	switch {
	case best == nil:
		w.Verdict = fmt.Sprintf("No setting that was tried meets the request that failed; with the recorded ones a segment "+
			"for it lacks %s", units.Bytes(first.ShortBytes))
		switch {
		case later > 0:
			w.Verdict += fmt.Sprintf(", others fail up to %s later.", units.Plural(later, "allocation"))
		case !closer:
			w.Verdict += ", and none comes closer."
		default:
			w.Verdict += "."
		}
	case best.toCome() > 0:
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met, but the same step still has to make "+
			"about %s, more than the %s that are left then: it would have failed later.",
			best.Name, units.Bytes(best.toCome()), units.Bytes(*best.leftThen))
	case best.rest.bytes > 0:
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met%s.", best.Name, best.spare())
	default:
		w.Verdict = fmt.Sprintf("With %s the request that failed would have been met%s; what the program needed after it "+
			"isn't recorded.", best.Name, best.spare())
	}
	if len(changes) > 0 {
		w.Verdict += " Changes to the program that meet it: " + strings.Join(changes, ", ") + "."
		if len(open) > 0 {
			with := "them"
			if len(open) == 1 || len(open) < len(changes) {
				with = strings.Join(open, " and ")
			}
			w.Verdict += " What the rest of the step needs with " + with + " isn't known."
		}
	}
}

// spare says what a scenario leaves; "" when unknown.
func (o *Outcome) spare() string {
	switch bytes, rest, known := o.Spare(); {
	case !known:
		return ""
	case rest:
		return fmt.Sprintf(" (%s left after the rest of the step)", units.Bytes(bytes))
	default:
		return fmt.Sprintf(" (%s left then)", units.Bytes(bytes))
	}
}

// rest is what the step had yet to allocate after the request that failed, as a
// scenario changes it.
type rest struct {
	bytes int64
	known bool
}

// restAfter is unknown where nothing before shows how the step goes on, or where
// nobody knows how much of it a change leaves.
func (w *whatIf) restAfter(o *Outcome) rest {
	for i := range w.Failures {
		f := &w.Failures[i]
		if o.LastEvent != f.Event {
			continue
		}
		if f.StillToComeBytes == 0 {
			return rest{}
		}
		bytes := float64(f.StillToComeBytes - f.RequestedBytes)
		for _, change := range o.Changes {
			part := f.leaves(change)
			if part < 0 {
				return rest{}
			}
			bytes *= part
		}
		return rest{int64(bytes), true}
	}
	return rest{known: true}
}

// toCome is what a step still had to allocate after the request that failed,
// where that is more than a scenario which meets it leaves; else 0.
func (o *Outcome) toCome() int64 {
	if o.rest.known && o.leftThen != nil && o.rest.bytes > *o.leftThen {
		return o.rest.bytes
	}
	return 0
}

// leaves is the part that a change leaves of what was still to come; -1: nobody
// knows.
func (f *Failure) leaves(change string) float64 {
	about, value, _ := strings.Cut(change, "=")
	switch {
	case about == "optimizer" && f.inOptimizer:
		// one byte of four and the blocks' scales; one moment of two; sgd: none
		return map[string]float64{"8bit": 0.254, "lion": 0.5, "fused": 1}[value]
	case about == "sharding" && f.inOptimizer:
		n, _ := strconv.ParseFloat(value, 64)
		return 1 / n
	case about == "batch" && !f.inOptimizer:
		part, _ := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
		return part
	case (about == "checkpointing" || about == "logits" || about == "use_cache") && !f.inOptimizer:
		return -1
	}
	return 1
}
