package diagnose

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// listOptimizers are the classes of torch.optim without a fused step, by the name of
// their function for many tensors.
var listOptimizers = map[string]string{"adadelta": "Adadelta", "adafactor": "Adafactor", "adamax": "Adamax", "asgd": "ASGD",
	"nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop"}

// optimizerLists finds peaks within an optimizer's step that works on many
// tensors at once, torch's default, and makes lists of temporaries for that.
func (e *examination) optimizerLists(dev *report.Device, f *facts) []draft {
	var ids []timeline.AllocationID
	var bytes int64
	for i, c := range e.classes.Category {
		if id := timeline.AllocationID(i); c == classify.Temporary && e.classes.Phase[i] == classify.Optimizer &&
			e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			ids = append(ids, id)
			bytes += e.t.Allocated[i]
		}
	}
	if share(bytes, dev.AtPeak.AllocatedBytes) < 5 || bytes < 32<<20 || e.mostly(ids, e.leaked()) {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "optimizer_temporaries", Severity: f.severity(), Confidence: 0.9}, worth: 2}
	d.Title = fmt.Sprintf("The peak is in the optimizer's step, whose own temporaries take %s of it", units.Bytes(bytes))
	d.Evidence = []string{units.Plural(len(ids), "block") + " that the step makes and frees"}
	if line := e.coveringLine(e.byStack(ids)); line.File != "" {
		d.Evidence = append(d.Evidence, "stepped at "+lineText(line))
	}
	const loop = "foreach=False, which makes them for one weight after the other, and is slower"
	kind := e.manyTensors(ids)
	class := change.FusedOptimizer(kind)
	switch {
	case class != "":
		d.change = "optimizer=fused"
		d.Fix = ptr("fused=True: one kernel updates the weights and needs no temporaries. Or " + loop)
		d.Code = "optimizer = torch.optim." + class + "(model.parameters(), lr=lr, fused=True)"
	case kind == "": // no stacks
		d.change, d.Confidence = "optimizer=fused", 0.7
		d.Fix = ptr("fused=True, which Adam, AdamW and SGD have: one kernel updates the weights and needs no temporaries. Or " +
			loop)
	case kind == "own":
		return nil
	default:
		d.spells, d.without = e.listsOfSteps(), "with the temporaries of one weight at a time,"
		d.Fix = ptr(loop)
		if class := listOptimizers[kind]; class != "" {
			d.Code = "optimizer = torch.optim." + class + "(model.parameters(), lr=lr, foreach=False)"
		}
	}
	return []draft{d}
}

// manyTensors is the kind of torch's optimizer whose step on many tensors made
// some allocations, of several the first; "own" where stacks show none, "" where
// there are no stacks.
func (e *examination) manyTensors(ids []timeline.AllocationID) string {
	s := e.t.Snapshot
	kind := ""
	seen := map[snapshot.StackID]bool{}
	for _, id := range ids {
		stack := e.t.Stack(id)
		if seen[stack] {
			continue
		}
		seen[stack] = true
		for _, f := range s.Stack(stack) {
			if of, ok := strings.CutPrefix(s.String(s.Frames[f].Function), "_multi_tensor_"); ok {
				return of
			}
			kind = "own"
		}
	}
	return kind
}

// listsOfSteps are the temporaries of all optimizers' steps but two of each step,
// which a step for one tensor at a time has as well.
func (e *examination) listsOfSteps() (out []spell) {
	made := map[int32]int{}
	for i, c := range e.classes.Category {
		if id := timeline.AllocationID(i); c == classify.Temporary && e.classes.Phase[i] == classify.Optimizer &&
			e.t.Requested(id) > smallWeight {
			if made[e.classes.Step[i]]++; made[e.classes.Step[i]] > 2 {
				out = append(out, e.lifeOf(id))
			}
		}
	}
	return out
}
