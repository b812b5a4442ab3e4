package replay

import (
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/replay/change"
	"slices"
)

// trial is one scenario, and then what came of it.
type trial struct {
	name     string
	scenario Scenario
	capacity int64 // bytes of the GPU; 0: not known
	given    int64 // as asked for; 0: the recorded one
	result   Result
	repacked bool   // it began with the first blocks packed, as from an empty device
	unsure   bool   // its outcome depends on a limit that isn't known exactly
	needs    Result // without a limit, where a given size isn't enough
}

// piece is a number of trials of one program: changes to it are made once.
type piece struct {
	changes []change.Change // the program's; with what they take for granted once they are made
	trials  []trial
	failed  string // why a change can't be made
}

// run runs the trials, several at a time, and takes over their outcomes in their
// order: those of the recorded settings are the first piece.
func (w *whatIf) run(pieces []piece) {
	type part struct{ piece, trial int }
	var parts []part
	for i := range pieces {
		if len(pieces[i].changes) > 0 {
			parts = append(parts, part{i, -1}) // one changed program at a time and processor is enough
			continue
		}
		for k := range pieces[i].trials {
			parts = append(parts, part{i, k})
		}
	}
	together.Each(len(parts), func(i int) {
		x := &pieces[parts[i].piece]
		if k := parts[i].trial; k >= 0 {
			w.play(&x.trials[k], w.p)
		} else {
			w.playChanged(x)
		}
	})
	w.keepRecorded(pieces[0].trials)
	for i := range pieces[1:] {
		x := &pieces[1+i]
		if x.failed != "" {
			if !slices.Contains(w.refused, x.failed) { // a combination fails as its parts do
				w.refused = append(w.refused, x.failed)
			}
			continue
		}
		for k := range x.trials {
			w.keep(&x.trials[k], x.changes...)
		}
	}
	if len(w.Scenarios) > 1 { // else that none could be replayed is the answer
		for _, why := range w.refused {
			w.Notes = append(w.Notes, "not tried: "+why)
		}
	}
	if w.leftOut != "" {
		w.Notes = append(w.Notes, w.leftOut)
	}
}

func (w *whatIf) playChanged(x *piece) {
	p, done, err := w.p.Apply(x.changes, w.classes)
	if err != nil {
		x.failed = err.Error()
		return
	}
	x.changes = done
	for k := range x.trials {
		w.play(&x.trials[k], p)
	}
}

func (w *whatIf) play(x *trial, p *Program) {
	x.result = p.Run(x.scenario)
	x.repacked = p.repacks(&x.scenario)
	x.unsure = w.depends(p, x.scenario, x.result)
	if x.given > 0 && x.result.OOM {
		free := x.scenario
		free.Usable, free.Allowed = 0, 0
		x.needs = p.Run(free)
	}
}

// depends tries both ends of what the recorded limit may have been, where the
// recording doesn't tell exactly, and reports whether that makes a difference.
func (w *whatIf) depends(p *Program, s Scenario, r Result) bool {
	if w.limits.From == w.limits.To || s.recorded {
		return false
	}
	limit := &s.Usable
	if w.limits.Allowed > 0 {
		if limit = &s.Allowed; *limit != w.limits.Allowed {
			return false
		}
	} else if *limit != w.limits.Usable {
		return false
	}
	for _, end := range []int64{w.limits.From, w.limits.To} {
		*limit = end
		if other := p.Run(s); other.OOM != r.OOM {
			return true
		}
	}
	return false
}

// needs tells what the run needs in a trial of a given size, what a recorded failure kept from coming included.
func (w *whatIf) needs(o *Outcome, x *trial) {
	if x.given == 0 {
		return
	}
	o.NeedsBytes = new(max(x.needs.PeakAllocated, x.result.PeakAllocated))
	o.needsReserved = max(x.needs.PeakReserved, x.result.PeakReserved)
	for i := range w.Failures {
		if len(o.Changes) == 0 && w.repackedPeak == 0 {
			*o.NeedsBytes = max(*o.NeedsBytes, w.Failures[i].NeedsBytes)
		}
	}
}

// keep takes over the outcome of a trial.
func (w *whatIf) keep(x *trial, changes ...change.Change) {
	r, s := x.result, &x.scenario
	o := Outcome{Name: x.name, Settings: s.Settings.String(), Changes: []string{}, Assumptions: []string{},
		PeakAllocatedBytes: r.PeakAllocated, PeakReservedBytes: r.PeakReserved, FinalReservedBytes: r.FinalReserved,
		Segments: r.Segments + r.Mapped, OOM: r.OOM, Allocations: r.Allocations, ShortBytes: r.Short, Retries: r.Retries,
		DeviceCalls: r.DeviceCalls,
		Complete:    r.Until == w.p.Timeline.Device.Events.Len()-1 && !r.Survived, Survived: r.Survived, LastEvent: r.Until}
	if x.capacity > 0 {
		o.CapacityBytes = new(x.capacity)
	}
	if s.Usable > 0 {
		o.UsableBytes = new(s.Usable)
	}
	if s.Allowed > 0 {
		o.AllowedBytes = new(s.Allowed)
	}
	if o.most = s.most(); o.most > 0 && !r.OOM {
		pieces := r.Pieces
		if len(changes) > 0 { // what the change makes of requests fits in smaller ones
			pieces = 0
		}
		o.LeftBytes, o.leftThen = new(o.most-r.PeakAllocated), new(o.most-r.FinalAllocated-pieces)
	}
	o.given = x.given
	if r.OOM {
		o.OOMEvent = new(r.OOMEvent)
		w.failsAt(&o, w.view)
	}
	for _, c := range changes {
		o.Changes = append(o.Changes, c.Name)
		o.Assumptions = append(o.Assumptions, c.Assumption)
	}
	if len(w.Scenarios) > 0 {
		o.SavesBytes = w.Scenarios[0].PeakReservedBytes - o.PeakReservedBytes
		if w.repackedPeak > 0 && x.repacked {
			o.SavesBytes = w.repackedPeak - o.PeakReservedBytes // compared with its like
		}
	}
	w.answer(&o)
	w.needs(&o, x)
	w.Scenarios = append(w.Scenarios, o)
	if x.unsure {
		w.unsure = append(w.unsure, x.name)
	}
}
