package report_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// fullSheet has a part of each kind.
func fullSheet() *view.Sheet {
	row := func(texts ...string) (r view.Row) {
		for _, text := range texts {
			r.Cells = append(r.Cells, view.Cell{{Text: text}})
		}
		return r
	}
	table := view.Table{Columns: []view.Column{{}, {Name: "bytes", Number: true, Gap: 1}, {Name: "place", Gap: 1}},
		Rows: []view.Row{row("first", "≥ 1.00 GiB", "a.py:1"), row("second, longer", "12", "b.py:22")}}
	return &view.Sheet{Heading: "Answer", Title: "Run 4", Verdict: report.Verdict{Text: "It would have fit."}, Notes: []report.Note{{Key: "job", Value: "7"}}, Tool: "vramscope test", Parts: []view.Part{
		{Heading: "Why", Level: 4, Bare: true, Text: []string{"A sentence that is long enough to be broken where a terminal is narrow.", "Another."}},
		{Heading: "Rows", Level: 4, Bare: true, Table: table},
		{Heading: "Notes", Level: 4, Bare: true, List: true, Text: []string{"One that is long enough to be broken, too, and goes on.", "Two"}},
	}}
}

func writeSheet(t *testing.T, format string, s *view.Sheet) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "html":
		err = html.Sheet(&b, s)
	case "md":
		err = markdown.Write(&b, s)
	case "txt":
		err = text.Write(&b, s, text.Style{Width: 50})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSheetText(t *testing.T) {
	want := `Run 4
job: 7
It would have fit.

  A sentence that is long enough to be broken
  where a terminal is narrow.
  Another.

                       bytes  place
  first           ≥ 1.00 GiB  a.py:1
  second, longer          12  b.py:22

  - One that is long enough to be broken, too, and
    goes on.
  - Two
`
	if got := writeSheet(t, "txt", fullSheet()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var quiet bytes.Buffer
	if err := text.Write(&quiet, fullSheet(), text.Style{Quiet: true}); err != nil || strings.Contains(quiet.String(), "Another") {
		t.Errorf("quiet: %q, %v", quiet.String(), err)
	}
}

func TestSheetMarkdown(t *testing.T) {
	page := rendered(t, []byte(writeSheet(t, "md", fullSheet())))
	for _, want := range []string{"<h2>Run 4</h2>", "<strong>It would have fit.</strong>", "<li>job: 7</li>", "<p>Another.</p>", "<h4>Rows</h4>",
		"<td>first</td>", "12</td>", "<td>b.py:22</td>", "<li>Two</li>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

// TestSheetHostile: no name makes an element, in the page or in Markdown.
func TestSheetHostile(t *testing.T) {
	checkHostile(t, func(format, text string) string {
		s := fullSheet()
		plant(reflect.ValueOf(s).Elem(), text)
		return writeSheet(t, format, s)
	})
}
