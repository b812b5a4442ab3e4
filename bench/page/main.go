// Command page measures what a page takes in a headless Chromium, by the browser's
// own clock: until it is ready, a move of the cursor, a search, and a frame of zooming,
// each up to the picture after it; and what its processes take until it is ready: seconds
// of the processor, and memory, above those of an empty page.
//
//	go run ./bench/page report.html...
//	go run ./bench/page -site public recording.pickle...
//
// The second form measures the start page of a built site, from the choice of a file to the answer.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chromedp/chromedp"
)

// measure is the script.
//
//go:embed measure.js
var measure string

// untilReady is when the page was, in milliseconds.
const untilReady = `new Promise(done => {
	const look = () => {
		const m = performance.getEntriesByName('ready')[0];
		if (m) done(m.startTime); else setTimeout(look, 5);
	};
	look();
})`

func main() {
	site := flag.String("site", "", "the `FOLDER` of a built site")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: page REPORT.html... or page -site FOLDER RECORDING...")
		os.Exit(2)
	}
	if *site != "" {
		if err := takeSite(*site, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "page:", err)
			os.Exit(1)
		}
		return
	}
	for _, name := range flag.Args() {
		if err := take(name); err != nil {
			fmt.Fprintln(os.Stderr, "page:", err)
			os.Exit(1)
		}
	}
}

func take(name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.EmulateViewport(1440, 900)); err != nil {
		return err
	}
	var readies []float64
	var took usage
	for i := range 3 {
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
			return err
		}
		time.Sleep(settle)
		before := used()
		if err := chromedp.Do(ctx, chromedp.Navigate("file://"+path)); err != nil {
			return err
		}
		ready, err := chromedp.Run(ctx, chromedp.Evaluate[float64](untilReady, chromedp.EvalAwaitPromise))
		if err != nil {
			return err
		}
		readies = append(readies, ready)
		after := used()
		if took.seconds = min(took.seconds, after.seconds-before.seconds); i == 0 { // later ones begin with what this one leaves
			took.seconds = after.seconds - before.seconds
			time.Sleep(settle)
			took.bytes = used().bytes - before.bytes
		}
	}
	figures, err := chromedp.Run(ctx, chromedp.Evaluate[string](measure, chromedp.EvalAwaitPromise))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, ready after %.0f ms (of %.0f), %.2f s of the processor, %d MB\n%s\n", name, st.Size(),
		slices.Min(readies), readies, took.seconds, took.bytes>>20, figures)
	return nil
}
