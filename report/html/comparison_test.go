package html_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/view"
)

// comparison opens the page that compares two documents.
func comparison(t *testing.T, b *tab, before, after *report.Document, names [2]string) *report.Diff {
	t.Helper()
	d, err := diff.Compute(before, after)
	if err != nil {
		t.Fatal(err)
	}
	x, y := before.Fullest(), after.Fullest()
	var page bytes.Buffer
	if err := html.Comparison(&page, view.Diff(d, view.Ticket), &html.Compared{Before: x, After: y, Names: names, Steps: d.Steps,
		Sites: diff.Pairs(x.Pictures.Sites, y.Pictures.Sites), Frames: diff.Frames(x.Pictures, y.Pictures)}); err != nil {
		t.Fatal(err)
	}
	b.open(saved(t, page.Bytes()))
	return d
}

// TestComparisonPage compares a program that makes its optimizer anew, once letting go of the
// old one and once keeping it, after all of its lines have moved.
func TestComparisonPage(t *testing.T) {
	thorough.Only(t)
	b := newTab(t, 1200, 900)
	before := recording(t, "../scenarios/optimizer_again_ok__python.pickle.gz")
	after := recording(t, "../scenarios/optimizer_again__python.pickle.gz")
	p := after.Fullest().Pictures
	for i := range p.Sites {
		if s := &p.Sites[i]; s.Line != nil {
			s.Line = new(*s.Line + 7)
		}
	}
	for i := range p.Frames {
		p.Frames[i].Line += 7
	}
	d := comparison(t, b, before, after, [2]string{"<img src=x onerror=alert(1)>", "b.pickle"})
	defer b.clean()
	if got := b.text("#compare figcaption"); !strings.Contains(got, "<img src=x onerror=alert(1)>") {
		t.Errorf("caption %q", got)
	}
	// It opens at the peak of the second; both sums are those of the recordings.
	sums := eval[[]float64](b, "vramscope.sums")
	if want := float64(d.Peaks["allocated"].After); sums[1] != want {
		t.Errorf("%f bytes after, want the peak %f", sums[1], want)
	}
	if got := b.text("#compare .scroll:nth-of-type(2) tbody tr"); !strings.HasPrefix(got, "train_step") || !strings.Contains(got, "52 (was line 45)") || !strings.HasSuffix(got, "+228.22 MiB") {
		t.Errorf("the largest change is %q", got)
	}
	if got := b.text("#compare table tbody tr"); !strings.HasPrefix(got, "Optimizer state") || !strings.HasSuffix(got, "+228.22 MiB") {
		t.Errorf("the largest change is %q", got)
	}
	// Wherever the moment is, both lie in the same step and phase.
	apart := eval[[]string](b, `(() => {
		const c = vramscope, out = [];
		const where = (side, e) => { for (const s of c.sides[side].header.steps) if (e >= s.first_event && e <= s.last_event) { const p = s.phases.find(p => e >= p.first_event && e <= p.last_event); return s.step + ' ' + (p ? p.phase : ''); } return ''; };
		for (let i = 0; i < 200; i++) {
			c.at((i + 0.37) / 200);
			const [a, z] = c.events.map((e, side) => where(side, e));
			if (a !== z) out.push(i + ': ' + a + ' beside ' + z);
		}
		return out;
	})()`)
	if len(apart) > 0 {
		t.Errorf("%d moments lie apart, such as %s", len(apart), apart[0])
	}
	// The tables' sums are what is allocated at any event.
	for _, event := range []int{0, 100, 3000, 5808} {
		sums := eval[[]float64](b, "(vramscope.at(vramscope.locate(1, %d)), [vramscope.events[1], vramscope.sums[1]])", event)
		if want := bandsAt(&p.Bands, event); sums[0] != float64(event) || math.Abs(sums[1]-float64(want)) > 0 {
			t.Errorf("event %v: %f bytes, want event %d and %d bytes", sums[0], sums[1], event, want)
		}
	}
	// Keys move the moment by an event of the side that has the focus.
	got := eval[[]int](b, `(() => {
		const c = vramscope, canvas = c.canvases[0];
		c.at(c.locate(0, 1000));
		canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
		const right = c.events[0];
		canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'PageUp'}));
		return [right, c.events[0]];
	})()`)
	if got[0] != 1001 || got[1] != 901 {
		t.Errorf("events %v, want 1001 and 901", got)
	}
	// In the flame graph, moved lines are one bar.
	eval[bool](b, "(vramscope.at(vramscope.locate(1, %d)), true)", *d.After.Event)
	bars := eval[[]string](b, "Array.from(document.querySelectorAll('.flames div'), x => x.className + ' ' + x.textContent)")
	if len(bars) < 5 || !strings.HasPrefix(bars[0], "more everything") || !strings.HasPrefix(bars[1], "more <module>") || !strings.Contains(bars[1], "scenarios.py:239") {
		t.Errorf("bars %q", bars)
	}
}

// TestComparisonOfUnlikeRuns puts a run that ran out of memory in its first step beside one that
// went on: at every moment both are in the same phase, or only one is there at all, and where
// one is cut short, both advance event by event.
func TestComparisonOfUnlikeRuns(t *testing.T) {
	b := newTab(t, 1200, 900)
	before := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	after := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	comparison(t, b, before, after, [2]string{"runs/a.pickle", "b.pickle"})
	defer b.clean()
	wrong := eval[[]string](b, `(() => {
		const c = vramscope, out = [];
		const where = (side, e) => { for (const s of c.sides[side].header.steps) if (e >= s.first_event && e <= s.last_event) { const p = s.phases.find(p => e >= p.first_event && e <= p.last_event); return s.step + ' ' + (p ? p.phase : ''); } return ''; };
		for (let i = 0; i < 400; i++) {
			const x = (i + 0.37) / 400, s = c.stretchAt(x), both = [0, 1].filter(side => s.parts[side] && s.parts[side][1] > s.parts[side][0] && x < s.stop[side]);
			const names = new Set(both.map(side => where(side, c.eventAt(side, x))));
			if (names.size > 1) out.push(i + ': ' + [...names].join(' beside '));
		}
		for (const s of c.list) if (s.cut && s.parts[0] && s.parts[1]) {
			const each = [0, 1].map(side => (s.stop[side] - s.x) / (s.parts[side][1] - s.parts[side][0]));
			if (Math.abs(each[0] / each[1] - 1) > 1e-9) out.push(s.name + ' is stretched');
		}
		if (!c.list.some(s => s.cut)) out.push('nothing is cut');
		return out;
	})()`)
	if len(wrong) > 0 {
		t.Errorf("%d places lie apart, such as %s", len(wrong), wrong[0])
	}
	if got := b.text(".parting"); !strings.HasPrefix(got, "They part in step 0, forward: at most 72.9 GiB before and ") {
		t.Errorf("it says %q", got)
	}
	got := eval[[][3]string](b, `Array.from(document.querySelectorAll('#compare figcaption .run'), x => [x.title, x.textContent, ''])`)
	if got[0][0] != "runs/a.pickle" || got[1][1] != "after b.pickle" {
		t.Errorf("captions %q", got)
	}
}

// TestChangesFitAPhone looks for the change of each row within a narrow window.
func TestChangesFitAPhone(t *testing.T) {
	b := newTab(t, 390, 800)
	comparison(t, b, recording(t, "growing_list__step_cache/snapshot_all.pickle.gz"), recording(t, "retained_graph__trainer_entropy/snapshot_named.pickle.gz"),
		[2]string{"a.pickle", "b.pickle"})
	if n := eval[int](b, `Array.from(document.querySelectorAll('td.more, td.less')).filter(c => { const r = c.getBoundingClientRect(); return r.width < 20 || r.left < 0 || r.right > 390; }).length`); n > 0 {
		t.Errorf("%d changes lie outside the window", n)
	}
	if n := eval[int](b, `document.querySelectorAll('td.more, td.less').length`); n < 20 {
		t.Errorf("%d changes are told", n)
	}
	if w := eval[int](b, "document.documentElement.scrollWidth"); w > 390 {
		t.Errorf("the page is %d pixels wide", w)
	}
	eval[bool](b, `(document.querySelector('#theme').click(), true)`)
	if got := eval[string](b, "document.documentElement.dataset.theme"); got != "dark" {
		t.Errorf("theme %q", got)
	}
	b.clean()
}

// TestChangesOnAPhone: each change stands at the right end of its row, where its label isn't needed.
func TestChangesOnAPhone(t *testing.T) {
	b := newTab(t, 480, 900)
	comparison(t, b, recording(t, "growing_list__step_cache/snapshot_all.pickle.gz"), recording(t, "retained_graph__trainer_entropy/snapshot_named.pickle.gz"),
		[2]string{"a.pickle", "b.pickle"})
	const off = `Array.from(document.querySelectorAll('table.both.wide tbody tr:has(th) td[data-label=Change]'), c => { const r = document.createRange(); r.selectNodeContents(c);
		return c.parentElement.getBoundingClientRect().right - r.getBoundingClientRect().right; })`
	if got := eval[[]float64](b, off); len(got) < 10 || slices.Max(got) > 3 {
		t.Errorf("changes stand %v pixels from the right", got)
	}
	b.clean()
}

// bandsAt is what is allocated right after an event.
func bandsAt(b *report.Bands, event int) (bytes int64) {
	for i := range b.Born {
		if b.Alive(i, event) {
			bytes += b.Bytes[i]
		}
	}
	return bytes
}

// A comparison of hostile names runs nothing; one without steps is aligned from end to end.
func TestComparisonOfStrangers(t *testing.T) {
	b := newTab(t, 800, 900)
	before, after := sample(), synthetic(2000)
	const payload = `</script><script>alert(1)</script><img src=x onerror=alert(2)>`
	for _, doc := range []*report.Document{before, after} {
		p := doc.Fullest().Pictures
		for i := range p.Sites {
			p.Sites[i].Function, p.Sites[i].File = payload, payload
		}
		for i := range p.Frames {
			p.Frames[i].Function, p.Frames[i].File = payload, payload
		}
	}
	comparison(t, b, before, after, [2]string{payload, payload})
	if n := eval[int](b, "document.querySelectorAll('#compare img, #compare script').length"); n != 0 {
		t.Errorf("%d elements came of names", n)
	}
	if got := b.text("#compare"); !strings.Contains(got, "<img src=x onerror=alert(2)>") {
		t.Error("the names aren't there, so this shows nothing")
	}
	b.clean()
}
