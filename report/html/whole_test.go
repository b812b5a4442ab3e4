package html_test

import (
	"bytes"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/report"
)

// scenario is the document of a shipped scenario, pictures included.
func scenario(t *testing.T, name string) *report.Document {
	t.Helper()
	run, err := open.Files([]string{filepath.Join("..", "..", "testdata", "scenarios", name)}, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return analyzed(t, run.Sources, run.Evidence)
}

// TestEveryLineOfGrowthIsNamed wants each colour of the chart of growth in the list
// below it, and no name twice: those of one line are told apart by their callers.
func TestEveryLineOfGrowthIsNamed(t *testing.T) {
	doc := recording(t, "retained_graph__trainer_entropy/snapshot_named.pickle.gz")
	markup := string(written(t, doc))
	list := regexp.MustCompile(`(?s)<ul class="legend lines-of">(.*?)</ul>`).FindStringSubmatch(markup)
	if list == nil {
		t.Fatal("no list below the chart")
	}
	names, colors := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`var\(--(\w+)\)"></span><code>(.*?)</code>`).FindAllStringSubmatch(list[1], -1) {
		if names[m[2]] || colors[m[1]] {
			t.Errorf("the name %q or its colour %s stands in the list twice", html.UnescapeString(m[2]), m[1])
		}
		names[m[2]], colors[m[1]] = true, true
	}
	option := regexp.MustCompile(`(?s)id="option-grown">(.*?)</script>`).FindStringSubmatch(markup)
	if series := strings.Count(option[1], `"type":"bar"`); series != len(names) || series < 8 {
		t.Errorf("%d colours are drawn and %d named", series, len(names))
	}
}

// TestStacksOpenWhereTheyTell opens a stack without a line of Python: what took it down
// and what has no name are no beginning.
func TestStacksOpenWhereTheyTell(t *testing.T) {
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	event := doc.Devices[0].OOMs[0].Event
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.until(`document.querySelector('.detail .lines')`) // nobody has scrolled to it
	if got := eval[int](b, `vramscope[0].state.cursor.event`); got != event {
		t.Fatalf("the page opens at event %d instead of the failure's %d", got, event)
	}
	first := eval[string](b, `document.querySelector('.detail .lines code').textContent`)
	if !strings.HasPrefix(first, "at::_ops::") {
		t.Errorf("the stack of the failed request opens at %q", first)
	}
	b.clean()
}

// TestListWithoutScrolling looks at a page as a picture of all of it and a printer do.
func TestListWithoutScrolling(t *testing.T) {
	doc := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	peak := *doc.Devices[0].AtPeak.Event
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	around := fmt.Sprintf(`Array.from(document.querySelectorAll('.events [data-row]'), r => +r.dataset.row).some(k => vramscope[0].list.eventOf(k) === %d)`, peak)
	b.until(around)
	b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
	eval[bool](b, `(window.dispatchEvent(new Event('beforeprint')), true)`)
	b.until(around)
	const seen = `(box => Array.from(box.querySelectorAll('[data-row]')).filter(r => { const a = r.getBoundingClientRect(), b = box.getBoundingClientRect(); return a.height > 0 && a.bottom <= b.bottom + 1; }).length)(document.querySelector('.events'))`
	if n := eval[int](b, seen); n < 10 || n > 40 {
		t.Errorf("%d events are on paper", n)
	}
	b.clean()
}

// TestChartHasItsKeys clicks on the chart and goes on by keyboard.
func TestChartHasItsKeys(t *testing.T) {
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, recording(t, "growing_list__step_cache/snapshot_all.pickle.gz"))))
	b.show("[data-chart=area]", `document.querySelector('[data-chart=area] canvas')`)
	type at struct{ X, Y float64 }
	p := eval[at](b, `(r => ({X: r.left + r.width / 2, Y: r.top + r.height / 2}))(document.querySelector('[data-chart=area]').getBoundingClientRect())`)
	b.do(chromedp.MouseClickXY(p.X, p.Y))
	b.until(`vramscope[0].state.cursor.moment.kind === 'event'`)
	from := eval[int](b, `vramscope[0].state.cursor.event`)
	b.do(chromedp.KeyEvent("."), chromedp.KeyEvent("."), chromedp.KeyEvent(","))
	b.until(fmt.Sprintf(`vramscope[0].state.cursor.event === %d`, from+1))
	b.do(chromedp.KeyEvent("+"))
	b.until(`vramscope[0].state.range.v1 - vramscope[0].state.range.v0 < vramscope[0].state.h.events`)
	for _, place := range []string{"[data-view=category]", "[data-view=each]", "[data-view=segments]", "[id=events]"} {
		if n := eval[int](b, `document.querySelectorAll(%s).length`, quoted(place+" .help kbd")); n < 5 {
			t.Errorf("%s says %d of its keys", place, n)
		}
	}
	b.clean()
}

// TestPoolsHaveTheirCurve compares the line of private pools with the pools at the end.
func TestPoolsHaveTheirCurve(t *testing.T) {
	doc := scenario(t, "cuda_graph__python.pickle.gz")
	var want int64
	for _, p := range doc.Devices[0].Pools {
		want += p.Bytes
	}
	if want == 0 {
		t.Fatal("the scenario has no private pool")
	}
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	got := eval[float64](b, `(o => o.series.find(s => s.name.startsWith('Private pools')).data.at(-1)[1] * JSON.parse(document.getElementById('option-area').textContent).unit.Bytes)(vramscope[0].area.chart().getOption())`)
	if int64(got+0.5) != want {
		t.Errorf("private pools end at %.0f bytes instead of %d", got, want)
	}
	b.clean()
}

// TestRequestIsDrawn looks for what was asked for among the allocations and segments.
func TestRequestIsDrawn(t *testing.T) {
	doc := recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")
	o := doc.Devices[0].OOMs[0]
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.show("canvas.map", `vramscope[0].map.request`)
	if got := eval[int64](b, `vramscope[0].map.request.bytes`); got != o.RequestedBytes {
		t.Errorf("%d bytes are drawn of a request of %d", got, o.RequestedBytes)
	}
	if got := eval[int64](b, `vramscope[0].map.largest().bytes`); got != *o.LargestFreeBlock {
		t.Errorf("a free block of %d bytes is framed, the largest has %d", got, *o.LargestFreeBlock)
	}
	eval[bool](b, `(vramscope[0].see('each'), true)`)
	b.until(fmt.Sprintf(`vramscope[0].timeline.top >= %d`, o.AllocatedBytes+o.RequestedBytes))
	const red = `(t => { const g = t.g, w = t.canvas.width, h = t.canvas.height, d = g.getImageData(0, 0, w, h).data; let n = 0;
		const c = getComputedStyle(document.documentElement).getPropertyValue('--fail').trim().match(/\w\w/g).map(x => parseInt(x, 16));
		for (let i = 0; i < d.length; i += 4) if (d[i] === c[0] && d[i + 1] === c[1] && d[i + 2] === c[2]) n++; return n; })(vramscope[0].timeline)`
	b.until(red + " > 100")
	eval[bool](b, `(vramscope[0].state.cursor.set(10), true)`)
	b.until(`!vramscope[0].map.request`)
	b.clean()
}

// TestHostMemoryIsAPart wants pinned host memory where nobody has to unfold it.
func TestHostMemoryIsAPart(t *testing.T) {
	doc := recording(t, "side_stream__prefetcher/snapshot_all.pickle.gz")
	doc.Host = &report.HostMemory{Events: 3, Bytes: 4 << 20, PeakBytes: 2 << 20, Curve: report.Curve{Events: []int{0, 1, 2},
		Allocated: []int64{0, 2 << 20, 1 << 20}, Reserved: []int64{0, 4 << 20, 4 << 20}}}
	markup := written(t, doc)
	_, part, ok := bytes.Cut(markup, []byte(`<section class="card sheet" id="host">`))
	if !ok || !bytes.Contains(part[:3000], []byte(`data-plot="host"`)) || !bytes.Contains(markup, []byte(`<a href="#host">`)) {
		t.Error("pinned host memory has no part and curve of its own")
	}
}

// TestLongColumnsAreNotWalked wants no list made of the indices of a column: of a large
// recording's, that took more memory than all columns together.
func TestLongColumnsAreNotWalked(t *testing.T) {
	b := newTab(t, 1440, 900)
	b.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.walked = 0;
		const keys = Object.keys;
		Object.keys = o => { if (ArrayBuffer.isView(o) && o.length > 1000) window.walked++; return keys(o); };`}))
	doc := synthetic(5000)
	d := &doc.Devices[0]
	d.Pictures.Curve = report.CategoryCurve{Events: []int{0, 9999}, Bytes: [][]int64{{1, 2}, {3, 4}}, Reserved: []int64{9, 9}}
	b.open(saved(t, written(t, doc)))
	if !eval[bool](b, `document.querySelector('[data-chart=area]').dataset.drawn === '1'`) {
		t.Fatal("the chart isn't drawn")
	}
	if n := eval[int](b, `window.walked`); n > 0 {
		t.Errorf("%d columns were walked", n)
	}
	b.clean()
}
