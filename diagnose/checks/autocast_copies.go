package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var autocastCopies = Check{
	ID: "autocast_copies", Group: peak, Severity: "info",
	Doc: "Autocast keeps 16-bit copies of weights that take 5 % of the peak and 32 MiB.",
	Saves: "from the recorded curve without the copies; where nothing is trained, also without half of the weights that they " +
		"are copies of.",
	Needs: []facts.Need{facts.Peak, facts.Phases}, Run: findAutocastCopies,
}

func findAutocastCopies(p *facts.Pass) []Draft {
	bytes := facts.Peak.Of(p).Held(classify.AutocastCopies)
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 5 || bytes < 32<<20 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.9},
		Without: "without the copies,", Worth: 1}
	d.Title = fmt.Sprintf("Autocast keeps a 16-bit copy of the weights beside them: %s, %s of the peak", units.Bytes(bytes),
		units.Percent(bytes, p.Dev.AtPeak.AllocatedBytes))
	d.Evidence = append(facts.SiteLines(p.Dev.Sites, classify.AutocastCopies, 1), fmt.Sprintf("the weights themselves take %s",
		units.Bytes(facts.Peak.Of(p).Held(classify.Weights))))
	copied := map[int64]bool{} // sizes of weights that have a copy
	for id := range p.Each(classify.AutocastCopies) {
		d.Spells = append(d.Spells, p.LifeOf(id))
		copied[2*p.T.Requested(id)] = true
	}
	if facts.Phases.Of(p).Trains || facts.Peak.Of(p).Held(classify.OptimizerState) > 0 {
		return []Draft{d} // an optimizer needs the weights in fp32, unless it keeps a copy of its own
	}
	d.Without = "without the copies and with half of what they are made of,"
	d.advise("autocast_copies")
	d.Evidence = append(d.Evidence, "torch.autocast(\"cuda\", cache_enabled=False) keeps no copies, either: it casts in every "+
		"layer again")
	for id := range p.Each(classify.Weights) {
		if copied[p.T.Requested(id)] {
			s := p.LifeOf(id)
			s.Bytes /= 2
			d.Spells = append(d.Spells, s)
		}
	}
	return []Draft{d}
}
