package diagnose

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// gradientsUnused finds gradients that stay from one optimizer step to the next
// for good, while those of the weights that are trained are let go: their weights
// belong to no optimizer, as those of a teacher whose forward pass builds a graph.
func (e *examination) gradientsUnused(dev *report.Device, f *facts) []draft {
	const steps = 3 // of an optimizer, that such gradients outlive
	var ends []int  // of the optimizers' phases
	for i, span := range f.spans {
		if span.Phase == classify.Optimizer && i+1 < len(f.spans) {
			ends = append(ends, f.spans[i+1].FirstEvent)
		}
	}
	if len(ends) < steps {
		return nil
	}
	last := ends[len(ends)-steps] // made before, and there after all of the last ones
	d := draft{Finding: report.Finding{ID: "gradients_unused", Severity: report.Warning, Confidence: 0.75},
		without: "without these gradients,"}
	var bytes, renewed int64
	clears := e.clearedSteps()
	for i, category := range e.classes.Category {
		id := timeline.AllocationID(i)
		if category != classify.Gradients || e.classes.Detail[i] != classify.NoDetail || e.t.Born[i] == timeline.Never ||
			e.classes.Phase[i] != classify.Backward {
			continue
		}
		if _, ok := slices.BinarySearch(e.again, id); ok {
			continue // of an earlier model
		}
		switch {
		case e.t.FreeRequested[i] != timeline.Never:
			if int(e.t.Born[i]) >= last {
				renewed += e.t.Allocated[i]
			}
		case int(e.t.Born[i]) < last && clears[e.classes.Step[i]]:
			bytes += e.t.Allocated[i]
			d.spells = append(d.spells, e.lifeOf(id))
		}
	}
	if renewed == 0 || share(bytes, dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		return nil
	}
	d.Title = fmt.Sprintf("Gradients that no optimizer uses: %s stay for good", units.Bytes(bytes))
	d.Evidence = []string{fmt.Sprintf("%s were made before the last %d optimizer steps and never freed; the others are let go "+
		"and made anew", units.Plural(len(d.spells), "gradient"), steps)}
	d.Fix = ptr("requires_grad_(False) for the weights that these gradients are of: they take part in the loss, but no " +
		"optimizer steps or clears them (a teacher, a critic, a frozen part). Or torch.no_grad() around their forward pass, " +
		"which then saves no activations for them either")
	d.Code = "teacher.requires_grad_(False)\nwith torch.no_grad():\n    target = teacher(batch)"
	return []draft{d}
}

// clearedSteps are the steps of whose gradients some are let go later. Where all of
// them stay, they are those of a model that isn't trained any more, as the folds of a
// cross-validation leave them.
func (e *examination) clearedSteps() map[int32]bool {
	steps := map[int32]bool{}
	for i, category := range e.classes.Category {
		if category == classify.Gradients && e.classes.Phase[i] == classify.Backward && e.t.FreeRequested[i] != timeline.Never {
			steps[e.classes.Step[i]] = true
		}
	}
	return steps
}
