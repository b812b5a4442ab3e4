package html_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
)

// TestPagesOpen opens pages of recordings of every kind, light, dark, narrow
// and printed.
func TestPagesOpen(t *testing.T) {
	for name, make := range map[string]func(*testing.T) *report.Document{
		"out of memory": func(t *testing.T) *report.Document {
			return recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz", "qwen_vocab_oom__05b/log.txt")
		},
		"a leak": func(t *testing.T) *report.Document {
			return recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
		},
		"no stacks": func(t *testing.T) *report.Document {
			return recording(t, "growing_list__step_cache/snapshot_none.pickle.gz")
		},
		"no history": func(t *testing.T) *report.Document {
			return recording(t, "mlp_regression__script/snapshot_stopped.pickle.gz")
		},
		"two devices": func(t *testing.T) *report.Document {
			return recording(t, "device_map__two_gpus/snapshot_named.pickle.gz")
		},
		"one event": func(t *testing.T) *report.Document { // no peak, failure or capacity to mark
			return simulated(t, recorder.Program{Seed: 5, Events: 300, Depth: 4}, func(r *recorder.Recording) {
				r.Traces = [][]recorder.Event{{{Action: "free_completed", Address: 1 << 40, Size: 8, Stream: 0}}}
			})
		},
		"events without blocks": func(t *testing.T) *report.Document {
			return simulated(t, recorder.Program{Seed: 5, Events: 300, Depth: 4}, func(r *recorder.Recording) {
				r.Segments, r.Traces = nil, [][]recorder.Event{{{Action: "snapshot", Address: 0, Size: 0, Stream: 0}}}
			})
		},
		"pools and streams": func(t *testing.T) *report.Document {
			return simulated(t, recorder.Program{Seed: 5, Events: 3000, Depth: 4, Streams: 2, Pools: 2}, nil)
		},
		"everything":          func(*testing.T) *report.Document { return sample() },
		"nothing":             func(*testing.T) *report.Document { return &report.Document{Tool: "vramscope test"} },
		"half a million":      func(*testing.T) *report.Document { return synthetic(500_000) },
		"not classified":      func(*testing.T) *report.Document { return unclassified() },
		"a document of facts": func(*testing.T) *report.Document { d := sample(); d.Devices[0].Pictures = nil; return d },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a tab waits for its picture more than it computes
			b := newTab(t, 1440, 900)
			b.open(saved(t, written(t, make(t))))
			light := eval[string](b, "getComputedStyle(document.body).backgroundColor")
			b.media("", &emulation.MediaFeature{Name: "prefers-color-scheme", Value: "dark"})
			b.until(fmt.Sprintf("getComputedStyle(document.body).backgroundColor !== %q", light))
			for _, width := range []int64{390, 1920, 1280, 1100} {
				b.do(chromedp.EmulateViewport(width, 900))
				b.until(fmt.Sprintf("document.documentElement.clientWidth === %d && document.documentElement.scrollWidth <= %d", width, width))
				if width == 1280 {
					b.until(`Array.from(document.querySelectorAll('.scroll:has(.sites)')).every(e => e.scrollWidth <= e.clientWidth)`)
				}
			}
			b.media("print")
			if w := eval[int64](b, "document.documentElement.scrollWidth"); w > 1100 {
				t.Errorf("printed, the page is %d wide instead of 1100", w)
			}
			pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize(), chromedp.PDFPrintBackground()))
			if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF")) {
				t.Errorf("printing: %v", err)
			}
			b.clean()
		})
	}
}

// TestHalfAScreen looks at a window of half a screen: lines of code and what came
// of other settings must be readable there.
func TestHalfAScreen(t *testing.T) {
	b := newTab(t, 800, 900)
	b.open(saved(t, written(t, recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz"))))
	for what, whole := range map[string]string{
		"lines of code": `Array.from(document.querySelectorAll('table.sites tbody td:nth-child(2) code')).every(c => c.scrollHeight <= c.clientHeight + 1)`,
		"call sites":    `Array.from(document.querySelectorAll('.scroll:has(.sites)')).every(e => e.scrollWidth <= e.clientWidth)`,
		"settings":      `Array.from(document.querySelectorAll('#settings .scroll')).every(e => e.scrollWidth <= e.clientWidth)`,
	} {
		if !eval[bool](b, "%s", whole) {
			t.Errorf("%s are cut off", what)
		}
	}
	if n := eval[int](b, `document.querySelectorAll('table.sites tbody td code, #settings td').length`); n < 20 {
		t.Errorf("only %d cells to look at", n)
	}
	b.clean()
}

// TestVaryingShapesHoldNothing: how far the peaks of steps are apart is nothing that
// is held.
func TestVaryingShapesHoldNothing(t *testing.T) {
	doc := sample()
	doc.Devices[0].Leaks = []report.Leak{{Kind: "varying_shapes", Steps: 3, TotalBytes: 6 << 30, Confidence: 0.9}, {Kind: "first_step_state", Steps: 1, TotalBytes: 5 << 30, Confidence: 0.9}}
	page := string(written(t, doc))
	for _, want := range []string{"6 GiB apart over 3 steps", "5 GiB held over 1 step"} {
		if !strings.Contains(page, want) {
			t.Errorf("nowhere %q", want)
		}
	}
}

// TestOnePictureFails breaks the segment map: the rest must be there, and the
// console must say so.
func TestOnePictureFails(t *testing.T) {
	var page bytes.Buffer
	if err := html.UnsafeHTML(&page, sample(), false, true); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, 1440, 900)
	b.open(saved(t, bytes.Replace(page.Bytes(), []byte("const ask = view(canvas, () => this.update(), true)"), []byte("throw new Error('no map')"), 1)))
	b.charts(5)
	b.see("each")
	b.do(chromedp.Click(chromedp.CSS("[data-role=chips] button")))
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) != 1 || !strings.Contains(b.said[0], "no map") {
		t.Errorf("the console has %q", b.said)
	}
}

// TestPageCharts looks whether charts were drawn, not only the frames of them.
func TestPageCharts(t *testing.T) {
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, sample())))
	b.charts(5)
	b.see("each")
	for _, canvas := range []string{"canvas.timeline", "canvas.map", ".chart canvas"} {
		if n := eval[int](b, `(() => { const c = document.querySelector(%s), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
			for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()`, quoted(canvas)); n < 4 {
			t.Errorf("%s shows %d colours", canvas, n)
		}
	}
}

// TestHoverSaysWhatIsTrue points at allocations and reads what the page says.
func TestHoverSaysWhatIsTrue(t *testing.T) {
	doc := simulated(t, recorder.Program{Seed: 9, Events: 300, Depth: 5}, nil)
	p := doc.Devices[0].Pictures
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.see("each")
	seen := 0
	for i := 0; i < len(p.Bands.Born) && seen < 5; i += max(1, len(p.Bands.Born)/12) {
		at := b.pixelOf(i)
		if at.X < 0 {
			continue // too small or too short for a pixel
		}
		seen++
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
		b.until(`!document.getElementById('tip').hidden`)
		got := b.text("#tip")
		for _, want := range []string{units.Bytes(p.Bands.Bytes[i]), "allocation " + strconv.Itoa(i) + ",", "event " + units.Count(int(p.Bands.Born[i]))} {
			if i >= p.Bands.Older && !strings.Contains(got, want) {
				t.Errorf("allocation %d: %q doesn't say %q", i, got, want)
			}
		}
		b.do(chromedp.MouseClickXY(at.X, at.Y))
		if pin := b.text("[data-role=pin]"); !strings.Contains(pin, units.Count(int(p.Bands.Bytes[i]))+" bytes") {
			t.Errorf("allocation %d pinned: %q", i, pin)
		}
	}
	if seen < 3 {
		t.Errorf("only %d allocations had a pixel", seen)
	}
	b.clean()
}

var firstSize = regexp.MustCompile(`^[0-9.]+ [KMG]?i?B`)

// sum is what the note above the table says.
func (b *tab) sum() string { return firstSize.FindString(b.text("[data-role=table-note]")) }

// aliveAt sums up what is allocated right after an event.
func aliveAt(p *report.Pictures, event int, category int) (bytes int64) {
	for i, n := range p.Bands.Bytes {
		if p.Bands.Alive(i, event) && (category < 0 || p.Kinds[p.Bands.Kind[i]].Category == category) {
			bytes += n
		}
	}
	return bytes
}

func TestTableFollows(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	d := &doc.Devices[0]
	p := d.Pictures
	b := newTab(t, 1440, 900)
	url := saved(t, written(t, doc))
	b.open(url)
	if got, want := b.sum(), units.Bytes(d.AtPeak.AllocatedBytes); got != want {
		t.Errorf("at the peak: %s instead of %s", got, want)
	}
	if got, want := eval[int](b, `document.querySelectorAll('table.sites tbody tr').length`), len(d.Sites); got != want {
		t.Errorf("%d rows instead of %d", got, want)
	}

	event := d.Events / 3
	b.open(fmt.Sprintf("%s#at=%d", url, event))
	if got, want := b.sum(), units.Bytes(aliveAt(p, event, -1)); got != want {
		t.Errorf("at event %d: %s instead of %s", event, got, want)
	}

	b.open(url)
	b.see("each")
	eval[bool](b, `(document.querySelector('canvas.timeline').scrollIntoView({block: 'center', behavior: 'instant'}), true)`)
	box := eval[point](b, `(() => { const r = document.querySelector('canvas.timeline').getBoundingClientRect(); return {X: r.left, Y: r.top + r.height / 2}; })()`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, box.X+200, box.Y, chromedp.ButtonLeft, chromedp.ButtonModifiers(chromedp.ModifierShift), chromedp.ClickCount(1)),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box.X+260, box.Y, chromedp.ButtonLeft, chromedp.ButtonModifiers(chromedp.ModifierShift)),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box.X+400, box.Y, chromedp.ButtonLeft, chromedp.ButtonModifiers(chromedp.ModifierShift)),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, box.X+400, box.Y, chromedp.ButtonLeft, chromedp.ButtonModifiers(chromedp.ModifierShift), chromedp.ClickCount(1)))
	type span struct{ From, To, Event int }
	m := eval[span](b, `(m => ({From: m.from ?? -1, To: m.to ?? -1, Event: m.event}))(vramscope[0].state.moment)`)
	if m.From < 0 || m.To <= m.From {
		t.Fatalf("no range was chosen: %+v", m)
	}
	most := m.From
	for e := m.From; e <= m.To; e++ {
		if aliveAt(p, e, -1) > aliveAt(p, most, -1) {
			most = e
		}
	}
	if m.Event != most || b.sum() != units.Bytes(aliveAt(p, most, -1)) {
		t.Errorf("range %+v: %s at event %d instead of %s at %d", m, b.sum(), m.Event, units.Bytes(aliveAt(p, most, -1)), most)
	}
	if hash := eval[string](b, "location.hash"); hash != fmt.Sprintf("#range=%d-%d", m.From, m.To) {
		t.Errorf("the link is %s", hash)
	}

	b.open(url)
	b.see("each")
	b.do(chromedp.Click(chromedp.CSS("[data-role=chips] button")))
	first := eval[int](b, `+document.querySelector('[data-role=chips] button').dataset.group`)
	want := units.Bytes(aliveAt(p, *d.AtPeak.Event, -1) - aliveAt(p, *d.AtPeak.Event, first))
	if got := b.sum(); got != want {
		t.Errorf("without the first category: %s instead of %s", got, want)
	}

	b.open(url)
	b.see("each")
	b.do(chromedp.Click(chromedp.CSS("[data-color=site]")))
	names := eval[[]string](b, `[...document.querySelectorAll('[data-role=chips] button')].map(x => x.title)`)
	if told := slices.Compact(slices.Sorted(slices.Values(names))); len(names) < 2 || len(told) != len(names) {
		t.Errorf("call sites of one name: %q", names)
	}

	b.open(url)
	type key struct{ site, category int }
	word, matching := d.Sites[0].Function, map[key]bool{} // what the table has rows for
	for i, stack := range p.Bands.Stack {
		for n := p.Stacks[stack].Node; n > 0; n = p.Nodes[n].Parent {
			if f := p.Frames[p.Nodes[n].Frame]; p.Bands.Alive(i, *d.AtPeak.Event) && strings.Contains(strings.ToLower(f.Function+" "+f.File), strings.ToLower(word)) {
				matching[key{p.Stacks[stack].Site, p.Kinds[p.Bands.Kind[i]].Category}] = true
			}
		}
	}
	b.do(chromedp.SendKeys(chromedp.CSS("[data-filter=text]"), word))
	b.until(`document.querySelector('[data-role=found]').textContent !== ''`)
	eval[bool](b, `(document.querySelector('table.sites').scrollIntoView({behavior: 'instant'}), true)`)
	b.until(fmt.Sprintf(`document.querySelectorAll('table.sites tbody tr').length === %d`, len(matching)))
	if got := eval[int](b, `document.querySelectorAll('table.sites tbody tr').length`); got != len(matching) || got == 0 {
		t.Errorf("%d rows with %q instead of %d", got, word, len(matching))
	}
	b.clean()
}

// TestMapPins clicks a block in the segment map, and wants to see what it is.
func TestMapPins(t *testing.T) {
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, sample())))
	eval[bool](b, `(document.querySelector('canvas.map').scrollIntoView({block: 'center', behavior: 'instant'}), true)`)
	b.until(`document.querySelector('canvas.map').width > 400`)
	at := eval[point](b, `(c => { const r = c.getBoundingClientRect(); return {X: r.left + 75, Y: r.top + 4}; })(document.querySelector('canvas.map'))`)
	b.do(chromedp.MouseClickXY(at.X, at.Y))
	b.until(`(r => r.top >= 0 && r.bottom <= innerHeight)(document.querySelector('[data-role=pin]').getBoundingClientRect())`)
	if pin := b.text("[data-role=pin]"); !strings.HasPrefix(pin, "Allocation 0") {
		t.Errorf("pinned: %q", pin)
	}
	b.clean()
}

// TestTableWithoutEverything looks at a recording of which the page doesn't
// hold every allocation: the table of its peak follows the choice all the same.
func TestTableWithoutEverything(t *testing.T) {
	doc := sample()
	doc.Devices[0].Pictures.Rest = &report.Rest{Allocations: 9, Events: []int{0}, Bytes: [][]int64{{0}, {1 << 30}}}
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.see("each")
	b.do(chromedp.Click(chromedp.CSS("[data-moment=peak]")), chromedp.Click(chromedp.CSS("[data-color=site]")))
	const peak = "8.00 GiB in 3 blocks, at event 3 (321.43 ms)."
	if got := b.text("[data-role=table-note]"); got != peak {
		t.Errorf("at the peak: %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(`[data-role=chips] button[title^=training_step]`)))
	if got := b.text("[data-role=table-note]"); !strings.HasPrefix(got, "2.00 GiB in 1 block, ") || !strings.HasSuffix(got, "Filtered by the choice above the timeline.") {
		t.Errorf("without training_step: %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(`[data-role=chips] button[title^=training_step]`)), chromedp.Click(chromedp.CSS("[data-moment=end]")))
	if got := b.text("[data-role=table-note]"); !strings.HasPrefix(got, "7.00 GiB: 2 blocks and 1.00 GiB in smaller ones, at event 7") {
		t.Errorf("at the end: %q", got)
	}
	b.clean()
}

func TestKeyboardAndLinks(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "device_map__two_gpus/snapshot_named.pickle.gz")
	b := newTab(t, 1440, 900)
	url := saved(t, written(t, doc))
	for _, odd := range []string{"#%", "#device=%"} { // a link that was cut
		b.open(url + odd)
	}
	b.open(url + "#device=1&at=100")
	if !eval[bool](b, `!document.querySelector('.device[data-index="1"]').hidden && document.querySelector('.device[data-index="0"]').hidden`) {
		t.Error("a link to the second device shows another one")
	}
	if e := eval[int](b, `vramscope[1].state.moment.event`); e != 100 {
		t.Errorf("a link to event 100 shows event %d", e)
	}
	b.see("each")
	b.do(chromedp.Focus(chromedp.CSS(`.device[data-index="1"] canvas.timeline`)), chromedp.KeyEvent("."), chromedp.KeyEvent("+"))
	if e := eval[int](b, `vramscope[1].state.moment.event`); e != 101 {
		t.Errorf("one event on is %d", e)
	}
	if v := eval[float64](b, `vramscope[1].timeline.v1 - vramscope[1].timeline.v0`); v >= float64(doc.Devices[1].Events) {
		t.Errorf("the plus key leaves %v events in view", v)
	}
	field := `document.querySelector('.device[data-index="1"] [data-role=event]')`
	if got := eval[string](b, `(e => { e.value = ''; e.dispatchEvent(new Event('change')); return e.value + ' ' + vramscope[1].state.moment.event; })(%s)`, field); got != "101 101" {
		t.Errorf("an emptied field for the event, and the event: %s", got)
	}
	// Buttons that are made anew when they are pressed keep the keyboard.
	b.do(chromedp.KeyEvent("\r"))
	for _, c := range [][2]string{{"[data-role=chips] button:nth-of-type(2)", "[data-role=chips] button:nth-of-type(2)"}, {"[data-role=pin] button", "[data-role=pin]"}} {
		place := `.device[data-index="1"] `
		eval[bool](b, `(e => { e.focus(); e.click(); return true; })(document.querySelector(%s))`, quoted(place+c[0]))
		if !eval[bool](b, `document.activeElement === document.querySelector(%s)`, quoted(place+c[1])) {
			t.Errorf("pressing %s leaves the keyboard at %s", c[0], eval[string](b, `document.activeElement.outerHTML.slice(0, 80)`))
		}
	}
	if n := eval[int](b, `Array.from(document.querySelectorAll('button, a, input, select, summary, canvas, [role=listbox]')).filter(e => e.tabIndex < 0 && !e.closest('.chart') && !e.matches('.flame button + button')).length`); n > 0 {
		t.Errorf("%d controls can't be reached by keyboard", n)
	}
	if n := eval[int](b, `Array.from(document.querySelectorAll('canvas, .chart')).filter(e => !e.closest('.chart') && !e.getAttribute('aria-label')).length`); n > 0 {
		t.Errorf("%d pictures have no text alternative", n)
	}
	b.clean()
}

// TestChartsGoTogether uses the curve and looks at the timeline, and the other
// way round.
func TestChartsGoTogether(t *testing.T) {
	doc := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	n := doc.Devices[0].Events
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	eval[bool](b, `(document.querySelector('.chart.tall').scrollIntoView({block: 'center', behavior: 'instant'}), true)`)
	box := eval[point](b, `(r => ({X: r.left + 70, Y: r.top + 200}))(document.querySelector('.chart.tall').getBoundingClientRect())`)
	width := eval[float64](b, `document.querySelector('.chart.tall').clientWidth - 70 - 24`)
	b.do(chromedp.MouseClickXY(box.X+width/2, box.Y))
	if got := eval[float64](b, `vramscope[0].state.moment.event`); got < 0.48*float64(n) || got > 0.52*float64(n) {
		t.Errorf("a click in the middle of %d events shows event %v", n, got)
	}
	eval[bool](b, `(vramscope[0].timeline.view(%d, %d), true)`, n/4, n/2)
	b.until(fmt.Sprintf(`Math.abs(vramscope[0].area.chart().getOption().dataZoom[0].startValue - %d) <= 2`, n/4))
	eval[bool](b, `(vramscope[0].area.chart().dispatchAction({type: 'dataZoom', startValue: 10, endValue: %d}), true)`, n/3)
	b.until(`Math.abs(vramscope[0].timeline.v0 - 10) <= 2`)
	b.see("each")
	b.do(chromedp.Click(chromedp.CSS("[data-role=chips] button")))
	b.until(`Object.values(vramscope[0].area.chart().getOption().legend[0].selected).includes(false)`)
	eval[bool](b, `(vramscope[0].area.chart().dispatchAction({type: 'legendToggleSelect', name: vramscope[0].state.groups.find((g, i) => vramscope[0].state.used[i]).name}), true)`)
	b.until(`vramscope[0].state.shown.every(x => x)`)
	b.do(chromedp.Click(chromedp.CSS("[data-color=site]")))
	if !eval[bool](b, `document.querySelectorAll('[data-role=chips] button').length > 0 && vramscope[0].state.mode === 'site'`) {
		t.Error("the timeline isn't coloured by call site")
	}
	b.clean()
}
