package checks

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// leaksOf are drafts about the leaks of a kind; tell completes each, or drops it.
// Defects are warnings, the rest are costs or expected.
func leaksOf(p *facts.Pass, kind string, tell func(d *Draft, l *classify.Leak) bool) (out []Draft) {
	for i := range p.Dev.Leaks {
		l, found := &p.Dev.Leaks[i], &p.Classes.Leaks()[i]
		if l.Kind != kind || toldElsewhere(p, found) || l.Awaited && len(p.Dev.OOMs) > 0 {
			continue
		}
		d := Draft{Finding: report.Finding{Severity: report.Info, Title: LeakTitle(l), Confidence: l.Confidence, Code: l.FixCode,
			Evidence: leakEvidence(l, len(p.Dev.OOMs) > 0), Leak: l}}
		if mayFill(l) {
			d.Code = ""
		}
		if l.Fix != "" && !mayFill(l) {
			d.Fix = &l.Fix
		}
		d.At = l.Made()
		if l.Defect {
			d.Severity = report.Warning
		}
		if tell(&d, found) {
			out = append(out, d)
		}
	}
	return out
}

// mayFill reports whether a list is so short and small that it may have a bound.
func mayFill(l *report.Leak) bool { return l.Kind == classify.GrowingList && !l.Defect }

// toldElsewhere reports whether another check reports what a leak keeps: graphs that
// no backward pass uses, or models and optimizers that were made again.
func toldElsewhere(p *facts.Pass, l *classify.Leak) bool {
	if (l.Kind == classify.StaleOutputs || l.Untrained) && p.Mostly(l.Allocations, facts.Unused.Of(p).Allocations()) {
		return true
	}
	switch l.Kind {
	case classify.GrowingList:
		return p.Mostly(l.Allocations, facts.MadeAgain.Of(p).Allocations())
	case classify.RetainedGraph, classify.StaleOutputs:
		return p.UnusedGraph(l)
	}
	return false
}

// kept is memory that stays beyond its step, or beyond its last use where nothing
// is trained.
func kept(p *facts.Pass, d *Draft, l *classify.Leak) bool {
	d.Spells, d.Without = beyondStep(p, l), "without what is kept,"
	if l.Untrained && l.Kind != classify.GrowingList {
		d.Spells = p.AfterUse(l.Allocations)
	}
	after := false
	for i := range p.Dev.Leaks {
		other := &p.Classes.Leaks()[i]
		switch after = after || other == l; {
		case other == l || !inOneContainer(&p.Dev.Leaks[i], d.Leak):
		case !after:
			return true // the first one of a container speaks for all
		default:
			d.Spells = append(d.Spells, beyondStep(p, other)...)
		}
	}
	return true
}

// inOneContainer reports whether two lists that grow are parts of the elements of one container: what is stored there no
// more ends both.
func inOneContainer(x, y *report.Leak) bool {
	return x.Defect && y.Defect && x.Kind == y.Kind && len(x.Holders) > 0 && len(y.Holders) > 0 &&
		facts.ContainerOf(x.Holders[0].Path, y.Holders[0].Path) != ""
}

// beyondStep is what a leak takes after the steps that made it, or the passes of one.
func beyondStep(p *facts.Pass, l *classify.Leak) []facts.Spell {
	end := make(map[int32]int, len(p.Classes.Steps))
	for i := range p.Classes.Steps {
		end[int32(p.Classes.Steps[i].Number)] = p.Classes.Steps[i].LastEvent
	}
	out := make([]facts.Spell, 0, len(l.Allocations))
	for k, id := range l.Allocations {
		s := p.LifeOf(id)
		last, ok := end[p.Classes.Step[id]]
		if next := l.Next(k); next != timeline.NoAllocation && (!ok || p.T.BornAt(next) < last) {
			last, ok = p.T.BornAt(next), true
		}
		if ok {
			s.From = max(s.From, last)
		}
		out = append(out, s)
	}
	return out
}

// leakEvidence is what shows a leak.
func leakEvidence(l *report.Leak, failed bool) (out []string) {
	if l.File != nil {
		where := *l.Function + "  " + report.ShortFile(*l.File)
		if l.Line != nil {
			where += fmt.Sprintf(":%d", *l.Line)
		}
		out = append(out, where+facts.CalledFrom(l.CalledFrom))
	}
	if at := l.Stored(); at != nil {
		out = append(out, fmt.Sprintf("stored at %s: %s", facts.PlaceText(at), *l.StoredCode))
	}
	if l.MadeIn != nil {
		out = append(out, "made in "+facts.PlaceText(l.MadeIn))
	}
	if len(l.Holders) > 0 {
		out = append(out, "held by "+heldBy(l.Holders))
	}
	if grows := l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph ||
		l.Kind == classify.FragmentationCreep; grows && l.BytesPerStep != nil {
		before := ""
		if l.Older > 0 {
			before = units.Bytes(l.Older) + " from before the first event, "
		}
		usually := ""
		if l.Uneven() {
			usually = "usually "
		}
		out = append(out, fmt.Sprintf("%s a step, seen in %s, %s%s in all", usually+units.Bytes(*l.BytesPerStep),
			units.Plural(l.Steps, "step"), before, units.Bytes(l.TotalBytes)))
	} else if l.Steps > 0 {
		out = append(out, "seen in "+units.Plural(l.Steps, "step"))
	} else {
		out = append(out, "each look found more there, and the rest came until the end")
	}
	if l.FullAtStep != nil && !failed {
		out = append(out, fmt.Sprintf("at this pace the GPU is full at step %s", units.Count(*l.FullAtStep)))
	}
	return out
}

// LeakTitle is a leak in one sentence.
func LeakTitle(l *report.Leak) string {
	suspected := ""
	if l.Suspected && (l.Kind != classify.FirstStepState || l.Confidence < 0.9) { // a single step shows it by its nature
		suspected = " (suspected: too few steps to be sure)"
		if l.Steps >= 5 {
			suspected = " (suspected)"
		}
	}
	if mayFill(l) {
		return fmt.Sprintf("A little stays from step to step: %s in %s, as where a container fills up", units.Bytes(l.TotalBytes),
			units.Plural(l.Steps, "step"))
	}
	if l.Kind == classify.VaryingShapes {
		return fmt.Sprintf("Every step asks for other sizes: the steps' peaks are up to %s apart%s", units.Bytes(l.TotalBytes),
			suspected)
	}
	if l.Awaited {
		return fmt.Sprintf("The graphs of %d passes wait for one backward pass: %s", l.Steps, units.Bytes(l.TotalBytes))
	}
	where := " from step to step"
	if l.Steps == 0 && len(l.Holders) > 0 {
		where = " in " + l.Holders[0].Path
	}
	what := map[string]string{
		classify.GrowingList:        "Tensors pile up" + where,
		classify.RetainedGraph:      "Each step's autograd graph is kept alive, with all it saved for backward",
		classify.GradientsKept:      "Gradients are zeroed in place instead of freed: they stay through forward",
		classify.StaleOutputs:       "The last step's outputs are still alive during the next forward",
		classify.FragmentationCreep: "Reserved memory grows by more than allocated memory does",
		classify.FirstStepState:     "The first optimizer step makes its state: expected, not a leak",
	}[l.Kind]
	return fmt.Sprintf("%s: %s%s", what, units.Bytes(l.TotalBytes), suspected)
}

// heldBy names variables with what they hold, the first ones of many.
func heldBy(holders []report.Holder) string {
	const most = 3
	var out []string
	for _, h := range holders[:min(len(holders), most)] {
		what := units.Plural(h.Tensors, "tensor") + ", " + units.Bytes(h.Bytes)
		if h.Tensors == 0 {
			what = "the graph behind it, " + units.Bytes(h.GraphBytes)
		} else if h.GraphBytes > 0 {
			what += "; their graphs " + units.Bytes(h.GraphBytes)
		}
		if h.IsPart() {
			what += ", of which they show " + units.Bytes(*h.ShownBytes)
		}
		if h.Bound != nil {
			what += fmt.Sprintf("; bounded at %s, now %s", units.Plural(int(*h.Bound), "element"), units.Count(int(*h.Elements)))
		}
		out = append(out, fmt.Sprintf("%s (%s)", h.Path, what))
	}
	if n := len(holders) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}
