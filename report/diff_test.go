package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	escape "html"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// fullDiff has something in every part.
func fullDiff() *report.Diff {
	moved := report.DiffSite{Function: "cross_entropy", File: "/x/site-packages/transformers/loss/loss_utils.py", BeforeLine: to(40), AfterLine: to(42), Op: "aten::_log_softmax", Category: to("logits"),
		CalledFrom: &report.DiffPlace{"loss_step", "/srv/run/train.py", to(20), to(27)}, BeforeBytes: 1 << 30, AfterBytes: 3 << 30, BeforeBlocks: 1, AfterBlocks: 2, In: report.InBoth, Known: true}
	d := &report.Diff{Schema: report.DiffSchema, Title: "Nightly", Tool: "vramscope test", Notes: []report.Note{{"torch", "2.9.1"}},
		Before:  report.DiffSide{Input: report.Input{Path: "a/snapshot.pickle", Kind: "snapshot", Bytes: 12345, SHA256: strings.Repeat("ab", 32), Era: to(">=2.15"), Damage: []string{}}, History: "complete", Stacks: "all", Moment: "peak", Event: to(100), Allocated: 2 << 30},
		After:   report.DiffSide{Input: report.Input{Path: "b/snapshot.pickle", Kind: "snapshot", Bytes: 54321, SHA256: strings.Repeat("0f", 32), Damage: []string{}}, Device: 1, History: "none", Stacks: "all", Moment: "dump", Allocated: 4 << 30, OOMs: 1},
		Verdict: report.Verdict{Severity: report.Critical, Text: "The allocated peak grew by 2.00 GiB (+100.0 %): 2.00 GiB before, 4.00 GiB after"},
		Peaks:   map[string]report.DiffSize{"requested": {2 << 30, 4 << 30}, "allocated": {2 << 30, 4 << 30}, "active": {0, 5}, "reserved": {5 << 30, 4 << 30}},
		Sites: []report.DiffSite{moved, {Function: "old", File: "/srv/run/train.py", BeforeLine: to(3), BeforeBytes: 1 << 29, BeforeBlocks: 1, In: report.InBefore, Category: to("activations"), Known: true},
			{Op: "MmBackward0", AfterBytes: 1 << 20, In: report.InAfter, Category: to("gradients"), Known: true}, {Function: "build", File: "/srv/run/train.py", BeforeLine: to(2), BeforeBytes: 1 << 19, AfterBytes: 1 << 20, In: report.InBoth, OlderIn: report.InAfter, Sites: 3, Category: to("weights"), Known: true},
			{Function: "same", File: "/srv/run/train.py", BeforeLine: to(3), AfterLine: to(3), BeforeBytes: 7, AfterBytes: 7, In: report.InBoth, Category: to("inputs"), Known: true}},
		Caveats: []string{"The second recording has no history"},
	}
	for _, c := range report.Categories {
		d.Categories = append(d.Categories, report.DiffCategory{Category: c})
	}
	d.Categories[0].DiffSize, d.Categories[4].DiffSize = report.DiffSize{7, 7}, report.DiffSize{1 << 30, 3 << 30}
	for i := range 20 {
		d.Sites = append(d.Sites, report.DiffSite{Function: "small", File: "x.py", AfterLine: to(i + 1), AfterBytes: 10, In: report.InAfter, Known: true, Category: to("temporary")})
		d.Steps = append(d.Steps, report.DiffStep{Step: i, BeforeStep: to(i), AfterStep: to(i), Before: to(int64(i << 20)), After: to(int64(i << 21))})
	}
	d.Steps[18].AfterStep = to(16) // of a recording that began late
	d.Steps[19].BeforeStep, d.Steps[19].Before = nil, nil
	return d
}

var diffFormats = map[string]func(io.Writer, *report.Diff) error{
	"txt": func(w io.Writer, d *report.Diff) error {
		return text.Write(w, view.Diff(d, view.Terminal), text.Style{Width: 100})
	},
	"json": report.DiffJSON,
	"md":   func(w io.Writer, d *report.Diff) error { return markdown.Write(w, view.Diff(d, view.Ticket)) },
	"html": func(w io.Writer, d *report.Diff) error { return html.Sheet(w, view.Diff(d, view.Ticket)) },
}

func TestDiffGolden(t *testing.T) {
	for name, write := range diffFormats {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b, fullDiff()); err != nil {
				t.Fatal(err)
			}
			golden(t, "diff."+name+".golden", b.Bytes())
		})
	}
}

func TestDiffNarrow(t *testing.T) {
	var b bytes.Buffer
	if err := text.Write(&b, view.Diff(fullDiff(), view.Terminal), text.Style{Quiet: true}); err != nil || strings.Contains(b.String(), "By category") {
		t.Errorf("%s, %v", b.String(), err)
	}
}

// TestDiffJSONFields: the names that scripts rely on are always there.
func TestDiffJSONFields(t *testing.T) {
	var b bytes.Buffer
	if err := report.DiffJSON(&b, fullDiff()); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "before", "after", "peaks", "categories", "sites", "verdict"} {
		if doc[key] == nil {
			t.Errorf("%q is missing", key)
		}
	}
	for _, s := range doc["sites"].([]any) {
		for _, key := range []string{"function", "file", "before_line", "after_line", "category", "before_bytes", "after_bytes"} {
			if _, ok := s.(map[string]any)[key]; !ok {
				t.Errorf("a site without %q", key)
			}
		}
	}
	for _, c := range doc["categories"].([]any) {
		if x := c.(map[string]any); x["category"] == nil || x["before"] == nil || x["after"] == nil {
			t.Errorf("category %v", x)
		}
	}
	if p := doc["peaks"].(map[string]any)["allocated"].(map[string]any); p["before"] != float64(2<<30) || p["after"] != float64(4<<30) {
		t.Errorf("peaks: %v", p)
	}
}

// TestDiffHostile: no name makes an element, in the page or in Markdown.
func TestDiffHostile(t *testing.T) {
	checkHostile(t, func(format, text string) string {
		d := fullDiff()
		plant(reflect.ValueOf(d).Elem(), text)
		d.Before.Moment, d.After.Moment = "peak", "peak"
		var b bytes.Buffer
		if err := diffFormats[format](&b, d); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

// checkHostile writes something as html, md and txt with hostile texts for names.
func checkHostile(t *testing.T, write func(format, text string) string) {
	t.Helper()
	elements := func(page string) (n int) {
		d := xml.NewDecoder(strings.NewReader(page))
		d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		for {
			token, err := d.Token()
			if err == io.EOF {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok {
				inside := e.Name.Local == "a" && slices.ContainsFunc(e.Attr, func(a xml.Attr) bool {
					return a.Name.Local == "href" && strings.HasPrefix(a.Value, "#")
				})
				if n++; !inside && (e.Name.Local == "script" || e.Name.Local == "a" || e.Name.Local == "img") {
					t.Errorf("element <%s>", e.Name.Local)
				}
			}
		}
	}
	scripts := regexp.MustCompile(`(?s)<script[^>]*>.*?</script>`) // the page's own, and data, which has no <
	page := func(name string) string { return scripts.ReplaceAllString(write("html", name), "<br>") }
	wantMarkdown := checkHTML(t, rendered(t, []byte(write("md", "harmless"))))
	for _, name := range hostile {
		harmless := "harmless"
		if strings.Contains(name, ": ") { // a heading with a line below it
			harmless = "harmless: x"
		}
		wantPage := elements(page(harmless))
		if got := elements(page(name)); got != wantPage {
			t.Errorf("%q: %d elements in the page, %d with a harmless name", name, got, wantPage)
		}
		md := rendered(t, []byte(write("md", name)))
		if got := checkHTML(t, md) - strings.Count(md, "<span>"); got != wantMarkdown {
			t.Errorf("%q: %d elements in the Markdown, %d with a harmless name", name, got, wantMarkdown)
		}
		if strings.ContainsAny(write("txt", name), "\x1b\u202e") {
			t.Errorf("%q steers the terminal", name)
		}
	}
}

// TestDiffPolicy: the policy names the script that the page has, and the page
// has no other script or address to load from.
func TestDiffPolicy(t *testing.T) {
	var b bytes.Buffer
	if err := html.Sheet(&b, view.Diff(fullDiff(), view.Ticket)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	js := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(page)
	if js == nil {
		t.Fatal("no script")
	}
	sum := sha256.Sum256([]byte(js[1]))
	want := "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	policy := regexp.MustCompile(`content="(default-src[^"]*)"`).FindStringSubmatch(page)
	if policy == nil || escape.UnescapeString(policy[1]) != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
	page = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`).ReplaceAllString(page, "")
	if bad := regexp.MustCompile(`<script| style=|https?:|src=|href="[^#]|url\(`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
}
