package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Every list of a report is cut somewhere, whatever it is of, and every writer says so.
func TestListsHaveAnEnd(t *testing.T) {
	const many = 100_000
	doc := &report.Document{Devices: []report.Device{{History: "none"}}, Inputs: []report.Input{{}}, Evidence: &evidence.Evidence{},
		Findings: make([]report.Finding, many)}
	doc.Findings[7].Evidence = make([]string, many)
	doc.Findings[many-1].Title = "the verdict's"
	doc.Verdict.About = &report.About{Device: -1, Finding: many - 1}
	fill(reflect.ValueOf(&doc.Devices[0]).Elem(), many)
	fill(reflect.ValueOf(&doc.Inputs[0]).Elem(), many)
	fill(reflect.ValueOf(doc.Evidence).Elem(), many)
	doc.Verdict.Text = strings.Repeat("ä", many)
	doc.Bound()

	if about := doc.Verdict.About; doc.Findings[about.Finding].Title != "the verdict's" {
		t.Errorf("the verdict is about finding %d, %q", about.Finding, doc.Findings[about.Finding].Title)
	}
	if n := len(doc.Verdict.Text); n > 10_000 {
		t.Errorf("the verdict has %d bytes", n)
	}
	gone := map[string]int{}
	for _, o := range doc.Omitted {
		gone[o.List] = o.Items
	}
	for _, list := range []string{"findings", "findings[].evidence", "devices[].findings", "devices[].leaks",
		"devices[].damage", "devices[].pools", "devices[].holders", "devices[].ooms", "inputs[].damage", "inputs[].notes",
		"inputs[].unknown_keys", "evidence.oom_messages", "evidence.gpus", "evidence.traces"} {
		if gone[list] != many-1000 {
			t.Errorf("%s: %d gone", list, gone[list])
		}
	}

	doc.Evidence = nil // whose items refer to others
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error {
			return text.Write(b, view.Document(doc, view.Terminal), text.Style{Width: 200})
		},
		"markdown": func(b *bytes.Buffer) error { return markdown.Write(b, view.Document(doc, view.Ticket)) },
		"html":     func(b *bytes.Buffer) error { return html.Document(b, doc) },
		"json":     func(b *bytes.Buffer) error { return report.JSON(b, doc) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b.Len() > 30<<20 || !strings.Contains(strings.ReplaceAll(b.String(), "\\", ""), "devices[].findings") {
			t.Errorf("%s: %d bytes, and no word of findings that are left out", name, b.Len())
		}
	}
}

// fill gives every list of structures or texts so many empty items.
func fill(v reflect.Value, many int) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || v.Type().Field(i).Tag.Get("json") == "-" {
			continue
		}
		switch item := f.Type().Elem(); {
		case item == reflect.TypeFor[report.Step](), item == reflect.TypeFor[report.Site]():
		case item.Kind() == reflect.Struct, item.Kind() == reflect.String:
			f.Set(reflect.MakeSlice(f.Type(), many, many))
		}
	}
}

// Of many devices the fullest, and those that failed, are shown.
func TestManyDevices(t *testing.T) {
	doc := &report.Document{Inputs: []report.Input{{Path: "x.pickle"}}}
	for i := range 1024 {
		d := report.Device{Device: i, History: "none"}
		if i == 3 {
			d.OOMs = []report.OOM{{Verdict: "unknown"}}
		}
		d.Peaks.Allocated.Bytes = int64(i)
		doc.Devices = append(doc.Devices, d)
	}
	doc.Verdict.About = &report.About{Device: 5}
	for _, c := range []struct {
		edition view.Edition
		most    int
	}{{view.Terminal, 16}, {view.Ticket, 8}} {
		var headings []string
		var said string
		for _, p := range view.Document(doc, c.edition).Parts {
			if strings.HasPrefix(p.Heading, "Device ") {
				headings = append(headings, p.Heading)
			}
			said += p.Rest
		}
		if len(headings) != c.most || headings[0] != "Device 3" || headings[1] != "Device 5" || headings[c.most-1] != "Device 1023" {
			t.Errorf("shown: %q", headings)
		}
		if want := fmt.Sprintf("and 1,0%02d more devices, less full", 24-c.most); !strings.Contains(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
	var page bytes.Buffer
	if err := html.Document(&page, doc); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "1024 devices in the recording; the fullest are here, 960 more devices are not.") {
		t.Error("the page doesn't say how many devices it lacks")
	}
	var whole bytes.Buffer
	if err := report.JSON(&whole, doc); err != nil {
		t.Fatal(err)
	}
	var read struct{ Devices []any }
	if err := json.Unmarshal(whole.Bytes(), &read); err != nil || len(read.Devices) != 1024 {
		t.Errorf("%d devices in JSON, %v", len(read.Devices), err)
	}
}
