package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// remedies are changes that a replay knows, with what must matter at the peak; the
// first of several that save the same is the one that asks least of the training.
var remedies = []struct {
	change string
	about  []classify.Category
}{
	{"leak=fixed", nil},
	{"gradients=set_to_none", nil},
	{"logits=chunked", []classify.Category{classify.Logits}},
	{"checkpointing=full", []classify.Category{classify.Activations}},
	{"optimizer=fused", []classify.Category{classify.OptimizerState}},
	{"optimizer=8bit", []classify.Category{classify.OptimizerState}},
	{"batch=x0.5", []classify.Category{classify.Activations, classify.Logits, classify.KVCache, classify.Inputs}},
}

// remedy looks for what would have made the room that was missing: by replay
// where that can be, else by what the memory is for.
func remedy(p *facts.Pass, d *Draft, o *timeline.OOM, s facts.Shortage) {
	name, _ := facts.Largest(&p.Dev.AtPeak)
	d.Fix = ptr(firstChange(name))
	list := tryRemedies(p, o, s)
	if len(list) == 0 {
		return
	}
	best := list[0]
	d.SavesBytes = ptr(best.saves)
	d.Fix = ptr(remedyText(p, best.change) + ": " + enough(best.saves, s))
	if best.saves < s.Missing {
		d.Fix = ptr(*d.Fix + ". Besides: " + facts.LowerFirst(firstChange(name)))
	}
	var tried []string
	for _, r := range list {
		tried = append(tried, fmt.Sprintf("%s %s", r.change, units.Bytes(r.saves)))
	}
	d.Evidence = append(d.Evidence, "would have saved, by replay: "+strings.Join(tried, ", "))
}

// enough says whether a saving makes the room that was missing.
func enough(saves int64, s facts.Shortage) string {
	switch left := saves - s.Missing; {
	case s.Missing == 0 && s.After > 0:
		return fmt.Sprintf("makes room for %s", units.Bytes(saves))
	case s.Missing == 0:
		return fmt.Sprintf("makes room for %s, for what comes after it, too, which isn't recorded", units.Bytes(saves))
	case left < 0:
		return fmt.Sprintf("not enough by itself, %s would still be missing", units.Bytes(-left))
	case s.Still == 0 && s.After == 0:
		return fmt.Sprintf("makes up for the %s missing, with %s left for what comes after it, which isn't recorded",
			units.Bytes(s.Missing), units.Bytes(left))
	default:
		return fmt.Sprintf("makes up for the %s missing, with %s to spare", units.Bytes(s.Missing), units.Bytes(left))
	}
}

// remedyText is a remedy with its line: the loss's for scores, if a stack shows it,
// else the one that asks for most of such memory at the peak.
func remedyText(p *facts.Pass, change string) string {
	for _, r := range remedies {
		if r.change != change {
			continue
		}
		at := ""
		if len(r.about) == 1 {
			site := facts.TopSite(p.Dev.Sites, r.about[0])
			if r.about[0] == classify.Logits {
				site = cmp.Or(facts.Loss.Of(p), site)
			}
			if site != nil {
				at = " at " + facts.UserLine(site)
			}
		}
		return advice.Find(change).With("at", at, "optimizer", eightBitOf(p)).Text
	}
	return change
}

// eightBitOf is the 8-bit optimizer in the place of the program's.
func eightBitOf(p *facts.Pass) string {
	for i := range p.Classes.Leaks() {
		if l := &p.Classes.Leaks()[i]; l.Kind == classify.FirstStepState {
			return EightBit(l)
		}
	}
	return "AdamW8bit"
}

// tried is a remedy with what it saves.
type tried struct {
	change string
	saves  int64
}

// tryRemedies replays the changes that could matter, the best first.
func tryRemedies(p *facts.Pass, o *timeline.OOM, s facts.Shortage) []tried {
	var names []string
	for _, r := range remedies {
		if matters(p, r.change, r.about) {
			names = append(names, r.change)
		}
	}
	var out []tried
	for _, x := range p.Changed(names) {
		saves := x.Allocated
		if x.Change == "optimizer=8bit" && s.Still > o.Requested {
			saves = scaleState(p, saves, o, s)
		}
		if x.Impossible == "" && saves >= 1<<20 {
			out = append(out, tried{x.Change, saves})
		}
	}
	slices.SortStableFunc(out, func(a, b tried) int { return cmp.Compare(b.saves, a.saves) })
	return out
}

func matters(p *facts.Pass, change string, about []classify.Category) bool {
	switch change {
	case "leak=fixed":
		return slices.ContainsFunc(p.Dev.Leaks, func(l report.Leak) bool { return l.Defect && l.Kind != classify.GradientsKept })
	case "gradients=set_to_none":
		return slices.ContainsFunc(p.Dev.Leaks, func(l report.Leak) bool { return l.Kind == classify.GradientsKept })
	}
	var bytes int64
	for _, c := range about {
		bytes += p.Dev.AtPeak.Categories[c.String()]
	}
	return facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) >= 5
}

// scaleState takes what a change saves of the optimizer's state so far to all
// of it: the first step had made only a part.
func scaleState(p *facts.Pass, saves int64, o *timeline.OOM, s facts.Shortage) int64 {
	so := p.Dev.AtPeak.Categories[classify.OptimizerState.String()] + o.Requested
	if so <= 0 || saves <= 0 {
		return saves
	}
	return int64(float64(saves) * float64(p.Dev.AtPeak.Categories[classify.OptimizerState.String()]+s.Still) / float64(so))
}

// firstChange is what usually costs least against a kind of memory, by category; ""
// where none was allocated.
func firstChange(category string) string { return advice.Find("memory." + category).Text }
