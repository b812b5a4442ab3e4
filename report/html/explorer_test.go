package html_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// show brings a part of the page into view and waits until it is drawn.
func (b *tab) show(selector, drawn string) {
	b.t.Helper()
	eval[bool](b, `(s => { for (let e = document.querySelector(s); e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
		document.querySelector(s).scrollIntoView({block: 'center', behavior: 'instant'}); return true; })(%s)`, quoted(selector))
	b.until(drawn)
}

// press clicks an element wherever it is.
func (b *tab) press(selector string) {
	b.t.Helper()
	eval[bool](b, `(document.querySelector(%s).click(), true)`, quoted(selector))
}

// TestOneCursor moves the moment in each way that there is; all parts must follow,
// and the link must lead back.
func TestOneCursor(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	d := &doc.Devices[0]
	b := newTab(t, 1440, 900)
	url := saved(t, written(t, doc))
	b.open(url)
	step := d.Steps[1]
	for _, c := range []struct {
		name, act string
		event     int
		link      string
	}{
		{"the field", `(i => { i.value = 700; i.dispatchEvent(new Event('change')); })(document.querySelector('[data-role=event]'))`, 700, "#at=700"},
		{"the next event", `document.querySelector('[data-move="1"]').click()`, 701, "#at=701"},
		{"the event before", `document.querySelector('[data-move="-1"]').click()`, 700, "#at=700"},
		{"the end", `document.querySelector('[data-moment=end]').click()`, d.Events - 1, fmt.Sprintf("#at=%d", d.Events-1)},
		{"the peak", `document.querySelector('[data-moment=peak]').click()`, *d.AtPeak.Event, ""},
		{"a step", fmt.Sprintf(`(i => { i.value = %d; i.dispatchEvent(new Event('change')); })(document.querySelector('[data-role=step]'))`, step.Step), -1,
			fmt.Sprintf("#range=%d-%d", step.FirstEvent, step.LastEvent)},
		{"a row", `(l => { l.scrollTo(900); l.go(l.rowAt(900)); })(vramscope[0].list)`, 900, "#at=900"},
	} {
		b.show("[data-role=events]", `vramscope[0].list.rows`)
		eval[bool](b, `(() => { %s; return true; })()`, c.act)
		event := eval[int](b, `vramscope[0].state.cursor.event`)
		if event != c.event && c.event >= 0 {
			t.Errorf("%s leads to event %d instead of %d", c.name, event, c.event)
		}
		if link := eval[string](b, `location.hash`); link != c.link {
			t.Errorf("%s makes the link %q instead of %q", c.name, link, c.link)
		}
		if got, want := b.sum(), units.Bytes(aliveAt(d.Pictures, event, -1)); got != want {
			t.Errorf("%s: the table has %s instead of %s", c.name, got, want)
		}
		b.until(fmt.Sprintf(`document.querySelector('.detail h3').textContent.startsWith('Event %s:')`, units.Count(event)))
		b.until(fmt.Sprintf(`document.querySelector('.events [aria-selected=true] .n').textContent === '%s'`, units.Count(event)))
		b.show("canvas.map", fmt.Sprintf(`document.querySelector('[data-role=map-note]').textContent.includes('at event %s,')`, units.Count(event)))
	}
	b.open(url + "#range=700-900")
	if got := eval[string](b, `document.querySelector('[data-role=from]').value + '-' + document.querySelector('[data-role=to]').value`); got != "700-900" {
		t.Errorf("a link to a range leads to %s", got)
	}
	b.clean()
}

// TestEventList steps through the events by keyboard, filters them, and reads what
// is said of one.
func TestEventList(t *testing.T) {
	doc := recording(t, "side_stream__prefetcher/snapshot_all.pickle.gz")
	p := doc.Devices[0].Pictures
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.show("[data-role=events]", `vramscope[0].list.rows`)
	if got, want := eval[int](b, `vramscope[0].list.rows.length`), p.Events+2*len(p.Spans); got != want {
		t.Errorf("%d rows instead of %d", got, want)
	}
	if got, want := b.text("[data-role=events-note]"), units.Plural(p.Events, "event")+", and where "+
		units.Plural(len(p.Spans), "annotation")+" begin and end."; got != want {
		t.Errorf("the list says %q instead of %q", got, want)
	}
	if n := eval[int](b, `document.querySelectorAll('.events [data-row]').length`); n > 40 {
		t.Errorf("%d rows are in the page at once", n)
	}
	press := func(key string) {
		eval[bool](b, `(document.querySelector('[data-role=events]').dispatchEvent(new KeyboardEvent('keydown', {key: %s, cancelable: true})), true)`, quoted(key))
	}
	press("Home")
	first := eval[int](b, `vramscope[0].list.chosen`)
	press("ArrowDown")
	press("ArrowDown")
	if got := eval[int](b, `vramscope[0].list.chosen`); first != 0 || got != 2 {
		t.Errorf("two rows below the first, %d, is %d", first, got)
	}

	// The free of a block that waits for another stream is requested, and completed later.
	waits, stream := -1, 0
	for i, freed := range p.Bands.Freed {
		if freed < report.FreedBefore && p.Bands.Completed[i] < report.NotFreed && p.Bands.Completed[i] > freed+1 {
			waits = i
		}
		if p.Bands.Stream[i] > 0 {
			stream++
		}
	}
	if waits < 0 || stream == 0 {
		t.Fatal("no block waits for another stream")
	}
	for _, e := range []struct {
		event uint32
		want  []string
	}{
		{p.Bands.Freed[waits], []string{"free requested " + units.Bytes(p.Bands.Bytes[waits]), "Block before\nin use ", "Block after\npending free ", "Stack of the free", "Stack of the allocation"}},
		{p.Bands.Completed[waits], []string{"free completed", "Block before\npending free ", "Block after\nfree "}},
		{p.Bands.Born[waits], []string{"alloc", "Block before\nfree ", "Block after\nin use ", "completed at " + units.Count(int(p.Bands.Completed[waits]))}},
	} {
		eval[bool](b, `(vramscope[0].state.cursor.set(%d), true)`, e.event)
		b.until(fmt.Sprintf(`document.querySelector('.detail h3').textContent.startsWith('Event %s:')`, units.Count(int(e.event))))
		for _, want := range e.want {
			if got := b.text(".detail"); !strings.Contains(got, want) {
				t.Errorf("event %d: %q doesn't say %q", e.event, got, want)
			}
		}
	}

	eval[bool](b, `(() => { const f = document.querySelector('[data-filter=stream]'); f.value = '1'; f.dispatchEvent(new Event('input')); document.querySelector('[data-role=find]').requestSubmit(); return true; })()`)
	if got := b.text("[data-role=found]"); !strings.HasPrefix(got, units.Count(stream)+" of ") {
		t.Errorf("%d allocations of the side stream, and the page says %q", stream, got)
	}
	b.clean()
}

// TestMapShowsTheHoles looks at a failure for want of a large enough hole.
func TestMapShowsTheHoles(t *testing.T) {
	doc := recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")
	o := doc.Devices[0].OOMs[0]
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.show("[data-role=holes]", `document.querySelector('.holes li')`)
	type hole struct{ Bytes, Width float64 }
	holes := eval[[]hole](b, `Array.from(document.querySelectorAll('.holes li'), l => ({Bytes: +l.dataset.bytes, Width: l.querySelector('i').getBoundingClientRect().width}))`)
	if len(holes) != 4 || int64(holes[0].Bytes) != o.RequestedBytes || int64(holes[1].Bytes) != *o.LargestFreeBlock {
		t.Fatalf("a request of %d and a largest hole of %d are drawn as %v", o.RequestedBytes, *o.LargestFreeBlock, holes)
	}
	if drawn, real := holes[1].Width/holes[0].Width, holes[1].Bytes/holes[0].Bytes; drawn < 0.97*real || drawn > 1.03*real {
		t.Errorf("the largest hole is %.3f of the request, and drawn as %.3f", real, drawn)
	}
	b.show("canvas.map", `vramscope[0].map.places`)
	at := eval[point](b, `(() => { const m = vramscope[0].map, p = m.places.map(q => [q, q.s.blocks.reduce((a, k) => !k.state && (!a || k.bytes > a.bytes) ? k : a, null)]).sort((a, b) => (b[1] ? b[1].bytes : 0) - (a[1] ? a[1].bytes : 0))[0],
		[x, y, w] = m.pieces(p[0].offset + p[1].at - p[0].s.address, p[1].bytes)[0], r = m.canvas.getBoundingClientRect(); return {X: r.left + x + w / 2, Y: r.top + y + 6}; })()`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
	b.until(`!document.getElementById('tip').hidden`)
	pin := o.PinnedBy[0]
	for _, want := range []string{units.Bytes(*o.LargestFreeBlock), "Pinned", fmt.Sprintf("pairwise.py:%d (%s)", *pin.Line, units.Bytes(pin.Bytes))} {
		if got := b.text("#tip"); !strings.Contains(got, want) {
			t.Errorf("the hole says %q, not %q", got, want)
		}
	}
	b.clean()
}

// TestSearchMarks searches, and looks at what is dimmed, and at counts.
func TestSearchMarks(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	p := doc.Devices[0].Pictures
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.see("each")
	for _, c := range []struct {
		text string
		hit  func(i int) bool
	}{
		{"loss_utils.py:61", func(i int) bool { return hasLine(p, i, "loss_utils.py", 61) }},
		{fmt.Sprintf("%#x", p.Bands.Address[100]+1), func(i int) bool {
			return p.Bands.Address[i] <= p.Bands.Address[100]+1 && p.Bands.Address[100]+1 < p.Bands.Address[i]+uint64(p.Bands.Bytes[i])
		}},
	} {
		count, bytes := 0, int64(0)
		for i := range p.Bands.Born {
			if c.hit(i) {
				count++
				bytes += p.Bands.Bytes[i]
			}
		}
		eval[bool](b, `(vramscope[0].state.findText(%s), true)`, quoted(c.text))
		if got := b.text("[data-role=found]"); count == 0 || !strings.HasPrefix(got, fmt.Sprintf("%s of %s allocations, %s in all", units.Count(count), units.Count(len(p.Bands.Born)), units.Bytes(bytes))) {
			t.Errorf("%s finds %d allocations with %s, and the page says %q", c.text, count, units.Bytes(bytes), got)
		}
	}
	eval[bool](b, `(vramscope[0].state.findText('loss_utils.py:61'), true)`)
	b.show("canvas.timeline", `!vramscope[0].timeline.stale`)
	type seen struct{ Lit, Dim int }
	got := eval[seen](b, `(() => { const {s, ids, pixels} = vramscope[0].timeline, lit = new Set(), dim = new Set(); ids.forEach((id, o) => { if (id >= 0) (s.found.mask[id] ? lit : dim).add(pixels[o]); });
		return {Lit: lit.size, Dim: [...dim].filter(c => lit.has(c)).length}; })()`)
	if got.Lit == 0 || got.Dim != 0 {
		t.Errorf("what is found has %d colours, of which the rest has %d", got.Lit, got.Dim)
	}
	eval[bool](b, `(vramscope[0].state.findText('/(/'), true)`)
	if got := b.text("[data-role=found]"); !strings.Contains(got, "Invalid regular expression") {
		t.Errorf("of a pattern that is none the page says %q", got)
	}
	b.clean()
}

func hasLine(p *report.Pictures, band int, file string, line int) bool {
	for n := p.Stacks[p.Bands.Stack[band]].Node; n > 0; n = p.Nodes[n].Parent {
		if f := p.Frames[p.Nodes[n].Frame]; strings.Contains(f.File, file) && f.Line == line {
			return true
		}
	}
	return false
}

// TestFlameAddsUp looks at the flame graph of a moment and of a range.
func TestFlameAddsUp(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	p := doc.Devices[0].Pictures
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)) + "#at=800")
	b.show("[data-role=flame]", `document.querySelector('.flame button')`)
	root := func() string {
		return eval[string](b, `document.querySelector('.flame button').getAttribute('aria-label')`)
	}
	if got, want := root(), "everything, "+units.Bytes(aliveAt(p, 800, -1)); got != want {
		t.Errorf("the root is %q instead of %q", got, want)
	}
	made := 0
	for i, born := range p.Bands.Born {
		if i >= p.Bands.Older && born >= 300 && born <= 900 {
			made++
		}
	}
	b.press("[data-measure=count]")
	eval[bool](b, `(vramscope[0].state.cursor.range(300, 900), true)`)
	want := fmt.Sprintf("everything, %s allocations", units.Count(made))
	b.until(`document.querySelector('[data-role=flame-note]').textContent.startsWith('What events 300 to 900 allocated')`)
	if got := root(); got != want {
		t.Errorf("the root is %q instead of %q", got, want)
	}
	b.press("[data-flame=inverted]")
	if got := root(); got != want {
		t.Errorf("inverted the root is %q", got)
	}
	line := eval[string](b, `(() => { const f = vramscope[0].flame, k = f.bars.findIndex(x => x.node.frame >= 0), b = f.bars[k]; f.box.children[k].click(); return f.h.header.frames[b.node.frame].file.split('/').pop() + ':' + f.h.header.frames[b.node.frame].line; })()`)
	if got := eval[string](b, `document.querySelector('[data-filter=text]').value`); !strings.HasSuffix(got, line) {
		t.Errorf("a click on %s searches for %q", line, got)
	}
	b.clean()
}

// TestSegmentsOverTime compares the height of the bands with what was reserved.
func TestSegmentsOverTime(t *testing.T) {
	thorough.Only(t)
	doc := recording(t, "frag_oom__pairwise_docs/snapshot_expandable.pickle.gz")
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.see("segments")
	b.show("canvas.reserved", `vramscope[0].reserved.pixels && !vramscope[0].reserved.stale`)
	most := eval[float64](b, `(r => { let n = 0; for (let x = 0; x < r.W; x++) { let k = 0; for (let y = 0; y < r.H; y++) if (r.ids[y * r.W + x] >= 0) k++; n = Math.max(n, k); } return n / r.H * r.top; })(vramscope[0].reserved)`)
	if want := float64(doc.Devices[0].Peaks.Reserved.Bytes); most < 0.99*want || most > 1.01*want {
		t.Errorf("at most %.0f bytes are drawn of %.0f", most, want)
	}
	for _, event := range []int{100, 500, 900} {
		sums := eval[[]float64](b, `(s => [s.memory.at(%d).segments.reduce((n, x) => n + x.bytes, 0), vramscope[0].reserved.bands.reduce((n, x) => n + (x.from <= %d && x.to > %d ? x.end - x.start : 0), 0)])(vramscope[0].state)`, event, event, event)
		if sums[0] != sums[1] || sums[0] == 0 {
			t.Errorf("at event %d the map has %.0f bytes, the bands %.0f", event, sums[0], sums[1])
		}
	}
	b.clean()
}

// TestPools frames private pools, and tells them apart.
func TestPools(t *testing.T) {
	doc := simulated(t, recorder.Program{Seed: 5, Events: 3000, Depth: 4, Streams: 2, Pools: 2}, nil)
	b := newTab(t, 1440, 900)
	b.open(saved(t, written(t, doc)))
	b.show("canvas.map", `vramscope[0].map && vramscope[0].map.places`)
	b.press("[data-map-by=pool]")
	labels := eval[[]string](b, `Array.from(vramscope[0].map.labels.values())`)
	if all := strings.Join(labels, "; "); !strings.Contains(all, "stream default") || !strings.Contains(all, "pool (") || !strings.Contains(all, "stream 1") {
		t.Errorf("the map has the parts %q", labels)
	}
	b.clean()
}
