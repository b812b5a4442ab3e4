package logs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
)

// input is one file of a run.
type input struct{ name, text string }

// judged is the report on a run that left these files behind, and no recording.
func judged(t *testing.T, files ...input) *report.Document {
	t.Helper()
	doc := readAll(t, files...)
	logs.Add(doc, 0, nil)
	doc.Verdict, _ = logs.Verdict(doc)
	return doc
}

// readAll is a report to which nothing was added yet.
func readAll(t *testing.T, files ...input) *report.Document {
	t.Helper()
	doc := &report.Document{Evidence: evidence.New()}
	for i, f := range files {
		kinds, found, err := read.Evidence(strings.NewReader(f.text), f.name, i)
		if err != nil {
			t.Fatal(err)
		}
		doc.Evidence.Add(found)
		doc.Inputs = append(doc.Inputs, report.Input{Path: f.name, Kind: kinds[0], Contains: kinds})
	}
	return doc
}

// found is the finding with an id.
func found(doc *report.Document, id string) *report.Finding {
	if i := slices.IndexFunc(doc.Findings, func(f report.Finding) bool { return f.ID == id }); i >= 0 {
		return &doc.Findings[i]
	}
	return nil
}
