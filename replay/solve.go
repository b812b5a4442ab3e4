package replay

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay/change"
)

// Solved is the largest batch or sequence with which a program fits: as a number where the
// recorded one is given, else as a part of it.
type Solved struct {
	What      string  `json:"what"` // batch or seq
	Value     float64 `json:"value"`
	PeakBytes int64   `json:"peak_bytes"` // allocated

	recorded int64 // as given; 0: not known
	most     bool  // more than that may fit, but wasn't tried
}

var solvable = map[string]string{"batch": "batch", "seq": "sequence length"}

// Bounds on the search.
const (
	solveParts = 64 // of the recorded size, where that isn't known
	solveTimes = 4  // the recorded size
)

// solve looks for the largest batch or sequence that fits, by replays: of those that lie
// between two, one fits and one doesn't.
func (w *whatIf) solve() error {
	what, recorded := w.o.Solve, w.o.SolveFrom
	if what == "" {
		return nil
	}
	var capacity int64
	if len(w.o.Capacities) > 0 {
		capacity = w.o.Capacities[0]
	}
	s, capacity := w.scenario(w.p.Settings, capacity)
	if s.most() == 0 {
		return fmt.Errorf("--solve %s: the GPU's size isn't known: give --capacity", what)
	}
	parts := int64(solveParts)
	if recorded > 0 {
		parts = recorded
	}
	try := func(k int64) (*trial, []change.Change, error) {
		c, err := change.Parse(fmt.Sprintf("%s=x%g", what, float64(k)/float64(parts)))
		if err != nil {
			return nil, nil, err
		}
		p, done, err := w.p.Apply([]change.Change{c}, w.classes)
		if err != nil {
			return nil, nil, err
		}
		x := &trial{name: w.name(w.p.Settings, capacity, []change.Change{c}), scenario: s, capacity: capacity}
		w.play(x, p)
		return x, done, nil
	}
	low, high := int64(0), solveTimes*parts
	var best *trial
	var peak int64
	var changes []change.Change
	for low < high {
		k := (low + high + 1) / 2
		x, done, err := try(k)
		if err != nil {
			return fmt.Errorf("--solve %s: %w", what, err)
		}
		needs := x.result.FinalAllocated + w.yetToMake(&x.result, fmt.Sprintf("%s=x%g", what, float64(k)/float64(parts)))
		if x.result.OOM || needs > s.most() {
			high = k - 1
		} else {
			low, best, changes, peak = k, x, done, max(x.result.PeakAllocated, needs)
		}
	}
	if best == nil {
		w.unsolved = fmt.Sprintf("No %s fits %s: without any, too much is in use.", solvable[what], units.Size(capacity))
		return nil
	}
	w.keep(best, changes...)
	value := float64(low) / float64(parts)
	if recorded > 0 {
		value = float64(low)
	}
	w.Solved = &Solved{What: what, Value: value, PeakBytes: peak, recorded: recorded,
		most: low == solveTimes*parts}
	return nil
}

// Place is a line of code.
type Place struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     *int   `json:"line"`
}

// text names it by its function and its file without the folder.
func (p *Place) text() string {
	file := strings.ReplaceAll(p.File, `\`, "/")
	text := strings.TrimSpace(p.Function + " " + file[strings.LastIndexByte(file, '/')+1:])
	if p.Line != nil {
		text += fmt.Sprintf(":%d", *p.Line)
	}
	return text
}

// phaseText is a phase in a sentence.
func phaseText(phase string) string {
	switch phase {
	case words.Forward.String(), words.Backward.String():
		return "the " + phase + " pass"
	case words.Optimizer.String():
		return "the optimizer's part"
	}
	return phase
}

// solvedText is the answer in a sentence.
func (w *whatIf) solvedText() string {
	x := w.Solved
	if x == nil {
		return w.unsolved
	}
	name := solvable[x.What]
	size := fmt.Sprintf("%s × %.3g", name, x.Value)
	if x.recorded > 0 {
		size = fmt.Sprintf("%s %d → %.0f", name, x.recorded, x.Value)
	}
	text := strings.ToUpper(size[:1]) + size[1:] + fmt.Sprintf(" fits: peak %s allocated", units.Size(x.PeakBytes))
	if x.most {
		text += ", and more may"
	}
	if len(w.p.Timeline.OOMs) > 0 {
		text += ", as far as recorded"
	}
	return text + "."
}

// failsAt says where a scenario runs out of memory.
func (w *whatIf) failsAt(o *Outcome, view *frames.View) {
	if o.OOMEvent == nil {
		return
	}
	t := w.p.Timeline
	if w.classes != nil {
		for i := range w.classes.Steps {
			s := &w.classes.Steps[i]
			if s.FirstEvent > *o.OOMEvent || *o.OOMEvent > s.LastEvent {
				continue
			}
			o.FailedStep = new(s.Number)
			for _, p := range s.Phases {
				if p.FirstEvent <= *o.OOMEvent && *o.OOMEvent <= p.LastEvent {
					o.FailedPhase = new(p.Phase.String())
				}
			}
		}
	}
	if *o.OOMEvent >= len(t.Device.Events.Stack) {
		return
	}
	stack := t.Device.Events.Stack[*o.OOMEvent]
	if stack == 0 {
		return
	}
	line := view.Site(stack)
	at := line.Line
	if line.CalledFrom.File != "" {
		at = line.CalledFrom
	}
	if at.File == "" {
		return
	}
	o.FailedAt = &Place{Function: at.Function, File: at.File}
	if at.Line > 0 {
		o.FailedAt.Line = new(at.Line)
	}
}

// capacityText answers for each size whether the run fits, and where it fails.
func (w *whatIf) capacityText() string {
	var out []string
	for _, capacity := range w.o.Capacities {
		var plain, other *Outcome
		for i := range w.Scenarios[1:] {
			o := &w.Scenarios[i+1]
			if o.given != capacity {
				continue
			}
			switch {
			case o.Settings == w.Scenarios[0].Settings && len(o.Changes) == 0:
				plain = o
			case o.Fits != nil && *o.Fits && (other == nil || o.PeakAllocatedBytes < other.PeakAllocatedBytes):
				other = o
			}
		}
		if plain == nil {
			continue
		}
		size := units.Size(capacity)
		if w.Solved != nil {
			size += " as recorded" // not what was solved for
		}
		text := size + ": " + plain.fitText()
		if plain.OOM && other != nil {
			text += "; with " + strings.Join(other.whatElse(w.Scenarios[0].Settings), " and ") + " it fits"
		}
		out = append(out, text+".")
	}
	return strings.Join(out, " ")
}

// whatElse is what a scenario changes.
func (o *Outcome) whatElse(settings string) []string {
	if o.Settings == settings {
		return o.Changes
	}
	return append([]string{o.Settings}, o.Changes...)
}

// fitText says whether a scenario goes through, what it needs, and where it fails.
func (o *Outcome) fitText() string {
	needs, reserved := units.Size(*o.NeedsBytes), units.Size(o.needsReserved)
	missing := *o.NeedsBytes - o.most
	switch {
	case o.Answer == words.Fits && !o.Survived:
		return fmt.Sprintf("fits, peak %s reserved", units.Size(o.PeakReservedBytes))
	case o.Answer == words.Fits:
		return fmt.Sprintf("fits, peak %s reserved as far as recorded", reserved)
	case o.OOM && missing > 0:
		return fmt.Sprintf("doesn't fit: the run needs %s (%s reserved), %s more than PyTorch could have; it is out of memory%s",
			needs, reserved, units.Size(missing), o.failsWhere())
	case o.OOM:
		return fmt.Sprintf("doesn't fit: the run needs %s of the %s that PyTorch could have, but reserves %s; it is "+
			"out of memory%s",
			needs, units.Size(o.most), reserved, o.failsWhere())
	case missing > 0:
		return fmt.Sprintf("doesn't fit: the request that failed does, but the run needs about %s, %s more than "+
			"PyTorch could have",
			needs, units.Size(missing))
	case o.Answer == words.MeetsThenFails:
		return fmt.Sprintf("doesn't fit: the request that failed does, but the step still has to make about %s, more "+
			"than the %s "+
			"that are left then", units.Size(o.rest), units.Size(*o.leftThen))
	}
	return fmt.Sprintf("the request that failed fits, peak %s reserved; what follows isn't recorded",
		units.Size(o.PeakReservedBytes))
}

// failsWhere is where it runs out of memory.
func (o *Outcome) failsWhere() (text string) {
	if o.FailedPhase != nil {
		text = " in " + phaseText(*o.FailedPhase)
	}
	if o.FailedStep != nil {
		text += fmt.Sprintf(" of step %d", *o.FailedStep)
	}
	if o.FailedAt != nil {
		text += " at " + o.FailedAt.text()
	}
	return text
}
