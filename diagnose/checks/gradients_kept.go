package checks

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/timeline"
)

var gradientsKept = Check{
	ID: classify.GradientsKept, Group: mistakes, Severity: "warning",
	Doc: "Gradients are zeroed in place instead of freed, so they live through the next forward pass, where nobody needs " +
		"them.",
	Saves: "by replay with `gradients=set_to_none`; else from the recorded curve with gradients freed between the " +
		"optimizer step and the next backward pass.",
	Needs: []facts.Need{unusedGradients},
	Run: func(p *facts.Pass) []Draft {
		return leaksOf(p, classify.GradientsKept, func(d *Draft, l *classify.Leak) bool {
			if x := unusedGradients.Of(p); x.renewed > 0 && p.Mostly(l.Allocations, x.ids) {
				return false // no optimizer zeroes them, either
			}
			d.Change = "gradients=set_to_none"
			d.Spells, d.Without = betweenSteps(p, l.Allocations), "freed after each optimizer step,"
			return true
		})
	},
}

// betweenSteps is what gradients take from the end of an optimizer step to the
// beginning of the next backward pass.
func betweenSteps(p *facts.Pass, ids []timeline.AllocationID) (out []facts.Spell) {
	steps := p.Classes.Steps
	for i := range steps[:max(0, len(steps)-1)] {
		from, to := -1, -1
		for _, p := range steps[i].Phases {
			if p.Phase == classify.Optimizer {
				from = p.LastEvent
			}
		}
		for _, p := range steps[i+1].Phases {
			if p.Phase == classify.Backward && to < 0 {
				to = p.FirstEvent
			}
		}
		if from < 0 || to < from {
			continue
		}
		s := facts.Spell{From: from, To: to}
		for _, id := range ids {
			if p.T.AliveAt(id, from) && p.T.AliveAt(id, to) {
				s.Bytes += p.T.Allocated[id]
			}
		}
		out = append(out, s)
		if len(out) == maxSpells {
			break
		}
	}
	return out
}

// maxSpells bounds the work on recordings of very many steps.
const maxSpells = 500
