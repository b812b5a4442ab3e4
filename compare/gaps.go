package compare

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// tolerance is the share of the peak below which a difference needs no word.
const tolerance = 0.01

// gaps explains differences at one instant, the measured peak.
type gaps struct {
	*observed
	r       *Result
	x       extent
	at      int // event of the measured peak
	weights stored
	partly  bool // less of the model is here than the budget is for
	other   bool // what is here is of another size, and not of the same tensors
}

// compare goes category by category in the phase of the measured peak.
func (g *gaps) compare() {
	r := g.r
	r.Gaps = []Gap{}
	theirs := r.Categories
	for _, p := range r.Phases {
		if r.Measured.Phase != nil && p.Phase == *r.Measured.Phase && p.Phase != budget.Decode.String() {
			_, theirs = g.x.expect(p)
		}
	}
	more := r.Measured.Categories[classify.Weights.String()] - theirs[classify.Weights.String()]
	g.partly = g.weights.part < 0.95 && more < 0
	g.other = !g.partly && g.weights.missing > 0 && g.matters(more)
	for i := range classify.NumCategories {
		name := classify.Category(i).String()
		y := Gap{Category: name, Budget: theirs[name], Measured: r.Measured.Categories[name]}
		if y.Budget == 0 && y.Measured == 0 {
			continue
		}
		if d := y.Measured - y.Budget; g.matters(d) {
			if why := g.reason(classify.Category(i), d); why != "" {
				y.Reason = &why
			}
		}
		r.Gaps = append(r.Gaps, y)
	}
	slices.SortStableFunc(r.Gaps, func(a, b Gap) int {
		return -cmp.Compare(units.Abs(a.Measured-a.Budget), units.Abs(b.Measured-b.Budget))
	})
}

// matters reports whether a difference is worth a word.
func (g *gaps) matters(difference int64) bool {
	return float64(units.Abs(difference)) > tolerance*float64(g.r.Expected.PeakBytes)
}

// reason is the cause of a difference, "" when none is known.
// The first cause that fits is told.
func (g *gaps) reason(c classify.Category, more int64) string {
	if more > 0 {
		if why := g.held(c, more); why != "" {
			return why
		}
	}
	switch {
	case g.weights.foreign():
		return "the weights do not fit the configuration: it is another model's"
	case g.partly && more < 0:
		return fmt.Sprintf("%.0f %% of the model is on this device, the budget is for all of it", 100*g.weights.part)
	case c == classify.Weights && more > 0 && g.weights.copies > 1.5:
		return fmt.Sprintf("the weights are there %.1f times: a second copy, as an EMA or a reference model has",
			g.weights.copies)
	case c == classify.Weights && more > 0 && 2*g.weights.extra > more:
		return "weights that the configuration has none for: another model or adapters"
	case g.shows(compiled) && (c == classify.Activations || c == classify.Logits || c == classify.Temporary ||
		c == classify.AutocastCopies):
		return "torch.compile decides what is kept, the budget is that of eager code"
	case g.r.Setting["inference"] == true && more > 0 && len(g.t.OOMs) == 0 &&
		g.r.Measured.Categories[classify.Activations.String()] > 0 && (c == classify.Activations || c == classify.Logits):
		return "a graph is built though no backward pass follows: torch.no_grad() is missing"
	case (c == classify.Logits || c == classify.KVCache) && more > 0 && g.r.Measured.Phase != nil &&
		*g.r.Measured.Phase == budget.Optimizer.String():
		return "the step's outputs are still held when the optimizer runs: del them after the backward pass"
	case c == classify.Logits && g.ranks > 1 && 2*more > g.r.Measured.Categories[c.String()]:
		return "each rank has the logits of the whole vocabulary: parallelize the loss, too"
	case c == classify.KVCache && more > 0 && g.training:
		return "keys and values are cached in training: use_cache=False"
	case g.other && c != classify.Weights:
		return fmt.Sprintf("%d of the configuration's %d tensors are not here: another model ran than the one it describes",
			g.weights.missing, len(g.tensors))
	case g.r.Expected.Note != nil && more < 0 && g.step == nil:
		return "not yet reached when the recording ended"
	}
	return ""
}

// held looks for what earlier steps, or a growing list, keep of a category.
func (g *gaps) held(c classify.Category, more int64) string {
	for _, l := range g.c.Leaks() {
		var bytes int64
		for _, id := range l.Allocations {
			if g.c.Category[id] == c && g.t.AliveAt(id, g.at) && (l.Kind == classify.GrowingList || g.earlier(id)) {
				bytes += g.t.Requested(id)
			}
		}
		if 2*bytes < more {
			continue
		}
		switch l.Kind {
		case classify.RetainedGraph:
			return "the graphs of earlier steps are still alive" + where(l.Site)
		case classify.GrowingList:
			return "tensors of earlier steps are collected" + where(l.Site)
		case classify.StaleOutputs:
			return "the last step's outputs are still held: del them after the backward pass" + where(l.Site)
		case classify.GradientsKept:
			return "gradients are kept through the forward pass: zero_grad(set_to_none=False)"
		}
	}
	return ""
}

// earlier reports whether an allocation is older than the compared part.
func (g *gaps) earlier(id timeline.AllocationID) bool {
	born := g.t.BornAt(id)
	return born == timeline.NoEvent || born < g.x.first
}

func where(s classify.Site) string {
	if s.File == "" {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", path.Base(strings.ReplaceAll(s.File, `\`, "/")), s.Line)
}

// explainPhases names what is alive in a phase without being needed there.
func (g *gaps) explainPhases() {
	r := g.r
	for i := range r.ByPhase {
		m := &r.ByPhase[i]
		if m.PeakBytes == nil {
			continue
		}
		_, theirs := g.x.phase(r, i)
		more := *m.PeakBytes - m.Budget
		if float64(more) < tolerance*float64(r.Expected.PeakBytes) {
			continue
		}
		var stale int64
		for _, l := range g.c.Leaks() {
			if l.Kind == classify.StaleOutputs {
				stale += l.BytesPerStep
			}
		}
		why := ""
		switch {
		case stale > 0 && 2*stale > more && stale < 2*more:
			why = "the last outputs are still held: del them after the backward pass"
		case g.leaks(classify.RetainedGraph):
			why = "the graphs of earlier steps are still alive"
		default:
			if why = mostly(m.Categories, theirs, more); why == "" {
				continue
			}
		}
		m.Reason = &why
	}
}

// mostly names the category that a difference comes from, "" when it is several.
func mostly(measured, budget map[string]int64, more int64) string {
	largest, most := "", 3*more/4
	for i := range classify.NumCategories {
		name := classify.Category(i).String()
		if d := measured[name] - budget[name]; d > most {
			largest, most = name, d
		}
	}
	if largest == "" {
		return ""
	}
	return "most of it is " + strings.ReplaceAll(largest, "_", " ")
}
