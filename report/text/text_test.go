package text

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// TestColoursTakeNoRoom breaks lines at the same places with colours and without.
func TestColoursTakeNoRoom(t *testing.T) {
	long := strings.Repeat("words that fill a line and more ", 12) + "end"
	doc := &report.Document{Title: "title", Verdict: report.Verdict{Severity: report.Critical, Text: long}, Evidence: evidence.New(),
		Findings: []report.Finding{{Severity: report.Warning, Title: long, Evidence: []string{long}}}}
	var plain, coloured bytes.Buffer
	for out, style := range map[*bytes.Buffer]Style{&plain: {Width: 72}, &coloured: {Width: 72, Color: true}} {
		if err := Write(out, view.Document(doc, view.Terminal), style); err != nil {
			t.Fatal(err)
		}
	}
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	if !escapes.Match(coloured.Bytes()) || escapes.Match(plain.Bytes()) {
		t.Error("colours where there should be none, or none where there should be some")
	}
	if got := escapes.ReplaceAllString(coloured.String(), ""); got != plain.String() {
		t.Errorf("with colours:\n%s\nwithout:\n%s", got, plain.String())
	}
}

// TestTrialsLineUp: a long name of a setting moves the columns of all rows.
func TestTrialsLineUp(t *testing.T) {
	doc := &report.Document{Evidence: evidence.New(), Trials: &report.Trials{Rows: []report.Trial{
		{Name: "recorded", PeakReserved: 2 << 30, PeakAllocated: 1 << 30, Outcome: "out"},
		{Name: "garbage_collection_threshold:0.8", PeakReserved: 2 << 30, PeakAllocated: 1 << 30, AtLeast: true, Outcome: "out"},
	}}}
	var out bytes.Buffer
	if err := Write(&out, view.Document(doc, view.Terminal), Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	ends := map[int]bool{}
	for _, line := range strings.Split(out.String(), "\n") {
		if head, _, ok := strings.Cut(line, "   out"); ok {
			ends[columns(head)] = true
		}
	}
	if len(ends) != 1 {
		t.Errorf("rows of different width:\n%s", out.String())
	}
}

// TestWideCharacters: columns line up and lines break by the cells of a terminal, of which
// East Asian characters take two.
func TestWideCharacters(t *testing.T) {
	sheet := &view.Sheet{Verdict: report.Verdict{Text: strings.Repeat("内存不足 ", 12)}, Parts: []view.Part{{Table: view.Table{
		NoHead: true, Columns: []view.Column{{}, {}}, Rows: []view.Row{
			{Cells: []view.Cell{{{Text: "内存"}}, {{Text: "one"}}}}, {Cells: []view.Cell{{{Text: "memory"}}, {{Text: "one"}}}}}}}}}
	var out bytes.Buffer
	if err := Write(&out, sheet, Style{Width: 40}); err != nil {
		t.Fatal(err)
	}
	at := map[int]bool{}
	for _, line := range strings.Split(out.String(), "\n") {
		if columns(line) > 40 {
			t.Errorf("%d columns: %s", columns(line), line)
		}
		if head, _, ok := strings.Cut(line, "one"); ok {
			at[columns(head)] = true
		}
	}
	if len(at) != 1 {
		t.Errorf("columns don't line up:\n%s", out.String())
	}
}
