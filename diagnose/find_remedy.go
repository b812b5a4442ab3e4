package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
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
func (e *examination) remedy(d *draft, o *timeline.OOM, s shortage, dev *report.Device) {
	name, _ := largest(&dev.AtPeak)
	d.Fix = ptr(firstChange(name))
	list := e.tryRemedies(o, s, dev)
	if len(list) == 0 {
		return
	}
	best := list[0]
	d.SavesBytes = ptr(best.saves)
	d.Fix = ptr(e.remedyText(best.change, dev) + ": " + enough(best.saves, s))
	if best.saves < s.missing {
		d.Fix = ptr(*d.Fix + ". Besides: " + lowerFirst(firstChange(name)))
	}
	var tried []string
	for _, r := range list {
		tried = append(tried, fmt.Sprintf("%s %s", r.change, units.Bytes(r.saves)))
	}
	d.Evidence = append(d.Evidence, "would have saved, by replay: "+strings.Join(tried, ", "))
}

// enough says whether a saving makes the room that was missing.
func enough(saves int64, s shortage) string {
	switch left := saves - s.missing; {
	case s.missing == 0 && s.after > 0:
		return fmt.Sprintf("makes room for %s", units.Bytes(saves))
	case s.missing == 0:
		return fmt.Sprintf("makes room for %s, for what comes after it, too, which isn't recorded", units.Bytes(saves))
	case left < 0:
		return fmt.Sprintf("not enough by itself, %s would still be missing", units.Bytes(-left))
	case s.still == 0 && s.after == 0:
		return fmt.Sprintf("makes up for the %s missing, with %s left for what comes after it, which isn't recorded",
			units.Bytes(s.missing), units.Bytes(left))
	default:
		return fmt.Sprintf("makes up for the %s missing, with %s to spare", units.Bytes(s.missing), units.Bytes(left))
	}
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// remedyText is a remedy with its line: the loss's for scores, if a stack shows it,
// else the one that asks for most of such memory at the peak.
func (e *examination) remedyText(change string, dev *report.Device) string {
	for _, r := range remedies {
		if r.change != change {
			continue
		}
		at := ""
		if len(r.about) == 1 {
			site := topSite(dev.Sites, r.about[0])
			if r.about[0] == classify.Logits {
				site = cmp.Or(e.lossSite(), site)
			}
			if site != nil {
				at = " at " + userLine(site)
			}
		}
		return advice.Find(change).With("at", at, "optimizer", e.eightBit()).Text
	}
	return change
}

// eightBit is the 8-bit optimizer in the place of the program's.
func (e *examination) eightBit() string {
	for i := range e.classes.Leaks() {
		if l := &e.classes.Leaks()[i]; l.Kind == classify.FirstStepState {
			return l.EightBit()
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
func (e *examination) tryRemedies(o *timeline.OOM, s shortage, dev *report.Device) []tried {
	var names []string
	for _, r := range remedies {
		if e.matters(r.change, r.about, dev) {
			names = append(names, r.change)
		}
	}
	var out []tried
	for _, x := range e.changed(names) {
		saves := x.Allocated
		if x.Change == "optimizer=8bit" && s.still > o.Requested {
			saves = e.scaleState(saves, o, s, dev)
		}
		if x.Impossible == "" && saves >= 1<<20 {
			out = append(out, tried{x.Change, saves})
		}
	}
	slices.SortStableFunc(out, func(a, b tried) int { return cmp.Compare(b.saves, a.saves) })
	return out
}

func (e *examination) matters(change string, about []classify.Category, dev *report.Device) bool {
	switch change {
	case "leak=fixed":
		return slices.ContainsFunc(dev.Leaks, func(l report.Leak) bool { return l.Defect && l.Kind != classify.GradientsKept })
	case "gradients=set_to_none":
		return slices.ContainsFunc(dev.Leaks, func(l report.Leak) bool { return l.Kind == classify.GradientsKept })
	}
	var bytes int64
	for _, c := range about {
		bytes += dev.AtPeak.Categories[c.String()]
	}
	return share(bytes, dev.AtPeak.AllocatedBytes) >= 5
}

// scaleState takes what a change saves of the optimizer's state so far to all
// of it: the first step had made only a part.
func (e *examination) scaleState(saves int64, o *timeline.OOM, s shortage, dev *report.Device) int64 {
	so := dev.AtPeak.Categories[classify.OptimizerState.String()] + o.Requested
	if so <= 0 || saves <= 0 {
		return saves
	}
	return int64(float64(saves) * float64(dev.AtPeak.Categories[classify.OptimizerState.String()]+s.still) / float64(so))
}
