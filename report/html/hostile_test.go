package html_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
)

// hostile is a recording whose every name is an attack.
func hostile(t *testing.T) *report.Document {
	t.Helper()
	doc := simulated(t, recorder.Program{Seed: 11, Events: 300, Depth: 6}, func(r *recorder.Recording) {
		n := 0
		next := func() string { n++; return payloads[n%len(payloads)] }
		named := map[*recorder.Frame]bool{}
		for _, trace := range r.Traces {
			for i := range trace {
				if trace[i].Stack == nil {
					continue
				}
				for _, f := range trace[i].Stack.Frames {
					if !named[f] {
						f.File, f.Name = payloads[len(named)%len(payloads)]+".py", payloads[(len(named)/2)%len(payloads)]
						named[f] = true
					}
				}
				trace[i].Metadata, trace[i].Compile = next(), next()
			}
		}
		for i := range r.Annotations {
			r.Annotations[i].Name = payloads[(i/2)%len(payloads)]
		}
		for i := range r.Settings {
			r.Settings[i].Value = next()
		}
	})
	for _, payload := range payloads {
		if p := doc.Devices[0].Pictures; !slices.ContainsFunc(p.Frames, func(f report.Frame) bool { return f.Function == payload }) ||
			!slices.ContainsFunc(p.Frames, func(f report.Frame) bool { return f.File == payload+".py" }) {
			t.Fatalf("no frame is named %q", payload)
		}
	}
	doc.Title, doc.Inputs[0].Path, doc.Tool = payloads[0], payloads[1], payloads[2]
	for i, p := range payloads {
		doc.Notes = append(doc.Notes, report.Note{Key: p, Value: payloads[(i+1)%len(payloads)]})
		doc.Devices[0].Findings = append(doc.Devices[0].Findings, report.Finding{Severity: report.Info, Title: p, Evidence: []string{p}, Fix: new(p), Code: p, Confidence: 1})
		doc.Devices[0].Pictures.Spans = append(doc.Devices[0].Pictures.Spans, report.Span{Name: p, LastEvent: 50 * (i + 1)})
	}
	doc.Evidence.GPUs = []evidence.GPU{{Name: new(payloads[3]), Processes: []evidence.Process{{Name: new(payloads[4])}}}}
	return doc
}

// ran is the number of the payload that ran, 0 when none did.
func (b *tab) ran() int { return eval[int](b, "window.ran || 0") }

// TestHostileNamesNeverRun opens such a page and does all that shows names.
func TestHostileNamesNeverRun(t *testing.T) {
	thorough.Only(t)
	doc := hostile(t)
	p := doc.Devices[0].Pictures
	b := newTab(t, 1440, 1000)
	b.open(saved(t, written(t, doc)) + "#at=40")
	b.see("each")
	pinned := 0
	for i := 0; i < len(p.Bands.Born) && pinned < 8; i += max(1, len(p.Bands.Born)/30) {
		if p.Bands.Stack[i] == 0 {
			continue
		}
		if at := b.pixelOf(i); at.X >= 0 {
			b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y), chromedp.MouseClickXY(at.X, at.Y))
			pinned++
		}
	}
	if pinned == 0 {
		t.Error("no allocation with a hostile stack could be pinned")
	}
	eval[bool](b, `(document.querySelectorAll('details').forEach(d => { d.open = true; }), document.querySelectorAll('table.sites button.open').forEach(x => x.click()), true)`)
	for _, selector := range []string{".chart.tree", "canvas.map", ".chart.tall"} {
		if selector == ".chart.tall" {
			b.see("category")
		}
		eval[bool](b, `(document.querySelector(%s).scrollIntoView({block: 'center', behavior: 'instant'}), true)`, quoted(selector))
		at := eval[point](b, `(r => ({X: r.left + r.width / 3, Y: r.top + r.height / 2}))(document.querySelector(%s).getBoundingClientRect())`, quoted(selector))
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y), chromedp.MouseClickXY(at.X, at.Y))
	}
	// Every event with what is known of it, the flame graph, and searches for the names.
	b.show("[data-role=events]", `vramscope[0].list.rows`)
	eval[bool](b, `(l => { for (let k = 0; k < l.rows.length; k += 3) { l.scrollTo(k); l.go(k); } return true; })(vramscope[0].list)`)
	for _, payload := range payloads {
		eval[bool](b, `(vramscope[0].state.findText(%s), vramscope[0].flame.draw(), document.querySelectorAll('.flame button').forEach(x => vramscope[0].flame.describe(vramscope[0].flame.bars[+x.dataset.bar])), vramscope[0].state.findText(''), true)`, quoted(payload))
	}
	eval[bool](b, `(vramscope[0].flame.everything = true, vramscope[0].state.cursor.set(200), vramscope[0].flame.draw(), true)`)
	b.show("[data-role=flame]", `document.querySelectorAll('.flame button').length > 3`)
	eval[bool](b, `(document.querySelectorAll('.flame button')[2].dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 300, clientY: 300})), document.querySelectorAll('.flame button')[2].click(), true)`)
	b.do(chromedp.Click(chromedp.CSS("#copy")), chromedp.Click(chromedp.CSS("#theme")))
	time.Sleep(300 * time.Millisecond)
	if n := b.ran(); n > 0 {
		t.Errorf("payload %d ran: %q", n, payloads[n-1])
	}
	for _, tag := range []string{"img", "svg:not([viewBox])", "iframe"} { // the plots are the page's own
		if n := eval[int](b, "document.querySelectorAll(%s).length", quoted(tag)); n > 0 {
			t.Errorf("%d %s elements were made of names", n, tag)
		}
	}
	b.clean()
}

// TestHostileNamesWouldRun shows that the test above can fail: without escaping
// the policy alone still stops them, and without both they run.
func TestHostileNamesWouldRun(t *testing.T) {
	doc := hostile(t)
	for _, c := range []struct {
		noPolicy bool
		runs     bool
	}{{noPolicy: false, runs: false}, {noPolicy: true, runs: true}} {
		t.Run(fmt.Sprintf("policy off %v", c.noPolicy), func(t *testing.T) {
			var page bytes.Buffer
			if err := html.UnsafeHTML(&page, doc, true, c.noPolicy); err != nil {
				t.Fatal(err)
			}
			b := newTab(t, 1440, 900)
			b.do(chromedp.Navigate(saved(t, page.Bytes())))
			time.Sleep(500 * time.Millisecond)
			if got := b.ran() > 0; got != c.runs {
				t.Errorf("names ran: %v, expected %v", got, c.runs)
			}
		})
	}
}
