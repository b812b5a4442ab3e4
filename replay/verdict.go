package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
)

// judge puts what the scenarios show into a sentence or two.
func (w *whatIf) judge() {
	w.compare()
	if answer := strings.TrimSpace(w.solvedText() + " " + w.capacityText()); answer != "" {
		w.Verdict = answer
	}
	if w.repackedPeak > 0 && w.Verdict != "" {
		w.Verdict = "Of the recorded part only: " + w.Verdict
	}
}

func (w *whatIf) compare() {
	first := &w.Scenarios[0]
	best, changed := -1, -1 // the best on the recorded device: settings by themselves, and with changes
	for i := len(w.Scenarios) - 1; i > 0; i-- {
		switch o := &w.Scenarios[i]; {
		case !sameCapacity(o, first):
		case len(o.Changes) > 0:
			changed = i
		default:
			best = i
		}
	}
	what := "No setting that was replayed lowers the peak"
	if best < 0 {
		best, what = changed, "No change that was tried lowers the peak"
	}
	switch {
	case len(w.Scenarios) == 1 && len(w.refused) > 0:
		w.Verdict = "No change could be replayed: " + strings.Join(w.refused, "; ") + "."
	case first.OOM:
		w.judgeOOM(first)
	case best < 0:
		w.Verdict = fmt.Sprintf("The recorded run peaks at %s reserved.", units.Bytes(first.PeakReservedBytes))
	case w.Scenarios[best].OOM || w.Scenarios[best].SavesBytes <= 0:
		w.Verdict = fmt.Sprintf("%s: %s reserved.", what, units.Bytes(first.PeakReservedBytes))
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

// remedies are what meets a request that failed.
type remedies struct {
	best          *Outcome // the settings by themselves that leave most
	changes, open []string // with those that are open the rest of the step may still fail
	later         int      // allocations that other settings come further
	closer        bool     // they do, or lack less
}

func (w *whatIf) judgeOOM(first *Outcome) {
	var r remedies
	for i := range w.Scenarios[1:] {
		o := &w.Scenarios[i+1]
		if sameCapacity(o, first) {
			r.weigh(o, first)
		}
	}
	settings := slices.ContainsFunc(w.Scenarios[1:], func(o Outcome) bool { return len(o.Changes) == 0 })
	switch {
	case settings || len(w.Scenarios) == 1:
		w.Verdict = r.settingsText(first) + r.changesText()
	case len(r.changes) == 0: // who asks for changes alone is told of those
		w.Verdict = "No change that was tried meets the request that failed."
	default:
		w.Verdict = strings.TrimPrefix(r.changesText(), " ")
	}
}

// weigh takes one scenario into account.
func (r *remedies) weigh(o, first *Outcome) {
	switch changed := len(o.Changes) > 0; {
	case o.OOM && !changed:
		r.later = max(r.later, o.Allocations-first.Allocations)
		r.closer = r.closer || cmp.Or(o.Allocations-first.Allocations, cmp.Compare(first.ShortBytes, o.ShortBytes)) > 0
	case !o.OOM && changed && len(r.changes) < 3 && o.Answer != words.MeetsThenFails:
		r.changes = append(r.changes, o.Name+o.spare())
		if o.Answer != words.Fits {
			r.open = append(r.open, o.Name)
		}
	case !o.OOM && !changed && (r.best == nil || r.best.Answer == words.MeetsThenFails && o.Answer != words.MeetsThenFails):
		r.best = o
	}
}

func (r *remedies) settingsText(first *Outcome) string {
	best := r.best
	switch {
	case best == nil:
		s := fmt.Sprintf("No setting that was tried meets the request that failed; with the recorded ones a segment "+
			"for it lacks %s", units.Bytes(first.ShortBytes))
		switch {
		case r.later > 0:
			return s + fmt.Sprintf(", others fail up to %s later.", units.Plural(r.later, "allocation"))
		case !r.closer:
			return s + ", and none comes closer."
		}
		return s + "."
	case best.Answer == words.MeetsThenFails:
		return fmt.Sprintf("With %s the request that failed would have been met, but the same step still has to make "+
			"about %s, more than the %s that are left then: it would have failed later.",
			best.Name, units.Bytes(best.rest), units.Bytes(*best.leftThen))
	case best.Answer == words.Fits:
		return fmt.Sprintf("With %s the request that failed would have been met%s.", best.Name, best.spare())
	}
	return fmt.Sprintf("With %s the request that failed would have been met%s; what the program needed after it "+
		"isn't recorded.", best.Name, best.spare())
}

func (r *remedies) changesText() string {
	if len(r.changes) == 0 {
		return ""
	}
	s := " Changes to the program that meet the request: " + strings.Join(r.changes, ", ") + "."
	switch {
	case len(r.open) == 0:
		return s
	case len(r.open) == 1 || len(r.open) < len(r.changes):
		return s + " What the rest of the step needs with " + strings.Join(r.open, " and ") + " isn't known."
	}
	return s + " What the rest of the step needs with them isn't known."
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
