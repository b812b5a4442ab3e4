package html_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	stdhtml "html"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	scriptElement = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`)
	anyTag        = regexp.MustCompile(`<[^>]*>`)
	blank         = regexp.MustCompile(`[ \t\n]+`)
	blockEnd      = regexp.MustCompile(`</(section|h1|h2|h3|p|li|tr|summary|pre|dl|header|footer|dt|div)>`)
)

// textOf is what a person reads of a page without scripts, a line for each block.
func textOf(page []byte) string {
	s := scriptElement.ReplaceAllString(string(page), "")
	s = blockEnd.ReplaceAllString(s, "\x00")
	s = anyTag.ReplaceAllString(s, " ")
	var out []string
	for _, line := range strings.Split(s, "\x00") {
		if line = strings.TrimSpace(blank.ReplaceAllString(stdhtml.UnescapeString(line), " ")); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

func TestHTMLText(t *testing.T) {
	for _, name := range []string{"full", "empty"} {
		t.Run(name, func(t *testing.T) {
			doc := sample()
			if name == "empty" {
				doc = &report.Document{Tool: "vramscope test", Verdict: report.Verdict{Severity: report.Warning, Text: "empty recording"}}
			}
			got := textOf(written(t, doc))
			golden := filepath.Join("testdata", "html_"+name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the page's text differs from %s (run with -update and look at the difference):\n%s", golden, got)
			}
		})
	}
}

func TestHTMLIsReproducible(t *testing.T) {
	program := recorder.Program{Seed: 3, Events: 2000, Depth: 6, Streams: 2, Pools: 1}
	a, b := written(t, simulated(t, program, nil)), written(t, simulated(t, program, nil))
	if !bytes.Equal(a, b) {
		t.Error("the same recording gave two different pages")
	}
}

// TestHTMLListsAreLists looks for lists that JSON would write as null, where
// the script goes through them.
func TestHTMLListsAreLists(t *testing.T) {
	doc := blockless()
	data := regexp.MustCompile(`id="data">"([^"]*)"`).FindSubmatch(written(t, doc))
	if data == nil {
		t.Fatal("the page has no data")
	}
	packed, err := base64.StdEncoding.DecodeString(string(data[1]))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	columns, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	n, k := binary.Uvarint(columns)
	var header map[string]any
	if err := json.Unmarshal(columns[k:k+int(n)], &header); err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		if value == nil && key != "peak" && key != "capacity" {
			t.Errorf("%s is null", key)
		}
	}
}

func TestHTMLSize(t *testing.T) {
	for _, c := range []struct{ allocations, limit int }{{10_000, 1_200_000}, {50_000, 3_000_000}, {500_000, 8_000_000}} {
		if n := len(written(t, synthetic(c.allocations))); n > c.limit {
			t.Errorf("%d allocations make a page of %d bytes, more than %d", c.allocations, n, c.limit)
		}
	}
}

// TestHTMLNeedsNothingElse looks for anything that a browser would fetch.
func TestHTMLNeedsNothingElse(t *testing.T) {
	page := scriptElement.ReplaceAllString(string(written(t, sample())), "")
	for _, bad := range []string{" src=", "href=\"http", "url(", "@import", "<link", "<iframe", "<object", "<base"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("the page has no policy that forbids by default")
	}
}

// payloads are names as an attacker would choose them. Each would set
// window.ran if it ran.
var payloads = []string{
	`<img src=x onerror=window.ran=1>`,
	`</script><script>window.ran=2</script>`,
	`<svg onload=window.ran=3></svg>`,
	`"><img src=x onerror=window.ran=4>`,
	`__f__(window.ran=5)__f__`,
	`<!--<script>window.ran=6</script>`,
	"';window.ran=7;//\u2028window.ran=7",
	`{{constructor.constructor('window.ran=8')()}}<iframe srcdoc="<script>parent.ran=8</script>"></iframe>`,
}

// poison puts a payload into every text of a value.
func poison(v reflect.Value, payload string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), payload)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), payload)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), payload)
		}
	case reflect.String:
		if v.CanSet() && v.Type() == reflect.TypeFor[string]() {
			v.SetString(payload)
		}
	}
}

func TestHTMLEscapesEveryText(t *testing.T) {
	scripts := strings.Count(string(written(t, sample())), "<script")
	for _, payload := range payloads {
		doc := sample()
		poison(reflect.ValueOf(doc), payload)
		page := string(written(t, doc))
		if n := strings.Count(page, "<script"); n != scripts {
			t.Errorf("%q: %d script elements instead of %d", payload, n, scripts)
		}
		for _, bad := range []string{"<img", "<svg on", "<iframe", "<!--", "window.ran=2</script>"} {
			if strings.Contains(page, bad) {
				t.Errorf("%q: the page has %q", payload, bad)
			}
		}
		for _, script := range scriptElement.FindAllString(page, -1) {
			if strings.Contains(script, "\u2028") {
				t.Errorf("%q: a script holds a line separator", payload)
			}
		}
		if !strings.Contains(page, "window.ran") {
			t.Errorf("%q: the payload isn't in the page at all, so this test shows nothing", payload)
		}
		var unsafe bytes.Buffer
		if err := html.UnsafeHTML(&unsafe, doc, true, true); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(payload, "<") && !strings.Contains(unsafe.String(), payload[strings.Index(payload, "<"):strings.Index(payload, "<")+4]) {
			t.Errorf("%q: not found with escaping off, so this test can't fail", payload)
		}
	}
}

// TestNothingSaved: a change that saves nothing is shown without a number.
func TestNothingSaved(t *testing.T) {
	none := int64(0)
	doc, index := sample(), runsIndex(30, plainName)
	doc.Verdict.SavesBytes = &none
	for i := range doc.Findings {
		doc.Findings[i].SavesBytes = &none
	}
	for i := range doc.Devices {
		for k := range doc.Devices[i].Findings {
			doc.Devices[i].Findings[k].SavesBytes = &none
		}
	}
	for i := range index.OOMs {
		index.OOMs[i].SavesBytes = &none
	}
	if len(doc.Findings) == 0 || len(index.OOMs) == 0 {
		t.Fatal("nothing that could save")
	}
	for name, page := range map[string][]byte{"report": written(t, doc), "index": indexPage(t, index)} {
		if strings.Contains(string(page), "saves 0 B") {
			t.Errorf("%s: a saving of nothing", name)
		}
	}
}

// TestHTMLWithoutPictures makes pages of documents that were not asked to hold them.
func TestHTMLWithoutPictures(t *testing.T) {
	doc := sample()
	doc.Devices[0].Pictures = nil
	if page := textOf(written(t, doc)); strings.Contains(page, "Memory over time") || !strings.Contains(page, "Allocated at the peak") {
		t.Error("the page has a place for pictures that it hasn't, or no table")
	}
}

func TestPeakWithoutEvents(t *testing.T) {
	doc := sample()
	d := &doc.Devices[0]
	d.Peaks.Allocated.Event, d.Peaks.Reserved.Event = nil, nil
	if page := textOf(written(t, doc)); !strings.Contains(page, "capacity, before the first event") || strings.Contains(page, "at the dump") {
		t.Error("a peak before the first event isn't called that")
	}
	d.Events = 0
	if page := textOf(written(t, doc)); strings.Contains(page, "capacity, before the first event") || !strings.Contains(page, "capacity, at the dump") {
		t.Error("without events the peak isn't at the dump")
	}
}

// A file that contradicts itself may have more allocated than reserved: no
// format calls that a negative amount of free memory.
func TestMoreAllocatedThanReserved(t *testing.T) {
	doc := sample()
	d := &doc.Devices[0]
	for _, m := range []*report.Moment{&d.AtPeak, &d.AtEnd, d.AtFailure} {
		m.ReservedBytes = m.AllocatedBytes - 2<<30
		m.CacheBytes = -2 << 30
	}
	for name, write := range map[string]func(io.Writer, *report.Document) error{
		"text": func(w io.Writer, doc *report.Document) error {
			return text.Write(w, view.Document(doc, view.Terminal), text.Style{})
		},
		"markdown": func(w io.Writer, doc *report.Document) error {
			return markdown.Write(w, view.Document(doc, view.Ticket))
		},
		"html": html.Document,
	} {
		var b bytes.Buffer
		if err := write(&b, doc); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if name == "html" {
			text = textOf(b.Bytes())
		}
		if !strings.Contains(text, "2.00 GiB more is allocated than reserved") || strings.Contains(text, "-2.00 GiB") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// TestVerdictDevice: the page opens on the device that the verdict is about.
func TestVerdictDevice(t *testing.T) {
	ranks := &report.Ranks{Rows: []report.Rank{{Index: 0}, {Index: 1}}, Shown: []int{0, 1}, FirstOOM: &report.FirstOOM{Row: 1}}
	failed := []report.OOM{{Verdict: "true_shortage"}}
	for name, c := range map[string]struct {
		change func(doc *report.Document)
		shown  int
		tag    string
	}{
		"one that failed": {func(doc *report.Document) { doc.Devices[1].OOMs = failed }, 1, "Out of memory: true shortage"},
		"the first to fail": {func(doc *report.Document) {
			doc.Devices[0].OOMs, doc.Devices[1].OOMs, doc.Ranks = failed, []report.OOM{{Verdict: "memory_fraction"}}, ranks
		}, 1, "Out of memory: memory fraction"},
		"one with its finding": {func(doc *report.Document) {
			doc.Devices[1].Findings = []report.Finding{{Title: "Missing no_grad"}}
			doc.Verdict.Text, doc.Verdict.About = "Missing no_grad, called in f", &report.About{Device: 1}
		}, 1, ""},
		"the fullest": {func(doc *report.Document) { doc.Devices[0].Peaks.Allocated.Bytes = 1 << 40 }, 0, ""},
	} {
		doc := sample()
		second := doc.Devices[0]
		second.Device, second.Input, second.Pictures = 1, 0, nil
		doc.Devices[0].OOMs, second.OOMs, doc.Devices[0].Findings, second.Findings = nil, nil, nil, nil
		doc.Devices = append(doc.Devices[:1], second)
		doc.Findings, doc.Verdict.Text = nil, "memory peaked"
		c.change(doc)
		page := string(written(t, doc))
		if want := fmt.Sprintf(`<main data-main="%d">`, c.shown); !strings.Contains(page, want) {
			t.Errorf("%s: no %s", name, want)
		}
		if !strings.Contains(page, `<div class="tag">`+c.tag) {
			t.Errorf("%s: the tag isn't %q", name, c.tag)
		}
	}
}
