package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var retainedGraph = Check{
	ID: classify.RetainedGraph, Group: mistakes, Severity: "warning",
	Doc: "A whole step's saved activations survive the step, because a tensor that still has its autograd graph is " +
		"kept. The line is where the last tensor of the graph is made. With stacks, graphs of earlier passes that are " +
		"still there at the end count as well, at 70 %: of an evaluation before training, or of steps that the ring " +
		"buffer dropped.",
	Saves: "from the recorded curve with the graph freed at the end of its step.",
	Needs: []facts.Need{facts.Phases, facts.Unused, facts.Leaked},
	Run: func(p *facts.Pass) []Draft {
		return append(leaksOf(p, classify.RetainedGraph, func(d *Draft, l *classify.Leak) bool { return kept(p, d, l) }),
			graphsLeft(p)...)
	},
}

// graphsLeft finds graphs of passes that later backward passes didn't free, where
// too few steps show them for a leak: of an evaluation before training, or of
// steps that a ring buffer has dropped.
func graphsLeft(p *facts.Pass) []Draft {
	before := lastPassTrained(facts.Phases.Of(p).Spans)
	var ids []timeline.AllocationID
	var bytes int64
	recorded := false
	for id := range p.Each(classify.Activations) {
		if p.T.Stack(id) == 0 || p.T.FreeRequested[id] != timeline.Never {
			continue
		}
		if born := p.T.Born[id]; born != timeline.Never {
			if int(born) >= before {
				break
			}
			recorded = true
		}
		ids = append(ids, id)
		bytes += p.T.Allocated[id]
	}
	if before < 0 || len(ids) < facts.BulkLeast || bytes < 64<<20 || facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 5 ||
		p.Mostly(ids, facts.Leaked.Of(p)) || p.Mostly(ids, awaited(p)) || p.Mostly(ids, facts.Unused.Of(p).Allocations()) {
		return nil
	}
	fix := LeakAdvice(&classify.Leak{Kind: classify.RetainedGraph}, &report.Leak{})
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.7, Fix: &fix.Text,
		Code: fix.Code}, Without: "without them,"}
	when := "passes before the recording"
	if recorded {
		when = "earlier passes"
	}
	d.Title = fmt.Sprintf("Graphs of %s are still there: %s", when, units.Bytes(bytes))
	d.happens("called in", p.CoveringLine(p.ByStack(ids)))
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s that forward passes made, and a backward pass of a later one has run since",
		units.Plural(len(ids), "block")))
	d.Spells = p.AfterUse(ids)
	return []Draft{d}
}

// lastPassTrained is the event at which the last forward pass began whose backward
// pass is over, -1 for none.
func lastPassTrained(spans []classify.PhaseSpan) int {
	before := -1
	for k := 2; k < len(spans); k++ {
		if spans[k].Phase == classify.Backward || spans[k-1].Phase != classify.Backward {
			continue
		}
		for j := k - 2; j >= 0 && spans[j].Phase != classify.Optimizer && spans[j].Phase != classify.Backward; j-- {
			before = spans[j].FirstEvent
		}
	}
	return before
}
