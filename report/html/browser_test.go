package html_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long a browser may take for anything; machines are slow at times.
const patience = 90 * time.Second

// tab is a page in a real browser, with all that it said and asked for.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string // errors and warnings of the console
	requests []string
}

var browser struct {
	sync.Once
	ctx context.Context
	err error
}

// newTab opens a tab; all tests share one browser. Without a browser the test
// is skipped, except where CI promises one.
func newTab(t *testing.T, width, height int64) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	browser.Do(func() {
		browser.ctx, _ = chromedp.NewContext(context.Background())
		browser.err = chromedp.Do(browser.ctx, chromedp.Navigate("about:blank"))
	})
	if browser.err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no browser: %v", browser.err)
		}
		t.Skipf("no browser to look at pages with (Debian: apt-get install chromium): %v", browser.err)
	}
	ctx, closeTab := chromedp.NewContext(browser.ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(func() { cancel(); closeTab() })
	b := &tab{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"), chromedp.EmulateViewport(width, height), call(network.Enable, network.EnableParams{}))
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.said = append(b.said, m.String())
			b.mu.Unlock()
		}
	}()
	if err := chromedp.Listen(ctx, func(ev any) {
		if r, ok := ev.(*network.EventRequestWillBeSent); ok {
			b.mu.Lock()
			b.requests = append(b.requests, r.Request.URL)
			b.mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// call is a command of the protocol as a step.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, params)
		return chromedp.Void{}, err
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](b *tab, format string, args ...any) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...)))
	if err != nil {
		b.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
	return v
}

// open shows a page and waits until it is ready.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
	b.until(`document.documentElement.dataset.ready === "1"`)
}

// until waits for an expression to become true.
func (b *tab) until(expression string) {
	b.t.Helper()
	for start := time.Now(); !eval[bool](b, "Boolean(%s)", expression); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > patience/3 {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("never true: %s; the console has %q", expression, b.said)
		}
	}
}

// clean fails when the page had errors or asked for anything but itself.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.said {
		b.t.Errorf("console: %s", m)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "file://") && !strings.HasPrefix(url, "about:") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
			b.t.Errorf("the page asked for %s", url)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("not even the page itself was asked for, so this shows nothing")
	}
}

func (b *tab) media(media string, features ...*emulation.MediaFeature) {
	b.t.Helper()
	b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media, Features: features}))
}

// see chooses what the picture of the memory over time shows: "category", or "each"
// allocation.
func (b *tab) see(which string) {
	b.t.Helper()
	eval[bool](b, `(document.querySelector('.device:not([hidden]) [data-see=%s]').click(), true)`, which)
}

// charts opens all that is folded, and waits for so many charts.
func (b *tab) charts(n int) {
	b.t.Helper()
	eval[bool](b, `(document.querySelectorAll('details').forEach(d => { d.open = true; }), true)`)
	b.until(fmt.Sprintf("document.querySelectorAll('.chart[data-drawn] canvas').length === %d", n))
}

// text is the text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector(%s).innerText", quoted(selector))
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// point is a place on the timeline's canvas, in pixels of the window.
type point struct{ X, Y float64 }

// pixelOf is the middle of the largest piece of an allocation that is in view.
func (b *tab) pixelOf(index int) point {
	b.t.Helper()
	eval[bool](b, `(document.querySelector('canvas.timeline').scrollIntoView({block: 'center', behavior: 'instant'}), true)`)
	return eval[point](b, `(() => {
		const t = vramscope[0].timeline, xs = [], box = t.canvas.getBoundingClientRect();
		for (let i = 0; i < t.ids.length; i++) if (t.ids[i] === %d) xs.push(i);
		if (!xs.length) return {X: -1, Y: -1};
		const at = xs[xs.length >> 1];
		return {X: box.left + %d + (at %% t.W + 0.5) / t.ratio, Y: box.top + t.topMargin + (Math.floor(at / t.W) + 0.5) / t.ratio};
	})()`, index, 70)
}
