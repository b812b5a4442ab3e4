package diagnose

import (
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// collectedShare is from which percentage of the peak on what an evaluation
// collects is worth a word, collectedLeast from how many bytes.
const (
	collectedShare = 20
	collectedLeast = 64 << 20
	maxStretches   = 64 // evaluations that are looked at
)

// resultsCollected finds evaluations that keep the results of all their passes on
// the GPU: more with each, in a list or joined anew. Graphs and leaks are left to
// the findings about them.
func (e *examination) resultsCollected(dev *report.Device, f *facts) []draft {
	d := draft{Finding: report.Finding{ID: "results_collected", Severity: f.severity(), Confidence: 0.85},
		without: "with each pass's results on the host,", worth: 10}
	var most int64
	var passes int
	var all []timeline.AllocationID
	peak, within := e.t.Peaks.Allocated.Event, false
	for _, steps := range e.classes.Untrained[:min(len(e.classes.Untrained), maxStretches)] {
		ids, spells, held := e.carried(steps)
		top := slices.Max(held)
		if top < collectedLeast || share(top, dev.AtPeak.AllocatedBytes) < collectedShare || top < 2*held[1] {
			continue
		}
		if top > most {
			most, passes = top, len(steps)
		}
		d.spells = append(d.spells, spells...)
		all = append(all, ids...)
		within = within || steps[0].FirstEvent <= peak && peak <= steps[len(steps)-1].LastEvent
	}
	if len(all) == 0 || e.mostly(all, e.unused) || slices.ContainsFunc(e.classes.Leaks(), func(l classify.Leak) bool {
		return l.Defect && l.Untrained
	}) {
		return nil
	}
	e.collects = within
	d.Title = fmt.Sprintf("An evaluation keeps the results of all its passes on the GPU: up to %s", units.Bytes(most))
	d.Evidence = []string{fmt.Sprintf("more with each of %d forward passes that no backward pass follows", passes)}
	bytes := e.byStack(all)
	delete(bytes, 0)
	if line := e.coveringLine(bytes); line.File != "" {
		d.Evidence = append(d.Evidence, "collected in "+lineText(line))
	}
	d.Fix = ptr("Move each pass's results to the host, or reduce them at once (argmax, running sums of a metric). " +
		"Transformers' Trainer: eval_accumulation_steps, preprocess_logits_for_metrics or prediction_loss_only")
	d.Code = "predictions.append(logits.argmax(-1).cpu())\nTrainingArguments(eval_accumulation_steps=1)"
	return []draft{d}
}

// carried are the allocations of some passes that are still there when the next
// one begins, their lives from then on, and the bytes of all at the beginning of
// each.
func (e *examination) carried(steps []classify.Step) (ids []timeline.AllocationID, spells []spell, held []int64) {
	held = make([]int64, len(steps)+1)
	first, last := steps[0].FirstEvent, steps[len(steps)-1].LastEvent
	older := e.t.Older()
	from := older + sort.Search(e.t.Len()-older, func(i int) bool { return int(e.t.Born[older+i]) >= first })
	for i := from; i < e.t.Len() && int(e.t.Born[i]) <= last; i++ {
		id := timeline.AllocationID(i)
		life, made := e.lifeOf(id), passAt(steps, int(e.t.Born[i]))
		if c := e.classes.Category[i]; c == classify.KVCache || c == classify.Workspace || life.to <= steps[made].LastEvent {
			continue
		}
		ids = append(ids, id)
		spells = append(spells, spell{from: steps[made].LastEvent, to: life.to, bytes: life.bytes})
		held[made+1] += e.t.Allocated[i]
		if gone := passAt(steps, life.to) + 1; gone < len(held) {
			held[gone] -= e.t.Allocated[i]
		}
	}
	for n := 1; n < len(held); n++ {
		held[n] += held[n-1]
	}
	return ids, spells, held[:len(steps)]
}

// passAt is the pass that an event lies in, or that is the last before it.
func passAt(steps []classify.Step, event int) int {
	return max(0, sort.Search(len(steps), func(i int) bool { return steps[i].FirstEvent > event })-1)
}
