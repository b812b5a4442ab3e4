package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
)

var varyingShapes = Check{
	ID: classify.VaryingShapes, Group: allocator, Severity: "info",
	Doc: "Most steps ask for other sizes than the step before: a quarter of their bytes in sizes that it had none of. The " +
		"bytes of the finding are how far the peaks of the steps are apart.",
	Saves: "peak reserved memory, by replay with expandable segments, unless segments grow already.",
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.VaryingShapes, func(d *Draft, l *classify.Leak) bool {
			if l.Untrained {
				return kept(p, d, l)
			}
			if !l.Expandable { // else segments grow already
				d.Setting = advice.Expandable
			}
			return true
		})
	},
}

var fragmentationCreep = Check{
	ID: classify.FragmentationCreep, Group: allocator, Severity: "info",
	Doc: "What is reserved beyond the most that was in use at once grows from step to step. A log tells it, too, where " +
		"its reserved memory grows and its allocated memory doesn't.",
	Saves: "peak reserved memory, by replay with expandable segments, unless segments grow already.",
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.FragmentationCreep, func(d *Draft, l *classify.Leak) bool {
			if l.Untrained {
				return kept(p, d, l)
			}
			if !l.Expandable {
				d.Setting, d.Worth = advice.Expandable, 1
			}
			return true
		})
	},
}
