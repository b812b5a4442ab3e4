package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var resultsCollected = Check{
	ID: "results_collected", Group: peak, Severity: ByDesign,
	Doc: "An evaluation keeps the results of all its passes on the GPU: predictions in a list, or joined again. They " +
		"take 20 % of the peak and 64 MiB.",
	Saves: "from the recorded curve without what was carried over from pass to pass.",
	Needs: []facts.Need{facts.Collected}, Run: findResultsCollected,
}

func findResultsCollected(p *facts.Pass) []Draft {
	x := facts.Collected.Of(p)
	if x == nil {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.85}, Spells: x.Spells,
		Without: "with each pass's results on the host,", Worth: 10}
	d.Title = fmt.Sprintf("An evaluation keeps the results of all its passes on the GPU: up to %s", units.Bytes(x.Most))
	d.Evidence = []string{fmt.Sprintf("more with each of %d forward passes that no backward pass follows", x.Passes)}
	bytes := p.ByStack(x.IDs)
	delete(bytes, 0)
	d.happens("collected in", p.CoveringLine(bytes))
	d.advise("results_collected")
	return []Draft{d}
}
