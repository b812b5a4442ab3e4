package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
)

var staleOutputs = Check{
	ID: classify.StaleOutputs,
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.StaleOutputs, func(d *Draft, l *classify.Leak) bool {
			if kept(p, d, l); !l.Untrained {
				d.Without = "dropped at the end of their step,"
			}
			return true
		})
	},
}
