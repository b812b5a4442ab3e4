package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// graphsLeft finds graphs of passes that later backward passes didn't free, where
// too few steps show them for a leak: of an evaluation before training, or of
// steps that a ring buffer has dropped.
func (e *examination) graphsLeft(dev *report.Device, f *facts) []draft {
	before := -1 // the last forward pass whose backward pass is over
	for k := 2; k < len(f.spans); k++ {
		if f.spans[k].Phase != classify.Backward && f.spans[k-1].Phase == classify.Backward {
			for j := k - 2; j >= 0 && f.spans[j].Phase != classify.Optimizer && f.spans[j].Phase != classify.Backward; j-- {
				before = f.spans[j].FirstEvent
			}
		}
	}
	var ids []timeline.AllocationID
	var bytes int64
	recorded := false
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c != classify.Activations || e.t.Stack(id) == 0 || e.t.FreeRequested[id] != timeline.Never {
			continue
		}
		if born := e.t.Born[id]; born != timeline.Never {
			if int(born) >= before {
				break
			}
			recorded = true
		}
		ids = append(ids, id)
		bytes += e.t.Allocated[id]
	}
	if before < 0 || len(ids) < bulkLeast || bytes < 64<<20 || share(bytes, dev.AtPeak.AllocatedBytes) < 5 ||
		e.mostly(ids, e.leaked()) || e.mostly(ids, e.unused) {
		return nil
	}
	fix := (&classify.Leak{Kind: classify.RetainedGraph}).Fix()
	d := draft{Finding: report.Finding{ID: classify.RetainedGraph, Severity: report.Warning, Confidence: 0.7, Fix: &fix.Text,
		Code: fix.Code}, without: "without them,"}
	when := "passes before the recording"
	if recorded {
		when = "earlier passes"
	}
	d.Title = fmt.Sprintf("Graphs of %s are still there: %s", when, units.Bytes(bytes))
	if line := e.coveringLine(e.byStack(ids)); line.File != "" {
		d.Evidence = append(d.Evidence, "called in "+lineText(line))
	}
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s that forward passes made, and a backward pass of a later one has run since",
		units.Plural(len(ids), "block")))
	d.spells = e.afterUse(ids)
	return []draft{d}
}
