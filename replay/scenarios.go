package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/timeline"
)

// asRecorded is the recorded scenario on the GPU that was given, and that one's size.
func (w *whatIf) asRecorded() (s Scenario, capacity int64) {
	s = w.p.Recorded()
	if capacity = s.Usable; w.o.GPU > 0 {
		capacity, s.GPU = w.o.GPU, w.o.GPU
		if s.Usable == 0 {
			s.Usable = w.o.GPU - w.taken
		}
	}
	return s, capacity
}

// scenario is one of settings on a GPU; capacity 0 is the recorded one.
func (w *whatIf) scenario(set allocator.Settings, capacity int64) (Scenario, int64) {
	s := Scenario{Settings: set, GPU: capacity, Usable: max(1, capacity-w.taken)}
	if capacity == 0 {
		s, capacity = w.asRecorded()
		s.Settings = set
	}
	switch {
	case set.Fraction > 0 && s.GPU > 0:
		s.Allowed = allocator.AllowedOf(set.Fraction, s.GPU)
	case w.p.Settings.Fraction > 0 && !set.Same(w.p.Settings):
		s.Allowed = 0 // it was one of the settings that are replaced
	case w.limits.Allowed > 0 && w.limits.Usable > 0 && s.GPU > 0:
		s.Allowed = w.limits.Allowed
		if total := w.limits.Usable + w.taken; s.GPU != total {
			s.Allowed = allocator.AllowedOf(float64(w.limits.Allowed)/float64(total), s.GPU)
		}
	}
	// Where a failed request is met nothing more is known, whatever the settings.
	s.recorded = s.Usable == 0 && s.Allowed == 0 && set.Same(w.p.Settings)
	return s, capacity
}

// others are all combinations of settings, capacities and changes; where nothing
// is asked for, each of the usual ones by itself. So many scenarios are tried
// before them.
func (w *whatIf) others(settings []allocator.Settings, changes []change.Change, before int) []piece {
	recorded := w.p.Settings
	var list []piece
	if len(settings)+len(w.o.Capacities)+len(changes) == 0 {
		usual := piece{}
		for _, set := range w.usualSettings() {
			usual.trials = append(usual.trials, w.trial(set, 0, nil))
		}
		list = append(list, usual)
		for _, c := range w.usualChanges() {
			changed := []change.Change{c}
			list = append(list, piece{changes: changed, trials: []trial{w.trial(recorded, 0, changed)}})
		}
		return w.within(list, before)
	}
	groups := [][]change.Change{nil}
	for _, c := range changes {
		groups = append(groups, []change.Change{c})
	}
	if len(changes) > 1 && compatible(changes) {
		groups = append(groups, changes)
	}
	for _, group := range groups {
		x := piece{changes: group}
		for _, set := range append([]allocator.Settings{recorded}, settings...) {
			for _, capacity := range append([]int64{0}, w.o.Capacities...) {
				x.trials = append(x.trials, w.trial(set, capacity, group))
			}
		}
		list = append(list, x)
	}
	list[0].trials = list[0].trials[1:] // the recorded one is there already
	return w.within(list, before)
}

// within leaves out what would be too much to replay.
func (w *whatIf) within(list []piece, before int) []piece {
	n := w.p.Timeline.Device.Events.Len()
	if w.o.MaxEvents == 0 || n == 0 {
		return list
	}
	all := 0
	for i := range list {
		all += len(list[i].trials)
	}
	most := max(0, w.o.MaxEvents/n-before)
	if all <= most {
		return list
	}
	w.leftOut = fmt.Sprintf("%d of %d scenarios are left out: with them, more than %s events would be replayed", all-most, all,
		units.Count(w.o.MaxEvents))
	for i := range list {
		x := &list[i]
		if most == 0 {
			return list[:i]
		}
		x.trials = x.trials[:min(len(x.trials), most)]
		most -= len(x.trials)
	}
	return list
}

func (w *whatIf) trial(set allocator.Settings, given int64, changes []change.Change) trial {
	x := trial{name: w.name(set, given, changes)}
	x.scenario, x.capacity = w.scenario(set, given)
	x.given = given
	return x
}

// compatible reports whether changes can be made together: no two are about the
// same thing.
func compatible(changes []change.Change) bool {
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

func (w *whatIf) name(set allocator.Settings, capacity int64, changes []change.Change) string {
	var parts []string
	switch text := set.String(); {
	case set.Same(w.p.Settings):
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
		name += " on " + units.Bytes(capacity)
	}
	return name
}

// recorded are the scenarios that others are compared with.
func (w *whatIf) recorded() piece {
	s, capacity := w.asRecorded()
	list := []trial{{name: "recorded", scenario: s, capacity: capacity}}
	if w.p.Timeline.Start.Reserved > 0 {
		s.Packed = true
		list = append(list, trial{name: "recorded settings, replayed", scenario: s, capacity: capacity})
	}
	return piece{trials: list}
}

// usualSettings are the settings that people try.
func (w *whatIf) usualSettings() []allocator.Settings {
	texts := []string{"", "expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512",
		"roundup_power2_divisions:4", "roundup_power2_divisions:8"}
	if w.limits.Allowed > 0 {
		texts = append(texts, "garbage_collection_threshold:0.8")
	}
	var list []allocator.Settings
	for _, text := range texts {
		s, _, err := allocator.ParseConf(text)
		if err == nil && !s.Same(w.p.Settings) {
			list = append(list, s)
		}
	}
	return list
}

// usualChanges are the changes to programs that could matter by what the
// memory holds at its peak.
func (w *whatIf) usualChanges() []change.Change {
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
	some := func(c classify.Category, percent int64) bool { return at[c] > 0 && at[c]*100 >= all*percent }
	states := at[classify.Weights] + at[classify.Gradients] + at[classify.OptimizerState]
	defect := slices.ContainsFunc(w.classes.Leaks(), func(l classify.Leak) bool { return l.Defect })
	var list []change.Change
	for _, x := range []struct {
		matters bool
		name    string
	}{
		{some(classify.OptimizerState, 3), "optimizer=8bit"},
		{lists*20 >= all && lists > 0, "optimizer=fused"},
		{some(classify.Logits, 5), "logits=chunked"},
		{some(classify.Activations, 10), "checkpointing=full"},
		{at[classify.Activations]+at[classify.Logits] > all/5, "batch=x0.5"},
		{some(classify.KVCache, 2) && at[classify.Activations] > 0, "use_cache=off"},
		{len(t.OOMs) > 0 && states > all/3, "sharding=2"},
		{defect, "leak=fixed"},
	} {
		if c, err := change.Parse(x.name); err == nil && x.matters {
			list = append(list, c)
		}
	}
	return list
}
