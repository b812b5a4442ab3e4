package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
)

// handler answers in a store's place.
type handler = func(w http.ResponseWriter, r *http.Request, store http.Handler)

// torn breaks the answer off in its middle.
func torn(w http.ResponseWriter, r *http.Request, store http.Handler) {
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	body := answer.Body.Bytes()
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(answer.Code)
	w.Write(body[:len(body)/2])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func status(code int) handler {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
	}
}

func drop(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// silent never answers.
func silent(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// every spoils every nth request; no more of them are alike in a row.
func every(n int, spoil handler) handler {
	var mu sync.Mutex
	requests := 0
	return func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		mu.Lock()
		requests++
		hit := requests%n == 0
		mu.Unlock()
		if hit {
			spoil(w, r, store)
			return
		}
		store.ServeHTTP(w, r)
	}
}

// changed has another byte in the middle, each time.
func changed(w http.ResponseWriter, r *http.Request, store http.Handler) {
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	w.Write(body)
}

// only spoils the reading of some objects.
func only(part string, spoil handler) handler {
	return func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, part) {
			spoil(w, r, store)
			return
		}
		store.ServeHTTP(w, r)
	}
}

// lateOnly spoils it once the beginning of the object was read so often: who looked at it
// found nothing wrong.
func lateOnly(part string, looks int, spoil handler) handler {
	var mu sync.Mutex
	seen := map[string]int{}
	return only(part, func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		mu.Lock()
		seen[r.URL.Path]++
		late := seen[r.URL.Path] > looks
		mu.Unlock()
		if late {
			spoil(w, r, store)
			return
		}
		store.ServeHTTP(w, r)
	})
}

// stored are the files of a result in the store.
func stored(t *testing.T, s *fakes3.Server, prefix string) map[string]string {
	t.Helper()
	s.Before = nil
	return fakes3.Contents(t, "s3://"+fakes3.Bucket+"/"+prefix)
}

// TestPassingFaultsOfAStore go by unnoticed: what a batch reads and writes there is what
// it would be undisturbed.
func TestPassingFaultsOfAStore(t *testing.T) {
	runs := someRuns(t, usual[:2]...)
	s := fakes3.Start(t)
	s.PutFolder(t, "in", runs)
	vramscope(t, "batch", "s3://team/in", "-o", "s3://team/want", "-q")
	want := stored(t, s, "want")
	if len(want) < 8 {
		t.Fatalf("%d files undisturbed", len(want))
	}
	for name, before := range map[string]handler{
		"every fourth request refused":    every(4, status(503)),
		"every fourth request in error":   every(4, status(500)),
		"every fifth connection dropped":  every(5, drop),
		"every fifth answer torn":         every(5, torn),
		"every 20th request not answered": every(20, silent),
		"the content of recordings comes slowly": only("pickle", func(w http.ResponseWriter, r *http.Request, store http.Handler) {
			answer := httptest.NewRecorder()
			store.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			for b := answer.Body.Bytes(); len(b) > 0; {
				n := min(len(b), 4<<10)
				w.Write(b[:n])
				w.(http.Flusher).Flush()
				b = b[n:]
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			s.Before = before
			out := "out/" + strings.ReplaceAll(name, " ", "-")
			o := vramscope(t, "batch", "s3://team/in?timeout=300ms", "-o", "s3://team/"+out+"?timeout=300ms", "-q")
			if o.code != 0 || o.errors != "" {
				t.Errorf("exit code %d, said %q", o.code, o.errors)
			}
			same(t, name, stored(t, s, out), want)
		})
	}
}

// TestLastingFaultsOfAStore: what can't be got at fails its run, by name and with the reason,
// and nothing is said in its place; when the store is well, the same batch gives the
// undisturbed result.
func TestLastingFaultsOfAStore(t *testing.T) {
	runs := someRuns(t, usual[:3]...)
	s := fakes3.Start(t)
	s.PutFolder(t, "in", runs)
	vramscope(t, "batch", "s3://team/in", "-o", "s3://team/want", "-q")
	want := stored(t, s, "want")
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	for name, before := range map[string]handler{
		"recording refused":            only("run0/snapshot", status(503)),
		"recording refused later":      lateOnly("run0/snapshot", 1, status(503)),
		"recording torn":               only("run0/snapshot", torn),
		"recording dropped later":      lateOnly("run0/snapshot", 2, drop),
		"recording in error later":     lateOnly("run0/snapshot", 2, status(500)),
		"log refused":                  only("run0/log", status(503)),
		"log refused later":            lateOnly("run0/log", 1, status(503)),
		"recording not answered":       only("run0/snapshot", silent),
		"recording's content ends":     lateOnly("run0/snapshot", 1, torn),
		"recording may not be read":    only("run0/snapshot", status(403)),
		"recording not there any more": lateOnly("run0/snapshot", 1, status(404)),
		"recording's bytes change":     lateOnly("run0/snapshot", 1, changed),
		"log's bytes change":           lateOnly("run0/log", 0, changed),
	} {
		t.Run(name, func(t *testing.T) {
			s.Before = before
			out := "out/" + strings.ReplaceAll(name, " ", "-")
			place := "s3://team/" + out
			o := vramscope(t, "batch", "s3://team/in?timeout=100ms", "-o", place, "-q")
			if o.code != 0 || !strings.Contains(o.errors, "s3://team/in/run0/") {
				t.Errorf("exit code %d, said %q", o.code, o.errors)
			}
			for file, text := range stored(t, s, out) {
				if path.Base(file) == "report.json" && text != want[file] {
					firstLines(t, file, text)
				}
			}
			if o := vramscope(t, "batch", "s3://team/in", "-o", place, "-q"); o.code != 0 || o.errors != "" {
				t.Errorf("afterwards: exit code %d, said %q", o.code, o.errors)
			}
			same(t, "afterwards", stored(t, s, out), want)
		})
	}
}

// firstLines wants a report that isn't the undisturbed one to say so at once.
func firstLines(t *testing.T, file, text string) {
	t.Helper()
	var doc struct{ Verdict struct{ Text string } }
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.Verdict.Text, "Judged without ") {
		t.Errorf("%s is another than it would be undisturbed, and begins with %q", file, doc.Verdict.Text)
	}
}

// TestAnalyzeFromAFaultyStore: one run is the undisturbed report, or one line.
func TestAnalyzeFromAFaultyStore(t *testing.T) {
	s := fakes3.Start(t)
	s.PutFolder(t, "in", someRuns(t, usual[0]))
	want := vramscope(t, "analyze", "s3://team/in/run0", "--format", "json")
	if want.code != 0 {
		t.Fatal(want.errors)
	}
	s.Before = every(3, status(503))
	if got := vramscope(t, "analyze", "s3://team/in/run0", "--format", "json"); got != want {
		t.Errorf("exit code %d, said %q", got.code, got.errors)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	for _, looks := range []int{0, 1, 2} {
		for _, part := range []string{"snapshot", "log"} {
			s.Before = lateOnly(part, looks, status(503))
			got := vramscope(t, "analyze", "s3://team/in/run0", "--format", "json")
			if got != want {
				oneLine(t, got, "s3://team/in/run0/"+part)
			}
			if looks == 0 && got.code == 0 {
				t.Errorf("%s can't be read, and nothing is said", part)
			}
		}
	}
	s.Before = silent
	oneLine(t, vramscope(t, "analyze", "s3://team/in/run0?timeout=100ms"), "s3://team/in/run0", "no answer in time")
}
