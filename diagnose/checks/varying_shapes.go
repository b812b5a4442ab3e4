package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
)

var varyingShapes = Check{
	ID: classify.VaryingShapes,
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.VaryingShapes, func(d *Draft, l *classify.Leak) bool {
			if l.Untrained {
				return kept(p, d, l)
			}
			if !l.Reused() { // else segments grow already
				d.Setting = facts.Expandable
			}
			return true
		})
	},
}

var fragmentationCreep = Check{
	ID: classify.FragmentationCreep,
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.FragmentationCreep, func(d *Draft, l *classify.Leak) bool {
			if l.Untrained {
				return kept(p, d, l)
			}
			if !l.Reused() {
				d.Setting, d.Worth = facts.Expandable, 1
			}
			return true
		})
	},
}
