package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// runRow is a run.
type runRow struct {
	owner
	*source
	totals
	inputBytes int64
	era        string
	fullest    *report.Device        // nil: none
	budget     *report.BudgetFigures // nil: none
	bestName   string
	bestSaves  *int64
	set        evidence.Parameters // by trackers, then by notes
	logged
}

// logged are figures of logs, trackers and monitors.
type logged struct {
	loggedSteps, loggedPeak, monitoredPeak *int64
	stepSeconds                            *float64
}

// read takes them.
func (l *logged) read(ev *evidence.Evidence) {
	most := func(to **int64, figure *int64) {
		if figure != nil && (*to == nil || **to < *figure) {
			*to = figure
		}
	}
	for _, s := range ev.Steps { // that with the most comes first
		most(&l.loggedSteps, new(int64(s.Count)))
		most(&l.loggedPeak, s.MaxMemoryBytes)
		if l.stepSeconds == nil {
			l.stepSeconds = s.MedianStepSeconds
		}
	}
	for i := range ev.MemorySummaries {
		most(&l.loggedPeak, ev.MemorySummaries[i].PeakAllocatedBytes)
	}
	for i := range ev.GPUs {
		most(&l.monitoredPeak, ev.GPUs[i].PeakUsedBytes)
	}
}

// readSettings takes what trackers say of how the run was set, and what notes say
// where they don't.
func (r *runRow) readSettings() {
	if p := r.doc.Evidence.Settings(); p != nil {
		r.set = *p
	}
	number := func(to **int64, text string) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && *to == nil {
			*to = &n
		}
	}
	word := func(to **string, text string) {
		if *to == nil {
			*to = &text
		}
	}
	for _, n := range r.doc.Notes {
		switch n.Key {
		case "batch_size":
			number(&r.set.BatchSize, n.Value)
		case "sequence_length":
			number(&r.set.SequenceLength, n.Value)
		case "gpus":
			number(&r.set.GPUs, n.Value)
		case "tokens_per_step":
			number(&r.set.TokensPerStep, n.Value)
		case "model":
			word(&r.set.Model, n.Value)
		case "precision":
			word(&r.set.Precision, n.Value)
		case "optimizer":
			word(&r.set.Optimizer, n.Value)
		}
	}
	r.set.SetTokens()
}

// model is the model's type, or what it is called.
func (r *runRow) model() any {
	if r.budget == nil {
		return r.set.Model
	}
	return &r.budget.Model.Type
}

func runRows(s *source, add func(any)) {
	r := &runRow{owner: owner{run: s.run}, source: s, fullest: s.doc.Fullest(), budget: s.doc.BudgetFigures()}
	for _, in := range s.doc.Inputs {
		r.inputBytes += in.Bytes
		r.damage += int64(len(in.Damage))
		if r.era == "" && in.Era != nil {
			r.era = *in.Era
		}
	}
	for i := range s.doc.Devices {
		r.totals.add(&s.doc.Devices[i])
	}
	r.ooms += len(s.doc.OnlyLogged())
	if s.doc.Evidence != nil {
		r.logged.read(s.doc.Evidence)
	}
	r.readSettings()
	r.setBest()
	add(r)
}

// ofFullest is a figure of the fullest GPU, of which there may be none.
func (r *runRow) ofFullest(figure func(*report.Device) any) any {
	if r.fullest == nil {
		return nil
	}
	return figure(r.fullest)
}

func unknownBytes(d *report.Device) any {
	if d.AtPeak.Categories == nil {
		return nil
	}
	return d.AtPeak.Categories[classify.Unknown.String()]
}

// ofBudget is a figure of the budget, of which there may be none.
func (r *runRow) ofBudget(figure func(*report.BudgetFigures) any) any {
	if r.budget == nil {
		return nil
	}
	return figure(r.budget)
}

func settingText(b *report.BudgetFigures) any {
	s := &b.Setting
	done := fmt.Sprintf("%s, checkpointing %s", s.Optimizer, s.Checkpointing)
	if s.Inference {
		done = "inference"
	}
	return fmt.Sprintf("%d x %d, %s, %s", s.Batch, s.Sequence, s.Precision, done)
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
	t.ooms += d.Failed()
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

// setBest finds the allocator setting that saves most, of those that were tried and met
// all requests.
func (r *runRow) setBest() {
	var t tried
	readPart(r.doc.WhatIf, &t)
	saving := slices.DeleteFunc(t.Scenarios, func(s scenario) bool { return s.Saves <= 0 || s.OOM || len(s.Changes) > 0 })
	if len(saving) > 0 {
		best := slices.MaxFunc(saving, func(a, b scenario) int { return cmp.Compare(a.Saves, b.Saves) })
		r.bestName, r.bestSaves = cmp.Or(best.Settings, best.Name), &best.Saves
	}
}

// tried is what the tables hold of a report's replays.
type tried struct {
	Device    int        `json:"device"`
	Scenarios []scenario `json:"scenarios"`
}

type scenario struct {
	Name      string   `json:"name"`
	Settings  string   `json:"settings"`
	Changes   []string `json:"changes"`
	Allocated int64    `json:"peak_allocated_bytes"`
	Reserved  int64    `json:"peak_reserved_bytes"`
	Saves     int64    `json:"saves_bytes"`
	OOM       bool     `json:"oom"`
	Survived  bool     `json:"survived"`
	Complete  bool     `json:"complete"`
	Retries   int64    `json:"retries"`
}

// settingRow is a thing that was tried.
type settingRow struct {
	owner
	*scenario
}

func settingRows(s *source, add func(any)) {
	var t tried
	readPart(s.doc.WhatIf, &t)
	for i := range t.Scenarios {
		add(&settingRow{owner{run: s.run, device: &t.Device}, &t.Scenarios[i]})
	}
}
