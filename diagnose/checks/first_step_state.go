package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
)

var firstStepState = Check{
	ID: classify.FirstStepState, Group: recording, Severity: "info",
	Doc: "Memory jumps once, in the first optimizer step: its state. This is no leak, and stands among the leaks as no " +
		"defect. It becomes a finding where memory runs short without a failure: then fewer bytes for each parameter " +
		"help.",
	Saves: "by replay with `optimizer=8bit`.",
	Run: func(p *facts.Pass) []Draft {
		if !p.Scarce() || len(p.Dev.OOMs) > 0 {
			return nil
		}
		return leaksOf(p, classify.FirstStepState, func(d *Draft, l *classify.Leak) bool {
			d.Change = "optimizer=8bit"
			d.Fix = advice.Text("optimizer=8bit", "optimizer", EightBit(l))
			return true
		})
	},
}
