package view_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// outline is a sheet's headings, each with the columns and rows of the first table below it.
type outline struct {
	heading       string
	columns, rows int
}

func outlineOf(s *view.Sheet) (out []outline) {
	for _, p := range s.Parts {
		if p.Heading != "" {
			out = append(out, outline{heading: p.Heading})
		}
		if n := len(out) - 1; n >= 0 && out[n].rows == 0 {
			out[n].columns, out[n].rows = len(p.Columns), len(p.Rows)
		}
	}
	return out
}

// TestOpen: on a page, the first finding is open where it matters and no change stands above it, and leaks are.
func TestOpen(t *testing.T) {
	info, bad := report.Finding{Severity: report.Info}, report.Finding{Severity: report.Critical}
	for name, c := range map[string]struct {
		findings []report.Finding
		leaks    []report.Leak
		changes  []report.Change
		want     []bool // findings, then leaks
	}{
		"nothing":      {},
		"no findings":  {findings: []report.Finding{}, leaks: []report.Leak{}},
		"first":        {findings: []report.Finding{bad, bad}, want: []bool{true, false}},
		"information":  {findings: []report.Finding{info, bad}, want: []bool{false, false}},
		"with changes": {findings: []report.Finding{bad}, changes: []report.Change{{}}, want: []bool{false}},
		"leaks":        {leaks: []report.Leak{{}, {Defect: true}, {Defect: true, Suspected: true}}, want: []bool{false, true, true}},
	} {
		d := report.Device{History: "complete", Findings: c.findings, Leaks: c.leaks, Changes: c.changes}
		page := view.OnPage(&report.Document{Inputs: []report.Input{{Path: "a"}}, Devices: []report.Device{d}})
		var got []bool
		for _, p := range slices.Concat(page.Devices[0].Findings, page.Devices[0].Leaks) {
			for _, f := range p.Findings {
				got = append(got, f.Open)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: open %v, want %v", name, got, c.want)
		}
	}
	alone := view.OnPage(&report.Document{Findings: []report.Finding{bad}})
	if !alone.Findings[0].Findings[0].Open {
		t.Error("the first finding of a run without devices is closed")
	}
}

// TestSheets: what each builder puts on a sheet, for either edition.
func TestSheets(t *testing.T) {
	takes := &budget.Document{Setting: map[string]any{}, Categories: map[string]int64{"weights": 3, "logits": 1}, PeakBytes: 4,
		Phases: []budget.DocPhase{{Phase: "forward"}}, Fits: []budget.DocFit{{GPU: "A"}}, Ladder: []budget.Measure{{Change: "x"}}}
	grew := &report.Diff{Categories: []report.DiffCategory{{Category: "weights", DiffSize: report.DiffSize{After: 1}}, {}},
		Sites: []report.DiffSite{{Function: "f", AfterBytes: 1}, {Function: "same"}}, Steps: []report.DiffStep{{}, {Step: 1}}}
	tried := &replay.Document{Scenarios: []replay.Outcome{{Complete: true}, {}}, Failures: []replay.Failure{{}},
		Notes: []string{"n"}}
	read := &report.Document{Inputs: []report.Input{{Path: "a"}}, Devices: []report.Device{{History: "complete"}},
		Comparison: &report.Comparison{Model: "m"}, Trials: &report.Trials{Rows: []report.Trial{{Name: "r"}}}}
	ladder := "What would save memory, cheapest first (each on top of the ones before)"
	trials, compared := "The same requests under other settings (device 0, replayed)",
		"Against the budget of m (device 0, requested bytes)"
	for name, c := range map[string]struct {
		sheet *view.Sheet
		want  []outline
	}{
		"budget, terminal": {view.Budget(takes, view.Terminal), []outline{{"At the peak", 4, 2}, {"By phase", 4, 1},
			{"Devices", 5, 1},
			{ladder, 4, 1}}},
		"budget, ticket": {view.Budget(takes, view.Ticket), []outline{{"At the peak", 4, 2}, {"By phase", 4, 1},
			{"Devices", 5, 1},
			{ladder, 4, 1}}},
		"diff, terminal": {view.Diff(grew, view.Terminal), []outline{{"Peaks", 5, 4},
			{"By category: 0 B at the  before, 0 B at the  after", 5, 1},
			{"By call site: 1 site holds the same (0 B)", 5, 1}, {"By step: peak of allocated memory", 4, 2},
			{"Compared", 5, 2}}},
		"whatif": {view.WhatIf(tried), []outline{{"The request that failed", 6, 0}, {"Scenarios", 7, 2},
			{"What it takes for granted", 0, 0}}},
		"document, terminal": {view.Document(read, view.Terminal), []outline{{"Device 0", 3, 4}, {trials, 4, 1}, {compared, 5, 1},
			{"How this report was made", 5, 1}}},
		"document, ticket": {view.Document(read, view.Ticket), []outline{{"Device 0", 3, 4}, {trials, 4, 1}, {compared, 5, 1},
			{"How this report was made", 5, 1}}},
	} {
		if got := outlineOf(c.sheet); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, c.want)
		}
	}
}
