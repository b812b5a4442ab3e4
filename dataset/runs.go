package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// called is what a batch calls a run besides its path.
type called struct{ report, experiment string }

// runRow writes the row of a run; the reason is "" unless it failed.
func runRow(r *rows, run string, c called, reason string, doc *report.Document) {
	r.text(run)
	r.textOrNull(c.experiment)
	r.textOrNull(c.report)
	r.textOrNull(doc.Title)
	r.textOrNull(reason)
	var size, damage int64
	era := ""
	for _, in := range doc.Inputs {
		size += in.Bytes
		damage += int64(len(in.Damage))
		if era == "" && in.Era != nil {
			era = *in.Era
		}
	}
	r.int(int64(len(doc.Inputs)))
	r.int(size)
	r.int(int64(len(doc.Devices)))
	r.textOrNull(era)
	r.textOrNull(string(doc.Verdict.Severity))
	r.textOrNull(doc.Verdict.Text)
	r.textAt(doc.Verdict.Fix)
	r.int64At(doc.Verdict.SavesBytes)
	fullestCells(r, doc.Fullest())
	var t totals
	for i := range doc.Devices {
		t.add(&doc.Devices[i])
	}
	t.ooms += len(doc.OnlyLogged())
	for _, n := range [...]int{t.events, t.allocations, t.steps, t.ooms, t.defects} {
		r.int(int64(n))
	}
	r.int64At(t.growth)
	r.int64At(t.first)
	r.int64At(t.last)
	r.int(damage + t.damage)
	budgetCells(r, doc)
	bestSetting(r, doc)
	r.list(len(doc.Notes), func(x *rows, i int) {
		x.text(doc.Notes[i].Key)
		x.text(doc.Notes[i].Value)
	})
	r.end()
}

// fullestCells writes the figures of the fullest GPU, of which there may be none.
func fullestCells(r *rows, d *report.Device) {
	if d == nil {
		for range 12 {
			r.null()
		}
		return
	}
	r.int(int64(d.Device))
	r.intAt(d.Rank)
	levels(r, d)
	if d.AtPeak.Categories == nil {
		r.null()
	} else {
		r.int(d.AtPeak.Categories[classify.Unknown.String()])
	}
	r.text(d.History)
}

// totals are a run's figures over all its GPUs.
type totals struct {
	events, allocations, steps, ooms, defects int
	damage                                    int64
	growth, first, last                       *int64
}

func (t *totals) add(d *report.Device) {
	t.events += d.Events
	t.allocations += d.Allocations
	t.steps = max(t.steps, len(d.Steps))
	t.ooms += len(d.OOMs)
	t.defects += defects(d)
	t.damage += int64(len(d.Damage))
	var growth int64
	for i := range d.Leaks {
		if l := &d.Leaks[i]; l.Defect && l.BytesPerStep != nil {
			growth += *l.BytesPerStep
		}
	}
	if growth > 0 && (t.growth == nil || growth > *t.growth) {
		t.growth = &growth
	}
	if d.FirstTime != nil && (t.first == nil || *d.FirstTime < *t.first) {
		t.first = d.FirstTime
	}
	if d.LastTime != nil && (t.last == nil || *d.LastTime > *t.last) {
		t.last = d.LastTime
	}
}

// readPart reads a part of a report that is either another package's value or
// what was read from JSON. What has another shape stays unknown.
func readPart(v, into any) {
	if b, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(b, into)
	}
}

// budgetCells writes what the tables hold of a report's budget.
func budgetCells(r *rows, doc *report.Document) {
	b := doc.BudgetFigures()
	if b == nil {
		for range 5 {
			r.null()
		}
		return
	}
	r.text(b.Model.Type)
	r.int(b.Model.Parameters)
	s := &b.Setting
	done := fmt.Sprintf("%s, checkpointing %s", s.Optimizer, s.Checkpointing)
	if s.Inference {
		done = "inference"
	}
	r.text(fmt.Sprintf("%d x %d, %s, %s", s.Batch, s.Sequence, s.Precision, done))
	r.int(b.Expected.PeakBytes)
	r.int(b.Measured.PeakBytes)
}

// bestSetting writes the allocator setting that saves most, of those that were
// tried and met all requests.
func bestSetting(r *rows, doc *report.Document) {
	var t tried
	readPart(doc.WhatIf, &t)
	saving := slices.DeleteFunc(t.Scenarios, func(s scenario) bool { return s.Saves <= 0 || s.OOM || len(s.Changes) > 0 })
	if len(saving) == 0 {
		r.null()
		r.null()
		return
	}
	best := slices.MaxFunc(saving, func(a, b scenario) int { return cmp.Compare(a.Saves, b.Saves) })
	r.text(cmp.Or(best.Settings, best.Name))
	r.int(best.Saves)
}
