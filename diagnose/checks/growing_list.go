package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var growingList = Check{
	ID: classify.GrowingList,
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
		d.Title = fmt.Sprintf("An optimizer was made %s, and the state of %s is still there: %s", facts.Times(n), earlier(n-1),
			units.Bytes(x.Bytes()))
		d.happens("stepped at", line)
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s of state for the same weights, each made in one step",
			units.Plural(n, "set")))
		d.Fix = ptr("Keep one optimizer and change its settings, or let go of the old one and of all that refers to it, such " +
			"as " +
			"its learning-rate scheduler, before a new one is made")
		d.Code = "for group in optimizer.param_groups:\n    group[\"lr\"] = lr"
		return d
	}
	d.Without = "with the last copy alone,"
	d.Title = fmt.Sprintf("Copies of the model pile up: %d were made, and %s are still there: %s", n, earlier(n-1),
		units.Bytes(x.Bytes()))
	d.happens("made at", line)
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s in each, of the sizes that the model's weights have",
		units.Plural(len(x.Made[0].IDs), "block")))
	d.Fix = ptr("Keep the best one only, and on the host: what holds the earlier ones is a list, a dict or a variable of the " +
		"loop")
	d.Code = "best = {k: v.to(\"cpu\", copy=True) for k, v in model.state_dict().items()}"
	return d
}

// earlier names those before the last.
func earlier(n int) string {
	if n == 1 {
		return "the first"
	}
	return fmt.Sprintf("the earlier %d", n)
}
