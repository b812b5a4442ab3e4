package checks

import (
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
)

var firstStepState = Check{
	ID: classify.FirstStepState, Group: recording, Severity: "info",
	Doc: "Memory jumps once, in the first optimizer step: its state. This is no leak. Where that step failed, the finding " +
		"says how much of the state was still to come. A single step shows it, so in JSON it is `suspected`, as everything is " +
		"that fewer than three steps show.",
	Saves: "by replay with `optimizer=8bit`; where the step failed, the finding about the failure says it.",
	Needs: []facts.Need{facts.ToCome},
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.FirstStepState, func(d *Draft, l *classify.Leak) bool {
			d.Change = "optimizer=8bit"
			such := "AdamW or Adafactor"
			if name := strings.TrimSuffix(EightBit(l), "8bit"); name != "AdamW" {
				such = name
			}
			d.Fix = ptr("Where room is missing: an optimizer that keeps fewer bytes for each parameter, such as an 8-bit " + such)
			if rest := unmade(p); rest > 0 {
				d.Change = ""
				d.Title += " until it failed"
				d.Evidence = append(d.Evidence, units.Bytes(rest)+" of it were still to come")
			}
			return true
		})
	},
}

// unmade is what an optimizer's first step that failed had yet to make of its state.
func unmade(p *facts.Pass) int64 {
	for i := range min(len(p.Dev.OOMs), facts.MaxExplained) {
		o := &p.T.OOMs[i]
		if phase := p.Dev.OOMs[i].Phase; phase != nil && *phase == classify.Optimizer.String() {
			if still := p.StillToCome(o); still > o.Requested {
				return still
			}
		}
	}
	return 0
}
