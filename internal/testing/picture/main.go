// Picture shows pages in a headless Chromium and writes what they look like, as
// PNG. doc/page.png is made with it; so can be what a change does to a page:
//
//	go run ./internal/testing/picture -o report.png -width 400 -dark report.html
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// shot is what the flags ask for.
type shot struct {
	out           string
	width, height int64
	dark, print   bool
	whole         bool
	script        string
}

func main() {
	var s shot
	flag.StringVar(&s.out, "o", "page.png", "the picture to write")
	flag.Int64Var(&s.width, "width", 1440, "of the window, in pixels")
	flag.Int64Var(&s.height, "height", 900, "of the window, in pixels")
	flag.BoolVar(&s.dark, "dark", false, "as those see it whose windows are dark")
	flag.BoolVar(&s.print, "print", false, "as a printer sees it")
	flag.BoolVar(&s.whole, "whole", false, "all of the page, not only what fits into the window")
	flag.StringVar(&s.script, "do", "", "JavaScript to run before; it may wait for a promise")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "picture: give one page")
		os.Exit(2)
	}
	if err := s.take(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// call is a command of the protocol as a step.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, params)
		return chromedp.Void{}, err
	}
}

func (s *shot) take(file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	name, fragment, _ := strings.Cut(file, "#")
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	url := "file://" + path
	if strings.Contains(name, "://") {
		url = name
	}
	if fragment != "" {
		url += "#" + fragment
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	messages := chromedp.Console(ctx)
	go func() { // what the page has to complain of
		for m, err := range messages {
			if err != nil {
				return
			}
			fmt.Fprintf(os.Stderr, "picture: %s: console: %s\n", file, m)
		}
	}()
	err = chromedp.Do(ctx, chromedp.EmulateViewport(s.width, s.height), s.media("screen"),
		chromedp.Navigate(url))
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.print { // a page is told before its style is that of paper
		err := chromedp.Do(ctx, s.media("print"))
		if err != nil {
			return err
		}
	}
	whole := s.whole
	png, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, png, 0o644)
}

// media is what the page is shown on, as a step.
func (s *shot) media(name string) chromedp.Action[chromedp.Void] {
	theme := "light"
	if s.dark {
		theme = "dark"
	}
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: name, Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// prepare waits until the page and its pictures are drawn, and does what was asked.
func (s *shot) prepare(ctx context.Context) error {
	const ready = `(async () => {
		for (let i = 0; i < 500 && document.scripts.length && document.documentElement.dataset.ready !== '1'; i++) await new Promise(r => setTimeout(r, 20));
		%s;
		await new Promise(r => setTimeout(r, 400));
		return true;
	})()`
	script := s.script
	if s.print {
		script += "; window.dispatchEvent(new Event('beforeprint'))"
	}
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(ready, script), chromedp.EvalAwaitPromise))
	return err
}
