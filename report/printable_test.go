package report_test

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// TestNamesDontSteer: line separators and marks of direction in names reach
// neither a terminal nor a page; in JSON and only there they stay.
func TestNamesDontSteer(t *testing.T) {
	var all []string
	for _, r := range []rune{0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069} {
		all = append(all, string(r))
	}
	bad := strings.Join(all, "")
	name := "… “f” " + bad
	doc := &report.Document{Schema: report.Schema, Title: name, Notes: []report.Note{{name, name}}, Inputs: []report.Input{{Path: name, Damage: []string{name}}},
		Verdict: report.Verdict{Severity: report.Info, Text: name, Fix: &name}, Evidence: evidence.New(),
		Findings: []report.Finding{{Severity: report.Info, Title: name, Evidence: []string{name}, Fix: &name}}}
	d := fullDiff()
	plant(reflect.ValueOf(d).Elem(), name)
	d.Before.Moment, d.After.Moment = "peak", "peak"
	index := &report.Index{Rows: []report.IndexRow{{Path: name, Name: name, Experiment: name, Text: name}}}
	for format, write := range map[string]func(io.Writer) error{
		"text":          func(w io.Writer) error { return text.Write(w, view.Document(doc, view.Terminal), text.Style{}) },
		"Markdown":      func(w io.Writer) error { return markdown.Write(w, view.Document(doc, view.Ticket)) },
		"HTML":          func(w io.Writer) error { return html.Document(w, doc) },
		"diff":          func(w io.Writer) error { return text.Write(w, view.Diff(d, view.Terminal), text.Style{}) },
		"diff Markdown": func(w io.Writer) error { return markdown.Write(w, view.Diff(d, view.Ticket)) },
		"diff HTML":     func(w io.Writer) error { return html.Sheet(w, view.Diff(d, view.Ticket)) },
		"index":         func(w io.Writer) error { return html.Index(w, index) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		text := out.String()
		if i := strings.IndexAny(text, bad); i >= 0 {
			t.Errorf("%s: %q", format, text[max(0, i-20):i+20])
		}
		if !strings.Contains(text, "… “f” \uFFFD") && !strings.Contains(text, "… “f” \\") {
			t.Errorf("%s: the name isn't there", format)
		}
	}
	var out bytes.Buffer
	if err := report.JSON(&out, doc); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\u202e") {
		t.Error("JSON changes names")
	}
}
