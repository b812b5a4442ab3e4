package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var inputsKept = Check{
	ID: "inputs_kept", Group: peak, Severity: ByDesign,
	Doc: "Batches of other steps than that of the peak, or a whole data set, take 5 % of the peak and 64 MiB, and " +
		"aren't what a leak keeps. The confidence is 50 % when only the time of their birth tells that they are " +
		"inputs.",
	Saves: "from the recorded curve with one batch at a time.",
	Needs: []facts.Need{facts.Peak, facts.Leaked}, Run: findInputsKept,
}

func findInputsKept(p *facts.Pass) []Draft {
	const birthAlone = 80 // percent: what nothing but the time of its birth tells is less sure
	bytes := facts.Peak.Of(p).Held(classify.Inputs)
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 5 || bytes < 64<<20 {
		return nil
	}
	event := p.T.Peaks.Allocated.Event
	now := p.StepAt(event)
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.8},
		Without: "with one batch at a time,", Worth: 1}
	var kept []timeline.AllocationID
	var others, guessed int64
	blocks, before := 0, 0
	for id := range p.Each(classify.Inputs) {
		if !p.T.AliveAt(id, event) || p.Classes.Step[id] == now {
			continue
		}
		others += p.T.Allocated[id]
		if p.Classes.Confidence[id] < birthAlone {
			guessed += p.T.Allocated[id]
		}
		blocks++
		if p.Classes.Step[id] < 0 {
			before++
		}
		kept = append(kept, id)
		d.Spells = append(d.Spells, p.LifeOf(id))
	}
	if facts.Share(others, p.Dev.AtPeak.AllocatedBytes) < 5 || others < 64<<20 || p.Mostly(kept, facts.Leaked.Of(p)) {
		return nil
	}
	what, id := "Inputs that the step doesn't use stay on the GPU", "inputs_kept"
	if guessed*2 > others {
		what, id = "What may be inputs of other steps stays on the GPU", "inputs_kept.unsure"
		d.Evidence = append(d.Evidence, "nothing but when it was made tells so: a table or a buffer that every step uses "+
			"would look the same")
		d.Confidence = 0.5
	}
	d.Title = fmt.Sprintf("%s: %s, %s of the peak", what, units.Bytes(others), units.Percent(others, p.Dev.AtPeak.AllocatedBytes))
	d.Evidence = append(d.Evidence, facts.SiteLines(p.Dev.Sites, classify.Inputs, 2)...)
	if before == blocks {
		d.Evidence = append(d.Evidence, units.Plural(blocks, "block")+
			" loaded before the first step: a data set, or all of its batches")
	} else {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s, %d of them from steps before", units.Plural(blocks, "block"),
			blocks-before))
	}
	d.advise(id)
	return []Draft{d}
}
