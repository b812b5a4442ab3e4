package report_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/view"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = "testdata/" + name
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: not as before (-update rewrites it):\n%s", name, got)
	}
}

func to[T any](v T) *T { return &v }

// fullDocument has something in every part that Markdown shows.
func fullDocument() *report.Document {
	site := report.Site{Function: "loss_step", File: "/srv/run/train.py", Line: to(27), Op: "aten::mm", Category: to("logits"), Bytes: 3 << 30, Blocks: 2, Known: true}
	library := report.Site{Function: "cross_entropy", File: "/x/site-packages/transformers/loss/loss_utils.py", Line: to(42), CalledFrom: &report.Place{Function: "loss_step", File: "/srv/run/train.py", Line: to(27)},
		Category: to("activations"), Bytes: 1 << 30, Blocks: 12, Known: true}
	moment := report.Moment{Event: to(1234), AllocatedBytes: 4<<30 + 512, ReservedBytes: 5 << 30, Blocks: 15, Categories: map[string]int64{"logits": 3 << 30, "activations": 1 << 30, "unknown": 512}}
	return &report.Document{
		Schema: report.Schema, Title: "Nightly", Tool: "vramscope test", Notes: []report.Note{{"torch", "2.9.1"}},
		Command: []string{"vramscope", "analyze", "--gpu=H100 80GB", "snapshot.pickle"},
		Inputs: []report.Input{{Path: "run/snapshot.pickle", Kind: "snapshot", Bytes: 12345, SHA256: strings.Repeat("ab", 32), Era: to(">=2.15"), Damage: []string{}},
			{Path: "run/log.txt", Kind: "training_log", Bytes: 99, SHA256: strings.Repeat("0f", 32), Damage: []string{}}},
		Verdict: report.Verdict{Severity: report.Critical, Text: "Out of memory on device 0: 2.00 GiB asked for by loss_step", Fix: to("Chunked cross-entropy"), SavesBytes: to(int64(2 << 30))},
		Devices: []report.Device{{
			CapacityBytes: to(int64(6 << 30)), CapacitySource: to("oom_entry"), Events: 5000, History: "complete", Stacks: "all", Steps: make([]report.Step, 3),
			Peaks:  report.Peaks{Requested: report.Peak{4 << 30, to(1200)}, Allocated: report.Peak{4<<30 + 512, to(1234)}, Active: report.Peak{4 << 30, nil}, Reserved: report.Peak{5 << 30, to(1230)}},
			AtPeak: moment, Sites: []report.Site{site, library, {Bytes: 512, Blocks: 1, Older: true, Category: to("unknown")}},
			OOMs: []report.OOM{{Event: 1300, RequestedBytes: 2 << 30, Verdict: "true_shortage", Phase: to("backward"), AllocatedBytes: 4 << 30, ReservedBytes: 5 << 30, DeviceFreeBytes: to(int64(1 << 20)), Site: &site},
				{Event: 1400, RequestedBytes: 1 << 20, Verdict: "unknown", AllocatedBytes: 1, ReservedBytes: 2}},
			Findings: []report.Finding{{ID: "logits_dominate", Severity: report.Critical, Title: "The logits fill the GPU", Evidence: []string{"3.00 GiB of 4.00 GiB", "two", "three", "four"}, Fix: to("Chunked cross-entropy at train.py:27: it fits"), SavesBytes: to(int64(2 << 30)),
				Code: "loss = sum(\n    losses)", Outcome: report.Outcome{PeakBefore: to(int64(5 << 30)), PeakAfter: to(int64(3 << 30))}},
				{ID: "recording_late", Severity: report.Info, Title: "Recording began late"}},
			Leaks: []report.Leak{{Kind: "growing_list", Defect: true, File: to("/srv/run/train.py"), Line: to(9), Function: to("step"), Category: to("activations"), BytesPerStep: to(int64(72 << 20)), Steps: 8, TotalBytes: 576 << 20, Confidence: 0.97},
				{Kind: "retained_graph", Defect: true, Suspected: true, Steps: 2, TotalBytes: 1 << 20, Confidence: 0.5}, {Kind: "first_step_state", Steps: 1, TotalBytes: 5, Confidence: 1}},
		}},
		Comparison: &report.Comparison{Model: "gpt2, 124,439,808 parameters", Peak: report.Compared{"peak", 4 << 30, to(int64(5 << 30)), to("autocast's copies")}, Phases: []report.Compared{{"first_optimizer_step", 1 << 30, nil, nil}}},
		Evidence:   &evidence.Evidence{OOMMessages: []evidence.OOMMessage{{Source: 1, Line: 77, GPU: to(0), RequestedBytes: to(int64(2 << 30)), UserFile: to("/srv/run/train.py"), UserLine: to(27)}}},
	}
}

func TestMarkdownGolden(t *testing.T) {
	var b bytes.Buffer
	if err := markdown.Write(&b, view.Document(fullDocument(), view.Ticket)); err != nil {
		t.Fatal(err)
	}
	golden(t, "markdown_full.md", b.Bytes())
	none := fullDocument()
	none.Devices[0].History, none.Devices[0].SitesAtEnd, none.Devices[0].AtEnd = "none", none.Devices[0].Sites, none.Devices[0].AtPeak
	none.Devices[0].OOMs, none.Devices[0].Leaks, none.Devices[0].Findings, none.Comparison = nil, nil, nil, nil
	none.Title, none.Notes, none.Command, none.Evidence = "", nil, nil, evidence.New()
	b.Reset()
	if err := markdown.Write(&b, view.Document(none, view.Ticket)); err != nil {
		t.Fatal(err)
	}
	golden(t, "markdown_no_history.md", b.Bytes())
}

// hostile are names that mean something to Markdown, HTML or GitHub.
var hostile = []string{
	"a|b", `a\|b`, `a\`, "a`b", "``a|", "|", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!-- gone", "&lt;b&gt;", "&#64;octocat",
	"@octocat", "x@octocat.example", "#123", "acme/secret#7", "GH-12", "see https://example.com/x", "www.example.com", "![x](https://example.com/p.png)",
	"[x](javascript:alert(1))", "*bold* _it_ ~~gone~~", "$$\\int$$", "line\n\n# heading\n- list", "- list", "1. list", "> quote", "```\nfence", "a1b2c3d4e5", ":tada:", "a.py:100: x", ":+1:",
	"\u202egnp.exe", "</code></td></table>", "    indented", "# heading", "---", "===", "mailto:a@b.example", "\x1b[31mred",
}

// plant puts a text into every string of a value, except those that choose from
// fixed words.
func plant(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if slices.Contains([]string{"Severity", "History", "Stacks", "CapacitySource", "SHA256"}, v.Type().Field(i).Name) || !v.Type().Field(i).IsExported() {
				continue
			}
			plant(v.Field(i), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i), text)
		}
	}
}

var (
	harmless = map[string]bool{"all": true, "h2": true, "h3": true, "h4": true, "p": true, "blockquote": true, "strong": true, "table": true, "thead": true, "tbody": true, "tr": true,
		"th": true, "td": true, "ul": true, "li": true, "pre": true, "code": true, "sub": true, "span": true, "details": true, "summary": true}
	autolink = regexp.MustCompile(`@[A-Za-z0-9]|#[0-9]|(?i:GH-[0-9])|\$.*\$`)
)

// rendered is what GitHub would show, as far as a library for its dialect goes.
func rendered(t *testing.T, markdown []byte) string {
	t.Helper()
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe(), html.WithXHTML()))
	if err := md.Convert(markdown, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkHTML reports elements, attributes and texts that only a name could have made,
// and rows of a table that have more or fewer cells than its head.
func checkHTML(t *testing.T, page string) (elements int) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<all>" + page + "</all>"))
	d.Entity = xml.HTMLEntity
	code, cells, head := 0, 0, 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return elements
		}
		if err != nil {
			t.Errorf("not well-formed: %v", err)
			return elements
		}
		switch x := token.(type) {
		case xml.StartElement:
			elements++
			name := x.Name.Local
			if !harmless[name] {
				t.Errorf("element <%s>", name)
			}
			for _, a := range x.Attr {
				if a.Name.Local != "style" && a.Name.Local != "align" && a.Name.Local != "class" && a.Name.Local != "id" {
					t.Errorf("attribute %s=%q", a.Name.Local, a.Value)
				}
			}
			switch name {
			case "code", "pre", "span":
				code++
			case "table":
				head = 0
			case "tr":
				cells = 0
			case "td", "th":
				cells++
			}
		case xml.EndElement:
			switch x.Name.Local {
			case "code", "pre", "span":
				code--
			case "tr":
				if head == 0 {
					head = cells
				}
				if cells != head {
					t.Errorf("a row of %d cells in a table of %d", cells, head)
				}
			}
		case xml.CharData:
			if code == 0 && autolink.Match(x) {
				t.Errorf("text %q means something to GitHub", x)
			}
		case xml.Comment, xml.Directive:
			t.Errorf("%T", x)
		}
	}
}

// TestMarkdownHostile: whatever a name is, the page has the same elements as
// with a harmless one.
func TestMarkdownHostile(t *testing.T) {
	render := func(text string) string {
		doc := fullDocument()
		plant(reflect.ValueOf(doc).Elem(), text)
		doc.Devices[0].AtPeak.Categories = map[string]int64{"logits": 1}
		var b bytes.Buffer
		if err := markdown.Write(&b, view.Document(doc, view.Ticket)); err != nil {
			t.Fatal(err)
		}
		return rendered(t, b.Bytes())
	}
	want := checkHTML(t, render("harmless"))
	for _, name := range hostile {
		t.Run(name, func(t *testing.T) {
			page := render(name)
			spans := strings.Count(page, "<span>") // around a $, our own
			if got := checkHTML(t, page) - spans; got != want {
				t.Errorf("%d elements, %d with a harmless name", got, want)
			}
		})
	}
}

// TestMarkdownCheckCanFail: the check above sees what it is there for.
func TestMarkdownCheckCanFail(t *testing.T) {
	for _, raw := range []string{"<script>x</script>", "@octocat", "| a | b |\n|---|---|\n| x|y|z |\n\n<i>x</i>", "see https://example.com"} {
		probe := &testing.T{}
		checkHTML(probe, rendered(t, []byte(raw)))
		if !probe.Failed() {
			t.Errorf("%q went unseen", raw)
		}
	}
}

func TestCodeKeepsTheText(t *testing.T) {
	for _, name := range hostile {
		want := strings.Join(strings.Fields(view.Printable(strings.NewReplacer("\n", " ").Replace(name))), " ")
		table := view.Table{Columns: []view.Column{{Name: "a"}}, Rows: []view.Row{{Cells: []view.Cell{{{Text: name, Code: true}}}}}}
		var b bytes.Buffer
		if err := markdown.Write(&b, &view.Sheet{Parts: []view.Part{{Table: table}}}); err != nil {
			t.Fatal(err)
		}
		page := rendered(t, b.Bytes())
		d := xml.NewDecoder(strings.NewReader(page))
		got, inside := "", false
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			switch x := token.(type) {
			case xml.StartElement:
				inside = x.Name.Local == "code"
			case xml.EndElement:
				inside = false
			case xml.CharData:
				if inside {
					got += string(x)
				}
			}
		}
		if got != want {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}
