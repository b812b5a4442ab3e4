package html_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/view"
)

// TestServedPage opens a page whose columns a server has, goes to another one, and drops a
// file on it: one with a name that would be markup.
func TestServedPage(t *testing.T) {
	thorough.Only(t)
	b := newTab(t, 1200, 900)
	large := synthetic(300_000)
	page := func(_ context.Context, input, folder string, uploaded bool) error {
		doc := sample()
		switch {
		case input == "large":
			doc = large
		case uploaded:
			text, err := os.ReadFile(filepath.Join(folder, input))
			if err != nil {
				return err
			}
			if string(text) == "bad" {
				return errors.New("<img src=x onerror=alert(1)> is no recording")
			}
			doc = &report.Document{Tool: "vramscope test", Title: "of " + string(text)}
		}
		var text bytes.Buffer
		err := html.Served(&text, doc, func(name string, columns []byte) error {
			return os.WriteFile(filepath.Join(folder, name), columns, 0o600)
		})
		return errors.Join(err, os.WriteFile(filepath.Join(folder, view.Page), text.Bytes(), 0o600))
	}
	t.Setenv("TMPDIR", t.TempDir())
	s, err := view.New(view.Options{Inputs: []string{"dir/<b>sample", "large"}, Make: page, MaxUpload: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := ended(func() error { return s.Serve(ctx) })
	defer func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	b.open(s.URL())
	b.until(`document.querySelectorAll('nav.files a').length === 2`)
	if got := b.text("nav.files"); !strings.Contains(got, "<b>sample") || strings.Contains(got, "Reading") {
		t.Errorf("files %q", got)
	}
	if n := eval[int](b, "vramscope[0].state.h.length"); n != 3 {
		t.Errorf("%d allocations, want 3", n)
	}
	b.open(s.URL() + "1/")
	if n := eval[int](b, "vramscope[0].state.h.length"); n != 300_000 {
		t.Errorf("%d allocations, want 300,000", n)
	}
	if got := eval[string](b, `document.querySelector('nav.files a[aria-current]').textContent`); got != "large" {
		t.Errorf("the page says it is %q", got)
	}
	drop := func(text string) {
		eval[bool](b, `(() => { const d = new DataTransfer(); d.items.add(new File([%s], '<i>x')); window.dispatchEvent(new DragEvent('drop', {dataTransfer: d, cancelable: true})); return true; })()`,
			quoted(text))
	}
	drop("bad")
	b.until(`document.querySelector('nav.files [role=status]').textContent.includes('is no recording')`)
	if got := b.text("nav.files [role=status]"); got != "<i>x: <img src=x onerror=alert(1)> is no recording" {
		t.Errorf("%q", got)
	}
	drop("hand over")
	b.until(`location.pathname.endsWith('/3/') && document.documentElement?.dataset.ready === '1' && document.querySelectorAll('nav.files a').length === 3`)
	if got := eval[string](b, "document.title"); !strings.HasPrefix(got, "of hand over") {
		t.Errorf("title %q", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, s.URL()) && !strings.HasPrefix(url, "about:") && !strings.HasPrefix(url, "blob:") && !strings.HasPrefix(url, "data:") {
			t.Errorf("asked for %s", url)
		}
	}
	for _, said := range b.said {
		if !strings.Contains(said, "422") { // which is how a browser tells of the refusal
			t.Errorf("console: %s", said)
		}
	}
}

// ended runs f, and tells how it ended.
func ended(f func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}
