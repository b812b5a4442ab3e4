package html_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
)

// runsIndex is a page over so many runs, of all statuses.
func runsIndex(runs int, name func(int) string) *report.Index {
	x := &report.Index{Tool: "vramscope test", Title: name(0), Experiments: 3}
	statuses := []report.Status{report.StatusFine, report.StatusOOM, report.StatusLeak, report.StatusWarning, report.StatusFailed}
	for i := range runs {
		r := report.IndexRow{Path: name(i), Name: fmt.Sprintf("run-%d", i), Experiment: name(i % 3), Status: statuses[i%5], Text: "verdict of " + name(i), Brief: "brief of " + name(i)}
		if r.Status != report.StatusFailed {
			peak := int64(i+1) << 24
			r.Allocated, r.Reserved, r.Time, r.Devices = &peak, new(peak+1<<20), new(int64(1.7e15)+int64(i)*3.6e9), 1+i%2
			r.Categories = make([]int64, len(report.Categories))
			r.Categories[0], r.Categories[3] = peak/3, peak-peak/3
		}
		r.Facts = []report.Fact{{Name: "batch size", Value: float64(1 + i%7)}, {Name: "the same", Value: 3}, {Name: "model", Text: []string{"gpt2", "llama"}[i%2]}, {Name: "host", Text: name(i)}}
		if i%2 == 0 {
			r.Capacity = new(int64(80) << 30)
		}
		switch r.Status {
		case report.StatusOOM:
			r.Failures, r.Fix, r.SavesBytes = []string{"feedface"}, new("fix of "+name(i)), new(int64(3)<<30)
			if i == 1 {
				r.LeakBytes = new(int64(1)) // a leak until there was no more
			}
		case report.StatusLeak:
			r.LeakBytes = new(int64(i) << 10)
		}
		x.Rows = append(x.Rows, r)
		x.Figures.Runs++
		if r.LeakBytes != nil {
			x.Figures.Leaking++
		}
	}
	link := report.IndexLink{Path: name(1), Name: "run-1"}
	x.OOMs = []report.OOMGroup{{Fingerprint: "feedface", Verdict: "true_shortage", Phase: "backward", Where: name(0), Runs: runs / 5, Requests: runs, First: new(int64(1.7e15)),
		MinBytes: 1 << 20, MaxBytes: 1 << 30, Fix: "fix of " + name(1), FixRuns: 1, SavesBytes: new(int64(1) << 30), Examples: []report.IndexLink{link}}}
	x.Regressions = []report.Regression{{Experiment: name(0), Before: 1 << 30, After: 3 << 30, OOM: true, Since: new(int64(1.7e15)), Last: link, First: link, Peaks: []int64{1 << 30, 3 << 30, 2 << 30}, Now: 2 << 30}}
	x.Leaks = []report.LeakTrend{{Experiment: name(0), Rates: []int64{0, 5, 9}, Leaking: 2, Still: true, Latest: 9, Where: name(2), Kind: "growing_list", Link: link}}
	x.Budgets = []report.BudgetGap{{Model: name(0), Setting: name(1), Runs: 2, Budget: 1 << 30, Measured: 2 << 30, Link: link}}
	return x
}

func indexPage(t *testing.T, x *report.Index) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := html.Index(&b, x); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func plainName(i int) string { return fmt.Sprintf("team/gpt2/run_%03d", i) }

// TestIndexWithoutScripts: the page says all sections and the worst runs in its
// markup, the same every time.
func TestIndexWithoutScripts(t *testing.T) {
	page := string(indexPage(t, runsIndex(30, plainName)))
	markup, _, _ := strings.Cut(page, "<script")
	for _, want := range []string{"30 runs", "true shortage", "in backward", "saves 1 GiB", "2023-11-14", "Grown", "+200.0 %", "growing list", "9 B a step", "1.00 GiB", "team/gpt2/run_007",
		`href="runs/run-1/report.html"`, "Out of memory"} {
		if !strings.Contains(markup, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	_, table, _ := strings.Cut(markup, `id="runs"`)
	if first, last := strings.Index(table, ">run_026<"), strings.Index(table, ">run_000<"); first < 0 || last < first {
		t.Error("the fullest failed run doesn't come before the fine ones")
	}
	if page != string(indexPage(t, runsIndex(30, plainName))) {
		t.Error("another time it is another page")
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page names an address")
	}
}

// TestIndexInBrowser sorts, searches and filters as people do.
func TestIndexInBrowser(t *testing.T) {
	b := newTab(t, 1440, 900)
	url := saved(t, indexPage(t, runsIndex(300, plainName)))
	b.open(url + "#q=%") // a link that was cut
	b.open(url)
	rows := func() int { return eval[int](b, "document.querySelectorAll('table.runs tbody tr').length") }
	first := func() string { return strings.TrimPrefix(b.text("table.runs tbody tr td"), "+ ") }
	if n := rows(); n != 100 {
		t.Errorf("%d rows at first", n)
	}
	if got := first(); !strings.HasPrefix(got, "run_296") {
		t.Errorf("first is %q", got)
	}
	click := func(selector string) {
		t.Helper()
		eval[bool](b, "(document.querySelector(%s).click(), true)", quoted(selector))
	}
	for n := 200; n <= 300; n += 100 {
		eval[bool](b, `(window.scrollTo(0, document.body.scrollHeight), true)`)
		b.until(fmt.Sprintf(`document.querySelectorAll('table.runs tbody tr').length === %d`, n))
	}
	click("table.runs tr.line td.text")
	if got := b.text("table.runs tr.rest"); !strings.Contains(got, "verdict of team/gpt2/run_296") || !strings.Contains(got, "First change: fix of") || !strings.Contains(got, "batch size\n3") {
		t.Errorf("opened, a run says %q", got)
	}
	click("table.runs tr.line button.open")
	if n := rows(); n != 300 {
		t.Errorf("%d rows after one was closed", n)
	}
	eval[bool](b, `(document.querySelector('#compare').open = true, true)`)
	if got := eval[[]string](b, `Array.from(document.querySelectorAll('#axis option'), o => o.textContent)`); !slices.Equal(got, []string{"the date", "batch size", "model"}) {
		t.Errorf("the peak can be drawn against %q", got)
	}
	eval[bool](b, `((a => { a.value = '1'; a.dispatchEvent(new Event('change')); })(document.querySelector('#axis')), true)`)
	const seen = `(t => { const r = document.querySelector('#scatter').getBoundingClientRect(), out = new Set(); const d = t.getContext('2d').getImageData(0, 0, t.width, t.height).data; for (let x = 60; x < t.width; x++) for (let y = 0; y < t.height * 0.85; y++) if (d[4 * (y * t.width + x)] > 150 && d[4 * (y * t.width + x) + 2] < 60 && d[4 * (y * t.width + x) + 3] > 100) out.add(Math.round(3 * x / t.width)); return [...out].sort().join(); })(document.querySelector('#scatter'))`
	if got := eval[string](b, seen); got != "0,3" {
		t.Errorf("two models stand at the thirds %s of the axis", got)
	}
	for _, c := range []struct{ column, first string }{{"a", "run_298"}, {"p", "run_000"}, {"w", "run_000"}, {"l", "run_297"}} {
		click("table.runs th[data-sort=" + c.column + "] button")
		if got := first(); !strings.HasPrefix(got, c.first) {
			t.Errorf("sorted by %s, first is %q", c.column, got)
		}
		if n := eval[int](b, "document.querySelectorAll('table.runs th[aria-sort]').length"); n < 1 {
			t.Error("no column says that it is sorted")
		}
	}
	click("table.runs th[data-sort=p] button")
	click("table.runs th[data-sort=p] button")
	if got := first(); !strings.HasPrefix(got, "run_299") {
		t.Errorf("sorted backwards, first is %q", got)
	}
	click(".tile[data-status=leak]")
	if n := rows(); n != 61 { // one of them failed in the end
		t.Errorf("%d leaking runs", n)
	}
	if got := b.text("#controls button[data-status=leak]"); got != "Leak 61" {
		t.Errorf("the button says %q", got)
	}
	click("button.pick")
	if n := rows(); n != 60 {
		t.Errorf("%d runs of one failure", n)
	}
	eval[bool](b, `((i => { i.value = 'RUN_12 verdict'; i.dispatchEvent(new Event('input')); })(document.querySelector('#search')), true)`)
	if n := rows(); n != 10 {
		t.Errorf("%d runs found", n)
	}
	click("#theme")
	if got := eval[string](b, "document.documentElement.dataset.theme"); got != "dark" {
		t.Errorf("theme %q", got)
	}
	b.clean()
}

// TestIndexOfThousands: five thousand runs are drawn as they are looked at, sorted
// and searched in a moment.
func TestIndexOfThousands(t *testing.T) {
	b := newTab(t, 1440, 900)
	page := indexPage(t, runsIndex(5000, plainName))
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	b.open(saved(t, page))
	elements := func() int { return eval[int](b, `document.querySelectorAll('*').length`) }
	if n := elements(); n > 5000 {
		t.Errorf("%d elements at first", n)
	}
	eval[bool](b, `(document.querySelector('#compare').open = true, true)`)
	eval[bool](b, `((i => { i.value = 'run_4999'; i.dispatchEvent(new Event('input')); })(document.querySelector('#search')), true)`)
	if got := b.text("table.runs tbody tr"); !strings.HasPrefix(got, "+ run_4999") {
		t.Errorf("found is %q", got)
	}
	eval[bool](b, `((i => { i.value = ''; i.dispatchEvent(new Event('input')); })(document.querySelector('#search')), true)`)
	for _, column := range []string{"p", "s", "a", "b", "l", "w"} {
		eval[bool](b, `(document.querySelector('table.runs th[data-sort=%s] button').click(), true)`, column)
		if n := elements(); n > 5000 {
			t.Errorf("sorted by %s, %d elements", column, n)
		}
	}
	b.clean()
}

// TestIndexFitsAPhone looks for anything wider than the window.
func TestIndexFitsAPhone(t *testing.T) {
	b := newTab(t, 390, 800)
	b.open(saved(t, indexPage(t, runsIndex(40, func(i int) string {
		return fmt.Sprintf("users/somebody/a-rather-long-name-of-an-experiment/%040d/snapshot.pickle.gz", i)
	}))))
	if n := eval[float64](b, `Math.max(...Array.from(document.querySelectorAll('td.links a'), a => a.getBoundingClientRect().height))`); n > 24 {
		t.Errorf("a link is %.0f pixels high", n)
	}
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 390 {
		t.Errorf("the page is %d pixels wide: %s", w, eval[string](b, `Array.from(document.querySelectorAll('body *')).filter(e => e.getBoundingClientRect().right > 391).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join('\n')`))
	}
	b.clean()
}

// TestIndexHostileNames: names of runs are text, whatever they hold.
func TestIndexHostileNames(t *testing.T) {
	hostile := func(i int) string { return payloads[i%len(payloads)] }
	b := newTab(t, 1200, 900)
	b.open(saved(t, indexPage(t, runsIndex(60, hostile))))
	for _, selector := range []string{"table.runs th[data-sort=p] button", "button.pick", "button[data-status=oom]", "table.runs tr.line td.text"} {
		eval[bool](b, "(document.querySelector(%s).click(), true)", quoted(selector))
	}
	if n := b.ran(); n > 0 {
		t.Errorf("payload %d ran: %q", n, payloads[n-1])
	}
	for _, tag := range []string{"img", "iframe"} {
		if n := eval[int](b, "document.getElementsByTagName(%s).length", quoted(tag)); n > 0 {
			t.Errorf("%d %s elements were made of names", n, tag)
		}
	}
	b.clean()
}

func TestAdvice(t *testing.T) {
	saves, other := int64(5), int64(7)
	doc := &report.Document{Verdict: report.Verdict{Fix: new("the verdict's"), SavesBytes: &other}}
	for name, c := range map[string]struct {
		findings []report.Finding
		fix      string
		saves    int64
	}{
		"its finding":            {[]report.Finding{{ID: "oom_true_shortage"}, {ID: "oom_fragmentation", Fix: new("its own"), SavesBytes: &saves}}, "its own", 5},
		"no finding":             {nil, "the verdict's", 7},
		"a finding without more": {[]report.Finding{{ID: "oom_fragmentation", SavesBytes: &saves}}, "the verdict's", 7},
	} {
		got := doc.Advice(&report.Device{Findings: c.findings}, &report.OOM{Verdict: "fragmentation"})
		if got.Fix == nil || *got.Fix != c.fix || got.SavesBytes == nil || *got.SavesBytes != c.saves {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
