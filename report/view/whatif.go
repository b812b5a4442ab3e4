package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

// WhatIf is what was tried in sentences and tables, what gains most first.
func WhatIf(doc *replay.Document) *Sheet {
	s := &Sheet{Heading: "The same requests, replayed", Verdict: report.Verdict{Text: doc.Verdict}}
	for i := range doc.Failures {
		s.Parts = append(s.Parts, failedPart(&doc.Failures[i]))
	}
	if len(doc.Scenarios) > 0 {
		s.Parts = append(s.Parts, scenariosPart(doc))
	}
	if notes := replayNotes(doc); len(notes) > 0 {
		s.Parts = append(s.Parts, Part{Heading: "What it takes for granted", Level: 4, Bare: true, List: true, Text: notes})
	}
	return s
}

// failedPart tells why a request failed, and which blocks keep free memory from
// being used.
func failedPart(f *replay.Failure) Part {
	p := Part{Heading: "The request that failed", Text: []string{fmt.Sprintf("At event %s: %s", units.Count(f.Event),
		f.Text)},
		Level: 4, Bare: true, Table: figures("", "frees", "segments", "blocks", "of", "made at")}
	if len(f.Pins) > 0 {
		p.Text = append(p.Text, "Whole segments would be free for any request without these blocks, or if they lay elsewhere:")
	}
	for i := range f.Pins {
		x := &f.Pins[i]
		p.add(x.Category, units.Bytes(x.Frees), strconv.Itoa(x.Segments), strconv.Itoa(x.Blocks), units.Bytes(x.Bytes),
			pinPlace(x))
	}
	return p
}

// pinPlace is where blocks were made.
func pinPlace(p *replay.Pin) string {
	return strings.TrimSpace(report.ShortPlace(text(p.File), p.Line) + " " + text(p.Function))
}

func scenariosPart(doc *replay.Document) Part {
	gains := "gains"
	if doc.Scenarios[0].OOM {
		gains = "to spare" // what peaks gain counts for nothing where more is allocated
	}
	p := Part{Heading: "Scenarios", Level: 4, Bare: true, Table: figures("", "peak reserved", gains, "peak allocated", "segments",
		"retries", "out of memory")}
	for i := range doc.Scenarios {
		p.add(scenarioRow(&doc.Scenarios[i], i == 0, doc.Scenarios[0].OOM)...)
	}
	return p
}

func scenarioRow(o *replay.Outcome, first, failed bool) []any {
	most, gain, fails := "", "", "no"
	if !o.Complete && !first {
		most = "≥ "
	}
	switch {
	case failed:
		gain = or(o.LeftBytes, "")
	case !first && o.Complete && !o.OOM:
		gain = units.Bytes(o.SavesBytes)
	}
	switch {
	case o.OOM:
		fails = fmt.Sprintf("at event %s, a segment lacks %s", units.Count(*o.OOMEvent), units.Bytes(o.ShortBytes))
	case o.Survived:
		fails = "no, as far as recorded"
	}
	return []any{o.Name, most + units.Bytes(o.PeakReservedBytes), gain, most + units.Bytes(o.PeakAllocatedBytes),
		strconv.Itoa(o.Segments), strconv.Itoa(o.Retries), fails}
}

// replayNotes say how true the replay is to the recording, and what each change
// takes for granted.
func replayNotes(doc *replay.Document) (notes []string) {
	if doc.MatchRate != nil {
		notes = append(notes, fmt.Sprintf("Replayed under the recorded settings, %s of the addresses and %s of the segment "+
			"calls come out as recorded (history: %s).", rate(*doc.MatchRate), rate(*doc.SegmentCallRate), doc.History))
	}
	once := func(line string) {
		if !slices.Contains(notes, line) {
			notes = append(notes, line)
		}
	}
	for i := range doc.Scenarios {
		for k, text := range doc.Scenarios[i].Assumptions {
			once(doc.Scenarios[i].Changes[k] + ": " + text)
		}
	}
	for _, note := range doc.Notes {
		once("Note: " + note + ".")
	}
	return notes
}

// rate is a share that is 100 % only when nothing is missing.
func rate(share float64) string {
	if share < 1 && share > 0.9995 {
		return "more than 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// figures are columns of which all but the first and the last are numbers, as wide
// as they need to be.
func figures(names ...string) Table {
	t := Table{Columns: words(names...)}
	for i := range t.Columns {
		t.Columns[i].Number = 0 < i && i < len(names)-1
		t.Columns[i].Gap = min(i, 1)
	}
	return t
}
