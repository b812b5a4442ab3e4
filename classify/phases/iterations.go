package phases

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
)

// iterations are the starts of steps by those of the stretches that end with updates: an iteration begins with what the first
// one began with.
type iterations struct {
	*facts
	start int     // of the first one
	first []int64 // what it began with
	lead  int     // how much it allocates before its backward pass
}

// from gives the steps' starts.
func (a iterations) from(stretches []int) []int {
	if !a.Trains || len(stretches) < 2 {
		return stretches
	}
	a.start = stretches[0]
	a.first, a.lead = a.beginning(a.start), a.before(a.start, stretches[1])
	starts, leads := stretches[:1:1], []int{a.lead}
	for k, s := range stretches[1:] {
		end := a.Last
		if k+2 < len(stretches) {
			end = stretches[k+2]
		}
		lead := a.before(s, end)
		if lead < 0 && end == a.Last && a.looksBack(s, a.Last) {
			break
		}
		if from := a.ahead(s, lead-a.lead); lead > a.lead && a.looksBack(s, from) && slices.Equal(a.beginning(from), a.first) {
			s, lead = from, a.lead
		}
		starts, leads = append(starts, s), append(leads, lead)
	}
	return a.rounds(starts, leads)
}

// before counts what is allocated from one event up to the first backward pass that begins before another; -1: none does.
func (a iterations) before(from, end int) int {
	if r := a.BackwardAfter(a.Run(from)); r != nil && r.First < end {
		return a.made(from, r.First)
	}
	return -1
}

// ahead is the event of the allocation that is so many later.
func (a iterations) ahead(from, allocs int) int {
	for i := range a.allocs(from, a.Last) {
		if allocs <= 0 {
			return i
		}
		allocs--
	}
	return a.Last
}

// beginning is what is allocated first from an event on: by which lines, without stacks in which sizes and whether for long.
func (a iterations) beginning(from int) (keys []int64) {
	const long = 32 // events
	for i := range a.allocs(from, a.Last) {
		if len(keys) == runLength {
			break
		}
		key := int64(a.Events.StackOf(i))
		if !a.Recorded.Allocs {
			key = a.Events.Size[i]<<1 | int64(AsInt(a.Freed(a.Timeline.Of[i])-i > long))
		}
		keys = append(keys, key)
	}
	return keys
}

// looksBack tells an evaluation after an update from passes of the next step, or one that the recording cuts off: of what it
// makes far less is kept than of as much of the first pass.
func (a iterations) looksBack(from, to int) bool {
	const few, part = 16, 4
	made := a.made(from, to)
	usual := a.kept(a.start, a.ahead(a.start, min(made, a.lead)))
	return made >= few && a.kept(from, to)*part <= usual && !a.FailedBetween(from, to)
}

// kept counts what is there at the end of a stretch, of that which it makes.
func (a iterations) kept(from, to int) (n int) {
	for i := range a.allocs(from, to) {
		n += AsInt(a.Freed(a.Timeline.Of[i]) >= to)
	}
	return n
}

// rounds leaves the starts of iterations with several updates: each begins as the first did, with passes that aren't trained
// on, whose results the updates share.
func (a iterations) rounds(starts, leads []int) []int {
	usual := slices.Sorted(slices.Values(leads))[len(leads)/2]
	if len(starts) < 4 || usual < 0 || a.lead*2 < usual*3 || !a.shared(starts) {
		return starts
	}
	var out []int
	every := 0 // so many updates
	for k, s := range starts {
		if !slices.Equal(a.beginning(s), a.first) {
			continue
		}
		if every == 0 {
			every = k
		}
		if every > 0 && k%every > 0 || every == 1 {
			return starts
		}
		out = append(out, s)
	}
	if len(out) < 2 {
		return starts
	}
	return out
}

// shared reports whether what the first iteration makes before its backward pass is used by the next update, too, and goes.
func (a iterations) shared(starts []int) bool {
	for i := range a.allocs(starts[0], starts[1]) {
		if a.Phases[i] == meaning.Backward {
			break
		}
		id := a.Timeline.Of[i]
		if f := a.Freed(id); a.Timeline.Requested(id) > Scalar && f > starts[2] && f < a.Last {
			return true
		}
	}
	return false
}

// namedSteps are the events at which iterations begin that the program or a profiler names, where they are all. Of several names
// the first counts, which stands around the others; one of the optimizer's own step is none.
func namedSteps(f *facts, ends []int) (starts []int) {
	first := ""
	if f.Events.TimeUS == nil {
		return nil
	}
	for _, n := range f.Timeline.Snapshot.Annotations {
		name := strings.Trim(strings.ToLower(f.Timeline.Snapshot.String(n.Name)), "#:_ 0123456789")
		here := n.Device == f.Timeline.Device.Ordinal || n.Device < 0
		if n.Start && here && rangesOfSteps[name] && name == cmp.Or(first, name) {
			first = name
			if i := f.allocAt(n.TimeUS); i < f.Last && (len(starts) == 0 || i > starts[len(starts)-1]) {
				starts = append(starts, i)
			}
		}
	}
	if len(starts) < 2 || len(ends) > 0 && starts[0] > ends[0] || f.Phases[starts[1]] == meaning.Optimizer {
		return nil
	}
	return starts
}

// allocAt is the first event that allocates from a time on.
func (f *facts) allocAt(timeUS int64) int {
	for i := range f.allocs(f.eventAt(timeUS), f.Last) {
		return i
	}
	return f.Last
}
