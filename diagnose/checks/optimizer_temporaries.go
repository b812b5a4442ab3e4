package checks

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var optimizerTemporaries = Check{
	ID: "optimizer_temporaries", Group: peak, Severity: ByDesign,
	Doc: "The peak is in the step of an optimizer, and what that step makes and frees takes 5 % of it and 32 MiB. " +
		"torch's step on many tensors at once makes lists as large as the weights. The change is `fused=True` where " +
		"the optimizer has it, otherwise `foreach=False`.",
	Saves: "by replay with `optimizer=fused`; otherwise from the recorded curve without all but two temporaries of each step.",
	Needs: []facts.Need{facts.Leaked}, Run: findOptimizerLists,
}

// listOptimizers are the classes of torch.optim without a fused step, by the name of
// their function for many tensors.
var listOptimizers = map[string]string{"adadelta": "Adadelta", "adafactor": "Adafactor", "adamax": "Adamax", "asgd": "ASGD",
	"nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop"}

func findOptimizerLists(p *facts.Pass) []Draft {
	var ids []timeline.AllocationID
	var bytes int64
	for id := range p.Each(classify.Temporary) {
		if p.Classes.Phase[id] == classify.Optimizer &&
			p.T.AliveAt(id, p.T.Peaks.Allocated.Event) {
			ids = append(ids, id)
			bytes += p.T.Allocated[id]
		}
	}
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 5 || bytes < 32<<20 || p.Mostly(ids, facts.Leaked.Of(p)) {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.9}, Worth: 2}
	d.Title = fmt.Sprintf("The peak is in the optimizer's step, whose own temporaries take %s of it", units.Bytes(bytes))
	d.Evidence = []string{units.Plural(len(ids), "block") + " that the step makes and frees"}
	d.happens("stepped at", p.CoveringLine(p.ByStack(ids)))
	kind := manyTensors(p, ids)
	class := change.FusedOptimizer(kind)
	switch {
	case class != "":
		d.Change = "optimizer=fused"
		d.advise("optimizer_temporaries", "kind", class)
	case kind == "": // no stacks
		d.Change, d.Confidence = "optimizer=fused", 0.7
		d.advise("optimizer_temporaries.any")
	case kind == "own":
		return nil
	default:
		d.Spells, d.Without = listsOfSteps(p), "with the temporaries of one weight at a time,"
		class := listOptimizers[kind]
		if d.advise("optimizer_temporaries.loop", "kind", class); class == "" {
			d.Code = ""
		}
	}
	return []Draft{d}
}

// manyTensors is the kind of torch's optimizer whose step on many tensors made
// some allocations, of several the first; "own" where stacks show none, "" where
// there are no stacks.
func manyTensors(p *facts.Pass, ids []timeline.AllocationID) string {
	s := p.T.Snapshot
	kind := ""
	seen := map[snapshot.StackID]bool{}
	for _, id := range ids {
		stack := p.T.Stack(id)
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
func listsOfSteps(p *facts.Pass) (out []facts.Spell) {
	made := map[int32]int{}
	for id := range p.Each(classify.Temporary) {
		if p.Classes.Phase[id] == classify.Optimizer &&
			p.T.Requested(id) > facts.SmallWeight {
			if made[p.Classes.Step[id]]++; made[p.Classes.Step[id]] > 2 {
				out = append(out, p.LifeOf(id))
			}
		}
	}
	return out
}
