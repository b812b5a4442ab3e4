package html_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// TestProof: what the bar says adds up to what was in use when the request failed,
// and ends behind the capacity by what was missing.
func TestProof(t *testing.T) {
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz", "qwen_vocab_oom__05b/log.txt")
	o := &doc.Devices[0].OOMs[0]
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	type part struct{ Class, Title string }
	var shown []string
	for _, p := range eval[[]part](b, `Array.from(document.querySelectorAll('.stackbar > span'), e => ({Class: e.className, Title: e.title}))`) {
		shown = append(shown, p.Title)
	}
	if len(shown) < 4 || !strings.HasPrefix(shown[0], "Logits: ") || shown[len(shown)-1] != "asked for: "+units.Size(o.RequestedBytes) {
		t.Errorf("the bar shows %q", shown)
	}
	if note := b.text(".proof .sub"); !strings.Contains(note, units.Size(o.AllocatedBytes)+" in use of "+units.Size(*doc.Devices[0].CapacityBytes)) {
		t.Errorf("beside it stands %q", note)
	}
	over := eval[float64](b, `(() => { const bar = document.querySelector('.stackbar'), r = bar.getBoundingClientRect(), used = bar.querySelector('.c-logits').getBoundingClientRect(),
		line = bar.querySelector('i').getBoundingClientRect(), end = bar.querySelector('.request').getBoundingClientRect();
		return (end.right - line.left) / used.width; })()`)
	logits := float64(74_683_670_528) // of this recording: 24 x 2048 x 151936 x 10 bytes
	if got := over * logits; got < 21.5*(1<<30) || got > 23*(1<<30) {
		t.Errorf("the bar ends %.2f GiB behind the capacity", got/(1<<30))
	}
	b.clean()
}

// TestProofCapacity: what lies outside PyTorch stands in the bar only where the capacity counts it.
func TestProofCapacity(t *testing.T) {
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz", "qwen_vocab_oom__05b/log.txt")
	d := &doc.Devices[0]
	if d.AtPeak.CUDAContext == nil || *d.CapacitySource != "oom_entry" {
		t.Fatal("the log tells of no context, or the entry about the failure of no capacity")
	}
	const context, pytorchs = `title="CUDA context and libraries: `, ">PyTorch could have 78.6 GiB<"
	if page := string(written(t, doc)); strings.Contains(page, context) || !strings.Contains(page, pytorchs) {
		t.Error("of what PyTorch could have, the bar holds the context, too")
	}
	d.CapacitySource, d.CapacityBytes = new("flag"), new(int64(85_000_000_000))
	if page := string(written(t, doc)); !strings.Contains(page, context) || !strings.Contains(page, ">capacity 79.2 GiB<") {
		t.Error("of the whole GPU, the bar lacks the context")
	}
	d.CapacitySource, d.CapacityBytes = nil, nil
	if strings.Contains(string(written(t, doc)), context) {
		t.Error("the context stands in the bar of a GPU of unknown size")
	}
}

// TestProofOfLeak: what a leak held when a request failed isn't called temporary.
func TestProofOfLeak(t *testing.T) {
	doc := recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")
	if page := string(written(t, doc)); !strings.Contains(page, `title="Leaked: 47.7 GiB"`) {
		t.Error("the bar lacks what leaked")
	}
}

// TestFailureFirst: a page about a failed request opens at it: its table, its
// segment map; another moment is a click away.
func TestFailureFirst(t *testing.T) {
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	o := doc.Devices[0].OOMs[0]
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	if got := b.text("[data-role=table-title]"); got != "Allocated when the request failed" {
		t.Errorf("the table is %q", got)
	}
	eval[bool](b, `(document.querySelector('details#segments').open = true, true)`)
	b.until(`document.querySelector('canvas.map').width > 100`)
	if note := b.text("[data-role=map-note]"); !strings.Contains(note, "at event "+units.Count(o.Event)) {
		t.Errorf("the map is of %q", note)
	}
	if eval[bool](b, `document.querySelector('[data-role=map-end]').offsetHeight > 0`) {
		t.Error("beside the map of the failure stands what was free at the end")
	}
	if hash := eval[string](b, "location.hash"); hash != "" {
		t.Errorf("the link of what the page opens at is %s", hash)
	}
	eval[bool](b, `(document.querySelector('[data-moment=end]').click(), document.querySelector('canvas.map').scrollIntoView(), true)`)
	b.until(`document.querySelector('[data-role=map-end]').offsetHeight > 0`) // the map of the end has words
	b.clean()
}

// TestMapBeforeItIsSeen: a picture of the whole page has the segment map of a failure in pieces.
func TestMapBeforeItIsSeen(t *testing.T) {
	doc := recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.until(`document.querySelector('[data-role=map-note]').textContent.includes(' segments at event ')`)
	if eval[float64](b, "scrollY + innerHeight - document.querySelector('canvas.map').getBoundingClientRect().top") > 0 {
		t.Error("the map could be seen")
	}
	b.clean()
}

// TestStepNames: steps have their names where these don't lie on each other.
func TestStepNames(t *testing.T) {
	const named = `vramscope[0].area.chart().getOption().series.at(-1).markArea.data.filter(x => x[0].name).length`
	for width, want := range map[int64]bool{1440: true, 400: false} {
		b := newTab(t, width, 900)
		b.open(saved(t, written(t, recording(t, "mlp_regression__script/snapshot_all.pickle.gz"))))
		b.until(`vramscope[0].area.chart()`)
		if n := eval[int](b, named); n > 0 != want {
			t.Errorf("%d steps have names at %d pixels", n, width)
		}
		b.clean()
	}
}

// TestHeightFollowsZoom: what is in view fills the picture, in both of them.
func TestHeightFollowsZoom(t *testing.T) {
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	top := func() float64 { return eval[float64](b, `vramscope[0].area.chart().getOption().yAxis[0].max`) }
	whole := top()
	eval[bool](b, `(vramscope[0].area.chart().dispatchAction({type: 'dataZoom', startValue: 2135, endValue: 4160}), true)`)
	b.until(`vramscope[0].timeline.v0 > 2000`)
	if got := top(); whole < 90 || got > 10 || got < 4 {
		t.Errorf("the axis ends at %v GiB of the whole, and at %v of a part that holds 4", whole, got)
	}
	b.see("each")
	b.until(`vramscope[0].timeline.top < 10 * 2 ** 30`)
	eval[bool](b, `(document.querySelector('[data-role=reset]').click(), true)`)
	b.until(fmt.Sprintf(`vramscope[0].timeline.top > %d`, int64(70)<<30))
	b.see("category")
	if got := top(); got != whole {
		t.Errorf("the whole again, the axis ends at %v instead of %v", got, whole)
	}
	b.clean()
}

// TestWordsStayWhole: on narrow screens the names in the table of call sites break
// at their joints only.
func TestWordsStayWhole(t *testing.T) {
	b := newTab(t, 1440, 900)
	url := saved(t, written(t, recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")))
	for _, width := range []int64{400, 768, 1024, 1440} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.open(url)
		broken := eval[[]string](b, `(() => { const out = [];
			for (const code of document.querySelectorAll('table.sites tbody code')) for (const node of code.childNodes) {
				if (node.nodeType !== 3) continue;
				const r = document.createRange();
				r.selectNodeContents(node);
				const lines = new Set(Array.from(r.getClientRects(), x => Math.round(x.top)));
				if (lines.size > 1 && !/\s/.test(node.data)) out.push(node.data);
			} return out; })()`)
		if len(broken) > 0 {
			t.Errorf("%d pixels: broken are %q", width, broken)
		}
		if w := eval[int64](b, "document.documentElement.scrollWidth"); w > width {
			t.Errorf("%d pixels: the page is %d wide", width, w)
		}
		if width <= 1024 && eval[float64](b, `document.querySelector('.top nav').getBoundingClientRect().height`) < 15 {
			t.Errorf("%d pixels: no navigation", width)
		}
	}
	b.clean()
}

// sectionLink is one of the navigation.
var sectionLink = regexp.MustCompile(`<a href="#([a-z0-9-]+)">`)

// TestEmptySectionsAreGone: a page has no section that says that it has nothing.
func TestEmptySectionsAreGone(t *testing.T) {
	doc := recording(t, "mlp_regression__script/snapshot_stopped.pickle.gz")
	page := string(written(t, doc))
	markup, _, _ := strings.Cut(page, "<script")
	for _, gone := range []string{`id="evidence"`, `id="memory"`, "Pinned host memory", "No private pools", "None was given", "Outside PyTorch</span>"} {
		if strings.Contains(markup, gone) {
			t.Errorf("the page of a recording without history has %s", gone)
		}
	}
	for _, link := range sectionLink.FindAllStringSubmatch(markup, -1) {
		if !strings.Contains(markup, `id="`+link[1]+`"`) {
			t.Errorf("the navigation leads to #%s, which isn't there", link[1])
		}
	}
}

// TestLogAlone: a page without a recording is small, has its curve without scripts,
// and says what is at the pointer with them.
func TestLogAlone(t *testing.T) {
	doc := logAlone()
	page := written(t, doc)
	if len(page) > 60_000 || strings.Contains(string(page), "echarts") {
		t.Errorf("a page of %d bytes", len(page))
	}
	b := newTab(t, 1200, 900)
	b.open(saved(t, page))
	at := eval[point](b, `(r => ({X: r.left + r.width / 2, Y: r.top + r.height / 2}))(document.querySelector('.plot[data-plot=memory-steps] .area').getBoundingClientRect())`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
	b.until(`!document.getElementById('tip').hidden`)
	if got := b.text("#tip"); !strings.Contains(got, "step 50") || !strings.Contains(got, units.Bytes(51<<20)) {
		t.Errorf("in the middle of 101 steps: %q", got)
	}
	b.clean()
}

// logAlone is what a log of 101 steps tells.
func logAlone() *report.Document {
	ev := evidence.New()
	steps := &evidence.Steps{Count: 101}
	for i := range 101 {
		steps.Curve = append(steps.Curve, evidence.Step{Number: int64(i), Seconds: 1, AllocatedBytes: int64(i+1) << 20})
	}
	ev.Steps = []*evidence.Steps{steps}
	ev.Logs = []evidence.Log{{Steps: steps}}
	return &report.Document{Tool: "vramscope test", Inputs: []report.Input{{Path: "train.log"}}, Verdict: report.Verdict{Severity: report.Info, Text: "a log"}, Evidence: ev}
}
