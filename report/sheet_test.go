package report

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// fullSheet has a part of each kind.
func fullSheet() *Sheet {
	return &Sheet{Heading: "Answer", Title: "Run 4", Verdict: "It would have fit.", Notes: []Note{{"job", "7"}}, Tool: "vramscope test", Parts: []SheetPart{
		{Heading: "Why", Text: []string{"A sentence that is long enough to be broken where a terminal is narrow.", "Another."}},
		{Heading: "Rows", Head: []string{"", "bytes", "place"}, Rows: [][]string{{"first", "≥ 1.00 GiB", "a.py:1"}, {"second, longer", "12", "b.py:22"}}},
		{Heading: "Notes", List: true, Text: []string{"One that is long enough to be broken, too, and goes on.", "Two"}},
	}}
}

func writeSheet(t *testing.T, format string, s *Sheet) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "html":
		err = SheetHTML(&b, s)
	case "md":
		err = SheetMarkdown(&b, s)
	case "txt":
		err = SheetText(&b, s, Style{Width: 50})
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
	if err := SheetText(&quiet, fullSheet(), Style{Quiet: true}); err != nil || strings.Contains(quiet.String(), "Another") {
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
