package replay

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// scenario is one of settings on a GPU; capacity 0 is the recorded one.
func (w *whatIf) scenario(set Settings, capacity int64) (Scenario, int64) {
	s := Scenario{Settings: set, GPU: capacity, Usable: max(1, capacity-w.taken)}
	if capacity == 0 {
		s = w.p.Recorded()
		s.Settings = set
		if capacity = s.Usable; w.o.GPU > 0 {
			capacity, s.GPU = w.o.GPU, w.o.GPU
			if s.Usable == 0 {
				s.Usable = w.o.GPU - w.taken
			}
		}
	}
	switch {
	case set.Fraction > 0 && s.GPU > 0:
		s.Allowed = allowedOf(set.Fraction, s.GPU)
	case w.p.Settings.Fraction > 0 && !same(set, w.p.Settings):
		s.Allowed = 0 // it was one of the settings that are replaced
	case w.limits.Allowed > 0 && w.limits.Usable > 0 && s.GPU > 0:
		s.Allowed = w.limits.Allowed
		if total := w.limits.Usable + w.taken; s.GPU != total {
			s.Allowed = allowedOf(float64(w.limits.Allowed)/float64(total), s.GPU)
		}
	}
	// Where a failed request is met nothing more is known, whatever the settings.
	s.recorded = s.Usable == 0 && s.Allowed == 0 && same(set, w.p.Settings)
	return s, capacity
}

// try runs all combinations of settings, capacities and changes; where nothing
// is asked for, each of the usual ones by itself.
func (w *whatIf) try(settings []Settings, changes []Change) {
	type combination struct {
		set      Settings
		capacity int64
		changes  []Change
	}
	var list []combination
	recorded := w.p.Settings
	if len(settings)+len(w.o.Capacities)+len(changes) == 0 {
		for _, set := range w.usualSettings() {
			list = append(list, combination{set: set})
		}
		for _, c := range w.usualChanges() {
			list = append(list, combination{set: recorded, changes: []Change{c}})
		}
	} else {
		groups := [][]Change{nil}
		for _, c := range changes {
			groups = append(groups, []Change{c})
		}
		if len(changes) > 1 && compatible(changes) {
			groups = append(groups, changes)
		}
		for _, group := range groups {
			for _, set := range append([]Settings{recorded}, settings...) {
				for _, capacity := range append([]int64{0}, w.o.Capacities...) {
					list = append(list, combination{set, capacity, group})
				}
			}
		}
		list = list[1:] // the recorded one is there already
	}
	// Combinations with the same changes follow each other: one changed
	// program at a time is enough.
	var program *Program
	var applied []Change
	last := "-"
	for i, c := range list {
		if n := w.p.Timeline.Device.Events.Len(); w.o.MaxEvents > 0 && (len(w.Scenarios)+1)*n > w.o.MaxEvents {
			w.Notes = append(w.Notes, fmt.Sprintf("%d of %d scenarios are left out: with them, more than %s events would be replayed", len(list)-i, len(list), report.Count(w.o.MaxEvents)))
			return
		}
		key := ""
		for _, x := range c.changes {
			key += x.Name + " "
		}
		if key != last {
			program, applied = w.apply(c.changes)
			last = key
		}
		if program == nil {
			continue
		}
		s, capacity := w.scenario(c.set, c.capacity)
		given := int64(0)
		if c.capacity > 0 {
			given = c.capacity
		}
		w.add(w.name(c.set, given, applied), program, s, capacity, applied)
	}
}

// compatible tells whether changes can be made together: no two are about the
// same thing.
func compatible(changes []Change) bool {
	seen := map[string]bool{}
	for _, c := range changes {
		about, _, _ := strings.Cut(c.Name, "=")
		if seen[about] {
			return false
		}
		seen[about] = true
	}
	return true
}

// apply makes the changed program, nil when a change can't be made.
func (w *whatIf) apply(list []Change) (*Program, []Change) {
	if len(list) == 0 {
		return w.p, nil
	}
	p, done, err := w.p.Apply(list, w.classes)
	if err != nil {
		w.Notes = append(w.Notes, "not tried: "+err.Error())
		return nil, nil
	}
	return p, done
}

func (w *whatIf) name(set Settings, capacity int64, changes []Change) string {
	var parts []string
	switch text := set.String(); {
	case same(set, w.p.Settings):
		if capacity > 0 || len(changes) == 0 {
			parts = append(parts, "recorded settings")
		}
	case text == "":
		parts = append(parts, "default settings")
	default:
		parts = append(parts, text)
	}
	for _, c := range changes {
		parts = append(parts, c.Name)
	}
	name := strings.Join(parts, " + ")
	if capacity > 0 {
		name += " on " + report.Bytes(capacity)
	}
	return name
}
