package checks

import (
	"fmt"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Forward passes whose graph is kept, and dropped without a backward pass:
// evaluation or generation that was meant to keep nothing.
var missingNoGrad = Check{
	ID: "missing_no_grad", Group: mistakes, Severity: "warning; info where a recording without stacks begins late",
	Doc: "A forward pass builds an autograd graph that no backward pass uses. It appears in two cases.\n\n* A graph of " +
		"at least 16 tensors of 4 kinds, a quarter of what the pass made, is dropped all at once, and no backward " +
		"pass has run since it was made. A recording without any backward pass needs two such graphs, or that " +
		"autograd is seen to let go.\n\n* Graphs are kept. In a recording that trains nothing, one is still whole " +
		"during the next forward pass. In a program that trains, they pile up without a backward pass, as in a " +
		"validation whose results are kept.\n\nThe line is the innermost call that the graph was built under and that " +
		"training doesn't go through.",
	Saves: "from the recorded curve without the saved tensors after the operations that read them.",
	Needs: []facts.Need{facts.Unused, facts.Phases},
	Run: func(p *facts.Pass) (out []Draft) {
		if x := facts.Unused.Of(p); x != nil {
			out = append(out, graphsDropped(p, x))
		}
		for i := range p.Dev.Leaks {
			l := &p.Classes.Leaks()[i]
			mostly := (l.Kind == classify.StaleOutputs || l.Untrained) &&
				p.Mostly(l.Allocations, facts.Unused.Of(p).Allocations())
			if !mostly && !p.Dev.Leaks[i].Awaited && p.UnusedGraph(l) { // else the graphs behind them are reported
				out = append(out, graphsKept(p, &p.Dev.Leaks[i], l))
			}
		}
		return out
	},
}

func graphsDropped(p *facts.Pass, x *facts.Graphs) Draft {
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.8},
		Spells: p.AfterUse(x.IDs), Without: "without the graphs,"}
	once, trains := p.MostAtOnce(x.IDs), facts.Phases.Of(p).Trains
	d.Title = fmt.Sprintf("Missing no_grad: forward passes keep up to %s for a backward pass that never runs", units.Bytes(once))
	where := "the forward passes that are not trained on"
	bytes := p.ByStack(x.IDs)
	delete(bytes, 0) // what is older than the recording says nothing against the others
	if line := p.CoveringLineBut(bytes, trainedThrough(p)); line.File != "" {
		where = "the call in " + facts.LineText(line)
		d.happens("called in", line)
	}
	how := "nothing that was saved for backward is read by one"
	if x.Proven {
		how = "autograd lets go of saved tensors outside any backward pass"
		d.Confidence = 0.97
	}
	graphs := "an autograd graph of " + units.Bytes(x.Bytes) + " was dropped without a backward pass"
	if x.Count > 1 {
		graphs = fmt.Sprintf("%s were dropped without a backward pass, the largest of %s", units.Plural(x.Count,
			"autograd graph"), units.Bytes(x.Bytes))
	}
	d.Evidence = append(d.Evidence, graphs+": "+how)
	if once > x.Bytes+x.Bytes/2 {
		d.Evidence = append(d.Evidence, "a graph stays until the next forward pass is through: something holds its output so "+
			"long")
	}
	if !trains {
		d.Evidence = append(d.Evidence, "no backward pass in the whole recording")
	}
	if !trains && p.Dev.Stacks == "none" && p.T.Older() > 0 { // caches of passes before the recording may go so, too
		d.Severity, d.Confidence = report.Info, 0.5
	}
	d.advise("missing_no_grad", "where", where)
	return d
}

// graphsKept is about graphs that needn't be there at all, in a program that trains,
// or not as far as was recorded.
func graphsKept(p *facts.Pass, l *report.Leak, found *classify.Leak) Draft {
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: min(l.Confidence, 0.8)},
		Spells: p.AfterUse(found.Allocations), Without: "without the graphs,"}
	d.Title = fmt.Sprintf("Missing no_grad: graphs of %s are kept, and no backward pass uses them", units.Bytes(l.TotalBytes))
	at := "the forward pass"
	if l.File != nil {
		line := p.CallOf(found)
		at = "the call in " + facts.LineText(line)
		d.happens("called in", line)
	}
	id := "missing_no_grad"
	if !facts.Phases.Of(p).Trains {
		id += ".untraced"
	}
	d.advise(id, "where", at)
	return d
}

// trainedThrough are the user's lines under which tensors were made that a backward
// pass used up: without gradients there, nothing would be trained.
func trainedThrough(p *facts.Pass) map[frames.Line]bool {
	spans := facts.Phases.Of(p).Spans
	inBackward := func(event int) bool {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].FirstEvent > event }) - 1
		return i >= 0 && spans[i].Phase == classify.Backward && event <= spans[i].LastEvent
	}
	seen, lines := map[snapshot.StackID]bool{}, map[frames.Line]bool{}
	for i, phase := range p.Classes.Phase {
		stack, freed := p.T.Stack(timeline.AllocationID(i)), p.T.FreeRequested[i]
		if phase != classify.Forward || seen[stack] || freed == timeline.Never || !inBackward(int(freed)) {
			continue
		}
		seen[stack] = true
		for _, line := range p.View.User(stack) {
			lines[line] = true
		}
	}
	return lines
}
