package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var weightsUpcast = Check{
	ID: "weights_upcast", Group: peak, Severity: ByDesign,
	Doc: "Weights took the places of others of half their size, one after the other, as `float()` does with a model in 16 " +
		"bits; such take 20 % of the peak and 256 MiB, and no gradients of their sizes were seen. Before the first gradients, " +
		"weights that were made after the cast, as adapters are, must show what is trained. The check needs the " +
		"recording's beginning.",
	Saves: "from the recorded curve with half of these weights.",
	Needs: []facts.Need{facts.Phases}, Run: findWeightsUpcast,
}

func findWeightsUpcast(p *facts.Pass) []Draft {
	ids := castUp(p)
	trained := map[int64]bool{}
	for id := range p.Each(classify.Gradients) {
		trained[p.T.Requested(id)] = true
	}
	training := facts.Phases.Of(p).Trains || p.Dev.AtPeak.Categories[classify.Activations.String()] > 0
	if training && len(trained) == 0 && !adapted(p, ids) {
		return nil
	}
	var bytes, twice int64 // of weights that took another's place, and of those that are trained
	for _, id := range ids {
		if bytes += p.T.Allocated[id]; trained[p.T.Requested(id)] {
			twice += p.T.Allocated[id]
		}
	}
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 20 || bytes < 256<<20 || 2*twice > bytes {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.7}, Without: "with half of them,"}
	d.Title = fmt.Sprintf("Weights were cast to twice their size: %s, %s of the peak", units.Bytes(bytes),
		units.Percent(bytes, p.Dev.AtPeak.AllocatedBytes))
	line := p.CoveringLine(p.ByStack(ids))
	d.happens("cast in", line)
	at := ""
	if line.File != "" {
		at = " at " + facts.LineText(line)
	}
	d.advise("weights_upcast", "at", at)
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s, each in the place of one of half its size",
		units.Plural(len(ids), "tensor")))
	for _, id := range ids {
		s := p.LifeOf(id)
		s.Bytes /= 2
		d.Spells = append(d.Spells, s)
	}
	return []Draft{d}
}

// castUp are the weights at the peak behind whose allocation one of half their size goes.
func castUp(p *facts.Pass) (ids []timeline.AllocationID) {
	const near = 8 // events from a weight to the release of what it takes the place of
	events := &p.T.Device.Events
	replaces := func(id timeline.AllocationID) bool {
		born := int(p.T.Born[id])
		for event := born + 1; event <= born+near && event < events.Len(); event++ {
			old := p.T.Of[event]
			if events.Action[event] == snapshot.FreeRequested && old != timeline.NoAllocation && p.T.Born[old] < p.T.Born[id] &&
				2*p.T.Requested(old) == p.T.Requested(id) && p.Classes.Category[old] == classify.Weights {
				return true
			}
		}
		return false
	}
	for id := range p.Each(classify.Weights) {
		if p.T.AliveAt(id, p.T.Peaks.Allocated.Event) && p.T.Born[id] != timeline.Never && replaces(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// adapted reports whether weights were made in numbers after others, in the order of their birth, as adapters are.
func adapted(p *facts.Pass, ids []timeline.AllocationID) bool {
	const part = 4 // of the others
	later := 0
	for id := range p.Each(classify.Weights) {
		if len(ids) > 0 && id > ids[len(ids)-1] && p.T.AliveAt(id, p.T.Peaks.Allocated.Event) {
			later++
		}
	}
	return later*part >= len(ids)
}
