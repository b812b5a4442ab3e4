package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var growingList = Check{
	ID: classify.GrowingList, Group: mistakes, Severity: "warning",
	Doc: "Tensors pile up from step to step: those of one call site survive their step, and the next, again and again. " +
		"What comes to less than 2 % of the peak in fewer than 16 steps may be a container that fills up, and is told " +
		"as information. What grew no more in the last third of the steps isn't told.\n\nWith stacks it appears in " +
		"three more cases.\n\n* A tensor is joined again in every step with `torch.cat`, larger each time.\n\n* An " +
		"optimizer was made again, and the earlier state is still there, because a scheduler holds its " +
		"optimizer.\n\n* Three or more copies of the model pile up, as when every best one so far is kept.\n\nThe " +
		"line is the innermost of the program's own, forward methods of modules aside; the caller is named, too, as " +
		"it may keep what the line makes. \"made in\" names the line that made most of it.",
	Saves: "from the recorded curve with each tensor freed at the end of its step; of optimizers and copies, with the " +
		"earlier ones freed as soon as the next is made.",
	Needs: []facts.Need{facts.Unused, facts.MadeAgain},
	Run: func(p *facts.Pass) (out []Draft) {
		if x := facts.MadeAgain.Of(p); x != nil && !x.Model {
			out = append(out, optimizerOrCopiesAgain(p, x))
		}
		return append(out, leaksOf(p, classify.GrowingList, func(d *Draft, l *classify.Leak) bool { return kept(p, d, l) })...)
	},
}

// optimizerOrCopiesAgain is about optimizers that a program made again, or copies of
// its model that pile up.
func optimizerOrCopiesAgain(p *facts.Pass, x *facts.Again) Draft {
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.9, Kind: report.MadeAgain}, Spells: x.Spells,
		Without: "without the earlier ones,"}
	n, line := len(x.Made), p.CoveringLine(p.ByStack(x.Made[0].IDs))
	if x.Optimizer {
		d.Title = fmt.Sprintf("An optimizer was made %s, and the state of %s is still there: %s", units.Times(n), earlier(n-1),
			units.Bytes(x.Bytes()))
		d.happens("stepped at", line)
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s of state for the same weights, each made in one step",
			units.Plural(n, "set")))
		d.advise("stored.optimizer")
		return d
	}
	d.Without = "with the last copy alone,"
	d.Title = fmt.Sprintf("Copies of the model pile up: %d were made, and %s are still there: %s", n, earlier(n-1),
		units.Bytes(x.Bytes()))
	d.happens("made at", line)
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s in each, of the sizes that the model's weights have",
		units.Plural(len(x.Made[0].IDs), "block")))
	d.advise("stored.copies")
	return d
}

// earlier names those before the last.
func earlier(n int) string {
	if n == 1 {
		return "the first"
	}
	return fmt.Sprintf("the earlier %d", n)
}
