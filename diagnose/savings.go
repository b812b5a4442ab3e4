package diagnose

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// memo is what rules have worked out and others need, too.
type memo struct {
	replayed      *replay.Program
	tried         bool // replayed was asked for
	settingsDoc   *replay.Document
	settingsTried bool
	savings       map[string]replay.Saving       // by change
	toCome        map[int]int64                  // by event of a failed request
	messages      map[int64]*evidence.OOMMessage // about failed requests, by what those asked of the driver
	dropped       dropped                        // worked out before the rules begin
	attention     attentionStacks                // likewise
	sizes         map[int64]bool                 // requested bytes of weights, once asked for
	unused        []timeline.AllocationID        // of graphs that no backward pass used
	again         []timeline.AllocationID        // of earlier models and optimizers, made again since
	collects      bool                           // the peak is that of an evaluation that keeps its results
}

// draft is a finding whose savings are still to be worked out.
type draft struct {
	report.Finding
	change  string  // what a replay would change about the program; "": nothing that it knows
	setting string  // what would take its place in PYTORCH_CUDA_ALLOC_CONF
	spells  []spell // memory that wouldn't be there
	// worth is the percentage of the peak from which on changing what is no
	// mistake is worth a word.
	worth int64
	// most is what a change can save at most, where a replay lays out what is left
	// with less waste besides; 0: as much as the replay says.
	most int64
	// without says in words what the peak falls by, as in "without the graphs".
	without string
}

// spell is memory that a fix would free, from right after one event up to
// another.
type spell struct {
	from, to int
	bytes    int64
}

// Bounds on the replays of a report, in events: half a second of work for all
// of them. What lies beyond is left to the whatif command.
const (
	maxReplayed = 200_000   // of one recording
	maxReplays  = 800_000   // of all replays that weigh fixes, and again of those that weigh settings
	maxTried    = 4_000_000 // of all replays of a failure
)

// program is the recording as a program to replay, nil where it can't be or
// would take too long.
func (e *examination) program() *replay.Program {
	if e.tried {
		return e.replayed
	}
	e.tried = true
	if n := e.t.Device.Events.Len(); n == 0 || n > maxReplayed {
		return nil
	}
	p, err := replay.NewProgram(e.t)
	if err != nil {
		return nil
	}
	if check := p.Verify(); check.Refusal() != "" {
		return nil // the whatif command says why
	}
	e.replayed = p
	return p
}

// settle works out what the drafts' fixes save: by replay where it knows the
// change and the recording isn't too long, else from the lives of what would be
// gone. Both count peak allocated memory, a request that failed as met.
func (e *examination) settle(drafts []draft) []report.Finding {
	e.settleByReplay(drafts)
	e.settleByLives(drafts)
	out := make([]report.Finding, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		if d.setting != "" {
			e.settleSetting(d)
		}
		if d.SavesBytes == nil && d.change != "" && e.t.Device.Events.Len() > maxReplayed {
			d.Evidence = append(d.Evidence, fmt.Sprintf("too long to replay here: vramscope whatif --change %s says what a "+
				"change saves", d.change))
		}
		if d.SavesBytes != nil && share(*d.SavesBytes, e.t.Peaks.Allocated.Bytes) < d.worth || d.SavesBytes == nil &&
			d.worth > 1 {
			continue // what takes the room then is something else, or may be
		}
		out = append(out, d.Finding)
	}
	return out
}

func (d *draft) saves(how string, before, bytes int64) {
	if d.most > 0 {
		bytes = min(bytes, d.most)
	}
	d.SavesBytes = ptr(max(0, bytes))
	switch from, to := units.Bytes(before), units.Bytes(before-*d.SavesBytes); {
	case from != to:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory falls from %s to %s", how, from, to))
	case bytes > 0:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory hardly falls: nearly as much is in use at "+
			"another moment", how))
	default:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory stays as it is: as much is in use at another "+
			"moment", how))
	}
}

func (e *examination) settleByReplay(drafts []draft) {
	var names []string
	var of []int
	for i := range drafts {
		if drafts[i].change != "" {
			names = append(names, drafts[i].change)
			of = append(of, i)
		}
	}
	if len(names) == 0 {
		return
	}
	before := e.needed()
	for i, s := range e.changed(names) {
		if s.Impossible == "" {
			drafts[of[i]].saves("replayed with "+s.Change+",", before, s.Allocated)
		}
	}
}

// changed is what some changes save by replay, in their order; the last ones are
// left out where there would be too much to replay.
func (e *examination) changed(names []string) (list []replay.Saving) {
	p := e.program()
	if p == nil {
		return nil
	}
	if e.savings == nil {
		e.savings = map[string]replay.Saving{}
	}
	var unknown []string
	for _, name := range names {
		if _, ok := e.savings[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		most := max(0, maxReplays/e.t.Device.Events.Len()-1-len(e.savings))
		found, err := p.Saves(e.classes, unknown[:min(len(unknown), most)]...)
		if err != nil {
			return nil
		}
		for _, s := range found {
			e.savings[s.Change] = s
		}
	}
	for _, name := range names {
		s, ok := e.savings[name]
		if !ok {
			s = replay.Saving{Change: name, Impossible: "too much to replay"}
		}
		list = append(list, s)
	}
	return list
}

// needed is the largest amount of memory that the program held, or would have
// with the first request that failed.
func (e *examination) needed() int64 {
	peak := e.t.Peaks.Allocated.Bytes
	if len(e.t.OOMs) > 0 {
		peak = max(peak, e.t.OOMs[0].Allocated+e.t.OOMs[0].Requested)
	}
	return peak
}

// settleByLives takes out of the curve what is still unsettled.
func (e *examination) settleByLives(drafts []draft) {
	before := e.needed()
	for i := range drafts {
		if d := &drafts[i]; d.SavesBytes == nil && len(d.spells) > 0 {
			d.saves(d.without, before, before-e.peakWithout(d.spells))
		}
	}
}

// peakWithout is what needed would be with some memory gone. Only stretches that
// could hold more than was found at the curve's instants are walked through.
func (e *examination) peakWithout(spells []spell) int64 {
	l := newLowered(spells)
	peak := e.t.Start.Allocated - l.goneAt(timeline.NoEvent)
	for _, p := range e.t.Curve() {
		peak = max(peak, p.Allocated-l.goneAt(p.Event))
	}
	l.rewind(0)
	if len(e.t.OOMs) > 0 {
		o := &e.t.OOMs[0]
		peak = max(peak, o.Allocated+o.Requested-l.goneAt(o.Event))
		l.rewind(0)
	}
	for k, s := range e.t.Stretches {
		least := l.goneAt(s.First.Event)
		from := l.next
		for l.next < len(l.steps) && l.steps[l.next].event < s.End {
			least = min(least, l.goneAt(l.steps[l.next].event))
		}
		if s.High.Allocated-least > peak {
			l.rewind(from)
			e.t.WalkStretch(k, func(event int, level int64) { peak = max(peak, level-l.goneAt(event)) })
		}
	}
	return peak
}

// lowered is what is gone of a curve.
type lowered struct {
	steps []step // by event
	next  int
	gone  int64 // after all steps before next
}

// step is a change of what is gone, from an event on.
type step struct {
	event int
	bytes int64
}

func newLowered(spells []spell) *lowered {
	l := &lowered{steps: make([]step, 0, 2*len(spells))}
	for _, s := range spells {
		if s.from < s.to {
			l.steps = append(l.steps, step{s.from, s.bytes}, step{s.to, -s.bytes})
		}
	}
	slices.SortFunc(l.steps, func(a, b step) int { return a.event - b.event })
	return l
}

// goneAt is what is gone after an event; events are asked for in order.
func (l *lowered) goneAt(event int) int64 {
	for l.next < len(l.steps) && l.steps[l.next].event <= event {
		l.gone += l.steps[l.next].bytes
		l.next++
	}
	return l.gone
}

// rewind goes back to a step.
func (l *lowered) rewind(next int) {
	for ; l.next > next; l.next-- {
		l.gone -= l.steps[l.next-1].bytes
	}
}

// lifeOf is the time that an allocation takes room, as a spell.
func (e *examination) lifeOf(id timeline.AllocationID) spell {
	life := e.t.Life(id)
	return spell{from: life.Born, to: max(life.Freed, 0), bytes: e.t.Allocated[id]}
}

// settleSetting says what another setting would make of reserved memory.
func (e *examination) settleSetting(d *draft) {
	doc := e.settings()
	if doc == nil {
		return
	}
	for i := range doc.Scenarios[1:] {
		o := &doc.Scenarios[i+1]
		if o.Settings != d.setting || o.OOM || len(o.Changes) > 0 {
			continue
		}
		before := o.PeakReservedBytes + o.SavesBytes
		if d.SavesBytes = ptr(max(0, o.SavesBytes)); o.SavesBytes > 0 {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory falls from %s to %s", d.setting,
				units.Bytes(before), units.Bytes(o.PeakReservedBytes)))
		} else {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory doesn't fall: %s instead of %s",
				d.setting, units.Bytes(o.PeakReservedBytes), units.Bytes(before)))
		}
		return
	}
}
