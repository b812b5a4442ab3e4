package main

import (
	"cmp"
	"fmt"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/timeline"
)

// solved replays, and refines what was to be solved by the model's budget where there is
// one: a replay ends where the recording does, and can't change all programs.
func solved(t *timeline.Timeline, c *classify.Classification, o replay.Options, config *budget.Config) (*replay.Document, error) {
	doc, err := replay.WhatIf(t, c, o)
	if o.Solve == "" || config == nil {
		return doc, err
	}
	what := o.Solve
	if err != nil {
		unsolved := err
		o.Solve = ""
		if doc, err = replay.WhatIf(t, c, o); err != nil || len(doc.Scenarios) == 0 {
			return nil, cmp.Or(err, unsolved)
		}
		if doc.Scenarios[0].UsableBytes == nil && len(o.Capacities) == 0 {
			return nil, unsolved
		}
	}
	answer, err := byBudget(doc, t, c, o, config, what)
	switch {
	case err != nil:
		doc.Notes = append(doc.Notes, "not refined by the model's budget: "+err.Error())
	case answer == "":
	case doc.Solved == nil || len(t.OOMs) > 0:
		doc.Verdict = answer + " " + doc.Verdict
	default:
		doc.Verdict += " " + answer
	}
	return doc, nil
}

// byBudget is what fits by the model's budget, in the setting that the recording shows.
func byBudget(doc *replay.Document, t *timeline.Timeline, c *classify.Classification, o replay.Options, config *budget.Config,
	what string) (string, error) {
	var capacity int64
	switch {
	case len(o.Capacities) > 0:
		capacity = o.Capacities[0]
	case len(doc.Scenarios) > 0 && doc.Scenarios[0].UsableBytes != nil:
		capacity = *doc.Scenarios[0].UsableBytes + replay.Outside
	default:
		return "", nil
	}
	r, err := compare.Run(t, c, frames.New(t.Snapshot), *compare.Untold(config))
	if err != nil {
		return "", err
	}
	if r.Foreign {
		return "", fmt.Errorf("the weights in the recording are another model's")
	}
	gpu := budget.GPU{Capacity: capacity, Context: cmp.Or(o.Outside, replay.Outside)}
	n, setting, err := budget.Solve(config, r.Assumed, what, gpu)
	if err != nil {
		return "", err
	}
	name, recorded := "batch", r.Assumed.Batch
	if what == "seq" {
		name, recorded = "sequence length", r.Assumed.Sequence
	}
	if n == 0 {
		return fmt.Sprintf("By the model's budget no %s fits a whole step into %s.", name, units.Size(capacity)), nil
	}
	b, err := budget.Compute(config, setting)
	if err != nil {
		return "", err
	}
	peak := max(b.PeakBytes, b.FirstStep)
	return fmt.Sprintf("By the model's budget a whole step fits with %s %d → %d: peak %s allocated.", name, recorded, n,
		units.Size(peak)), nil
}
