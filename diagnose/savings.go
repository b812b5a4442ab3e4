package diagnose

import (
	"fmt"

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
	curveOf       []int64                 // levels
	unused        []timeline.AllocationID // of graphs that no backward pass used
}

// draft is a finding whose savings are still to be worked out.
type draft struct {
	report.Finding
	change  string  // what a replay would change about the program; "": nothing that it knows
	setting string  // what would take its place in PYTORCH_CUDA_ALLOC_CONF
	spells  []spell // memory that wouldn't be there
	// byDesign marks what is no mistake: not worth a word where changing it
	// doesn't lower the peak.
	byDesign bool
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
	maxReplayed = 300_000   // of one recording
	maxReplays  = 1_200_000 // of all replays that weigh fixes, and again of those that weigh settings
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
	out := make([]report.Finding, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		if d.setting != "" {
			e.settleSetting(d)
		}
		if d.SavesBytes == nil && len(d.spells) > 0 {
			levels := e.levels()
			before, after := peakWithout(levels, nil), peakWithout(levels, d.spells)
			d.saves(d.without, before, before-after)
		}
		if d.SavesBytes == nil && d.change != "" && e.t.Device.Events.Len() > maxReplayed {
			d.Evidence = append(d.Evidence, fmt.Sprintf("too long to replay here: vramscope whatif --change %s says what a change saves", d.change))
		}
		if d.byDesign && d.SavesBytes != nil && share(*d.SavesBytes, e.t.Peaks.Allocated.Bytes) < 1 {
			continue // what takes the room then is something else
		}
		out = append(out, d.Finding)
	}
	return out
}

func (d *draft) saves(how string, before, bytes int64) {
	d.SavesBytes = ptr(max(0, bytes))
	switch {
	case bytes > 0:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory falls from %s to %s", how, report.Bytes(before), report.Bytes(before-bytes)))
	default:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory stays as it is: the peak is elsewhere", how))
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
	p := e.program()
	if p == nil {
		return
	}
	if most := maxReplays/e.t.Device.Events.Len() - 1; len(names) > most {
		names = names[:max(0, most)]
	}
	list, err := p.Saves(e.classes, names...)
	if err != nil {
		return
	}
	before := peakWithout(e.levels(), nil)
	for i, s := range list {
		if s.Impossible == "" {
			drafts[of[i]].saves("replayed with "+s.Change+",", before, s.Allocated)
		}
	}
}

// levels is the allocated memory after every event; at a request that failed,
// what it would have taken.
func (e *examination) levels() []int64 {
	if e.curveOf != nil {
		return e.curveOf
	}
	out := make([]int64, e.t.Device.Events.Len())
	e.t.Walk(func(event int, now timeline.Levels) { out[event] = now.Allocated })
	for i := range e.t.OOMs {
		if o := &e.t.OOMs[i]; o.Event >= 0 && o.Event < len(out) {
			out[o.Event] += o.Requested
			break // what came after a failure isn't what the program meant to do
		}
	}
	e.curveOf = out
	return out
}

// peakWithout is the largest level once some memory is gone.
func peakWithout(levels []int64, spells []spell) int64 {
	var peak int64
	if len(spells) == 0 {
		for _, n := range levels {
			peak = max(peak, n)
		}
		return peak
	}
	change := make([]int64, len(levels)+1)
	for _, s := range spells {
		if from, to := max(s.from, 0), min(s.to, len(levels)); from < to {
			change[from] += s.bytes
			change[to] -= s.bytes
		}
	}
	var gone int64
	for i, n := range levels {
		gone += change[i]
		peak = max(peak, n-gone)
	}
	return peak
}

// lifeOf is the time that an allocation takes room, as a spell.
func (e *examination) lifeOf(id timeline.AllocationID) spell {
	s := spell{to: e.t.Device.Events.Len(), bytes: e.t.Allocated[id]}
	if b := e.t.Born[id]; b != timeline.Never {
		s.from = int(b)
	}
	switch f := e.t.FreeRequested[id]; f {
	case timeline.Never:
	case timeline.Before:
		s.to = 0
	default:
		s.to = int(f)
	}
	return s
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
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory falls from %s to %s", d.setting, report.Bytes(before), report.Bytes(o.PeakReservedBytes)))
		} else {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory doesn't fall: %s instead of %s", d.setting, report.Bytes(o.PeakReservedBytes), report.Bytes(before)))
		}
		return
	}
}
