package checks

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// activationShare is from which percentage of the peak on activations are worth
// a word, and activationLeast from how many bytes. From activationPart on they
// are where a replay shows that recomputing them saves at least recomputeWorth
// percent of it.
const (
	activationShare = 40
	activationLeast = 256 << 20
	activationPart  = 20
	recomputeWorth  = 15
)

// Activations that dominate the peak of a training step: nothing is recomputed.
var checkpointingAbsent = Check{
	ID: "checkpointing_absent", Group: peak, Severity: ByDesign,
	Doc: "Activations, leaks aside, take 40 % of the peak of a training program and 256 MiB, and none is recomputed. From 20 " +
		"% on it appears where the replay saves 15 % of the peak.",
	Saves: "by replay with `checkpointing=full`: null where no repeated layers are seen.",
	Needs: []facts.Need{savedActivations},
	Run: func(p *facts.Pass) []Draft {
		x, peak := savedActivations.Of(p), p.Dev.AtPeak.AllocatedBytes
		if x.recomputes || facts.Share(x.kept, peak) < activationPart || x.kept < activationLeast {
			return nil
		}
		d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.9},
			Change: "checkpointing=full", Worth: 1}
		if facts.Share(x.kept, peak) < activationShare {
			d.Worth = recomputeWorth
		}
		d.Title = fmt.Sprintf("Activations take %s, %s of the peak, and none is recomputed", units.Bytes(x.kept),
			units.Percent(x.kept, peak))
		d.Evidence = facts.SiteLines(p.Dev.Sites, classify.Activations, 3)
		if p.Dev.Stacks == "none" {
			d.Confidence = 0.6
			d.Evidence = append(d.Evidence, "without stacks, recomputation is told by sizes only: a part may be checkpointed "+
				"already")
		}
		d.advise("checkpointing_absent")
		return []Draft{d}
	},
}

// Activations are recomputed, but not where it would help: one recomputed part is so
// large that it makes the peak, or most of what is kept lies outside of such parts.
var checkpointingIneffective = Check{
	ID: "checkpointing_ineffective", Group: peak, Severity: ByDesign,
	Doc: "Activations are recomputed, yet those outside the checkpointed part take 40 % of the peak, or one recomputed part " +
		"does. The evidence names the lines that hold most.",
	Needs: []facts.Need{savedActivations},
	Run: func(p *facts.Pass) []Draft {
		x, peak := savedActivations.Of(p), p.Dev.AtPeak.AllocatedBytes
		d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.85}}
		switch {
		case !x.recomputes:
			return nil
		case facts.Share(x.again, peak) >= activationShare && x.again >= activationLeast:
			d.Title = fmt.Sprintf("Checkpointing saves little: what one part recomputes takes %s, %s of the peak",
				units.Bytes(x.again), units.Percent(x.again, peak))
			d.Evidence = []string{"a checkpointed part is made again as a whole: at its backward pass all of it is there"}
			d.advise("checkpointing_ineffective.together")
			if part := inLayers(p, x.again); part > 0 {
				d.falls(p.WholeNeed(), p.WholeNeed()-x.again+part, "figures")
			}
		case facts.Share(x.kept, peak) >= activationShare && x.kept >= activationLeast:
			d.Title = fmt.Sprintf("Checkpointing is on, yet activations outside it take %s, %s of the peak",
				units.Bytes(x.kept), units.Percent(x.kept, peak))
			d.Evidence = facts.SiteLines(p.Dev.Sites, classify.Activations, 3)
			where := "the parts that hold most"
			if s := facts.TopSite(p.Dev.Sites, classify.Activations); s != nil {
				where = "the part that makes most of them, at " + s.Short()
			}
			d.advise("checkpointing_ineffective.outside", "where", where)
		default:
			return nil
		}
		return []Draft{d}
	},
}

// saved are the activations of a training step at the peak; all is 0 where nothing
// is trained.
type saved struct {
	kept, again int64 // bytes, kept for backward or made again
	recomputes  bool
}

// savedActivations are those of the peak.
var savedActivations = facts.Named("saved activations", func(p *facts.Pass) (x saved) {
	if !facts.Phases.Of(p).Trains {
		return x
	}
	peak := facts.Peak.Of(p)
	x.again = peak[classify.Activations][classify.Recomputed].Bytes
	x.kept = peak.Held(classify.Activations) - x.again - peak[classify.Activations][classify.CheckpointInput].Bytes -
		p.LeakedAtPeak(classify.Activations)
	x.recomputes = slices.Contains(p.Classes.Detail, classify.Recomputed)
	return x
})

// inLayers is what a part takes that is made again at the peak where each of its repeated layers is a part of its own: that
// layer, and the input of each. 0 where fewer than three repeat.
func inLayers(p *facts.Pass, again int64) int64 {
	const few = 3
	of, layers := map[snapshot.StackID]int64{}, int64(0)
	for id := range p.Each(classify.Activations) {
		if p.Classes.Detail[id] == classify.Recomputed && p.T.AliveAt(id, p.T.Peaks.Allocated.Event) {
			of[p.T.Stack(id)]++
			layers = max(layers, of[p.T.Stack(id)])
		}
	}
	if delete(of, 0); layers < few || len(of) == 0 {
		return 0
	}
	return again/layers + again/int64(len(of))
}
