package replay

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

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
