package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// takeSite measures what the start page of a built site takes from the choice of a file to its answer, by the browser's own
// clock: of a fresh page whose visitor looked for the file for three seconds.
func takeSite(folder string, names []string) error {
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	for _, name := range names {
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := drop(server.URL, path, st.Size()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Scripts of the start page.
const (
	pageReady = `new Promise(done => {
		const look = () => document.documentElement.dataset.ready ? done(performance.now()) : setTimeout(look, 5);
		look();
	})`
	warmedUp = `(ahead(), load()).then(() => performance.now())`
	chosen   = `(performance.clearMarks('shown'),
		document.getElementById('files').addEventListener('change', () => performance.mark('chosen'), true), true)`
	answered = `new Promise(done => {
		const watch = setInterval(() => {
			const shown = performance.getEntriesByName('shown').at(-1), from = performance.getEntriesByName('chosen').at(-1);
			const failed = document.getElementById('state').classList.contains('failed');
			if (shown && from || failed) {
				clearInterval(watch);
				done({ms: shown && from ? shown.startTime - from.startTime : -1, memory: window.engineMemory || 0,
					said: document.getElementById('state').textContent});
			}
		}, 5);
	})`
)

func drop(url, path string, size int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url+"/index.html")); err != nil {
		return err
	}
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[float64](pageReady, chromedp.EvalAwaitPromise))
	if err != nil {
		return err
	}
	loaded, err := chromedp.Run(ctx, chromedp.Evaluate[float64](warmedUp, chromedp.EvalAwaitPromise))
	if err != nil {
		return err
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](chosen)); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	_, err = chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (bool, error) {
		input, err := cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.getElementById('files')"})
		if err != nil {
			return false, err
		}
		_, err = cdp.Call(ctx, t, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{path},
			ObjectID: input.Result.ObjectID})
		return true, err
	})
	if err != nil {
		return err
	}
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[struct {
		Ms     float64
		Said   string
		Memory float64
	}](answered, chromedp.EvalAwaitPromise))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.0f MB, page after %.0f ms, engine after %.0f, answer %.0f ms after the choice, %.0f MB of memory: %.60s\n",
		filepath.Base(path), float64(size)/1e6, shown, loaded, answer.Ms, answer.Memory/1e6, answer.Said)
	return nil
}
