package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/report"
)

var damage = Check{
	ID: "damage", Group: recording, Severity: "warning",
	Doc: "The file was cut off, or contradicts itself. The evidence lists the contradictions, at most ten.",
	Run: findDamage,
}

// maxDamage is how many contradictions a finding lists.
const maxDamage = 10

func findDamage(p *facts.Pass) []Draft {
	var all []string
	cut := p.T.Snapshot.Cut
	if cut >= 0 {
		all = append(all, facts.CutOff(cut, p.T.Device.Events.Len()))
	}
	all = append(append(all, p.T.Snapshot.Damage...), p.Dev.Damage...)
	if len(all) == 0 {
		return nil
	}
	var title string
	if cut >= 0 { // what else is odd about it comes of that, most likely
		title = fmt.Sprintf("The file was cut off at offset %d: what came after is not known", cut)
	} else {
		title, all = "The file contradicts itself: "+all[0], all[1:]
	}
	if len(all) > maxDamage {
		all = append(all[:maxDamage:maxDamage], fmt.Sprintf("and %d more", len(all)-maxDamage))
	}
	return []Draft{{Finding: report.Finding{Severity: report.Warning, Title: title, Evidence: all, Confidence: 1,
		Fix: advice.Text("damage")}}}
}
