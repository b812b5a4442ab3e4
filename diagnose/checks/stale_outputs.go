package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
)

var staleOutputs = Check{
	ID: classify.StaleOutputs, Group: peak, Severity: "info",
	Doc: "The outputs of the last step are still alive during the next forward pass. The line called the modules: its " +
		"variable holds them. The saving is 0 where the peak is elsewhere.",
	Saves: "from the recorded curve with the outputs dropped at the end of their step.",
	Needs: []facts.Need{facts.Unused, facts.Phases},
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.StaleOutputs, func(d *Draft, l *classify.Leak) bool {
			if kept(p, d, l); !l.Untrained {
				d.Without = "dropped at the end of their step,"
			}
			return true
		})
	},
}
