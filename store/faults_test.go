package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/store"
)

// cutAfter lets through n bytes of each object and then cuts the connection.
func cutAfter(n int, requests *atomic.Int64) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		requests.Add(1)
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		for k, v := range answer.Header() {
			w.Header()[k] = v
		}
		body := answer.Body.Bytes()
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(answer.Code)
		if len(body) <= n {
			w.Write(body)
			return
		}
		w.Write(body[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestBrokenConnections are taken up where they broke.
func TestBrokenConnections(t *testing.T) {
	s := fakes3.Start(t)
	data := make([]byte, 1_000_000)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	s.Put(t, "a.pickle", data)
	var requests atomic.Int64
	s.Before = cutAfter(150_000, &requests)
	if got := read(t, open(t, "s3://team"), "a.pickle"); got != string(data) {
		t.Error("what was read isn't what lies there")
	}
	if n := requests.Load(); n != 7 { // two for the window, five for the other 744,000
		t.Errorf("%d requests, want 7", n)
	}

	requests.Store(0)
	s.Before = cutAfter(len(data), &requests)
	read(t, open(t, "s3://team"), "a.pickle")
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want one for a look and one for the rest", n)
	}

	s.Before = cutAfter(0, &requests)
	r, err := open(t, "s3://team").Read(context.Background(), "a.pickle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "s3://team/a.pickle: ") {
		t.Errorf("a connection that always breaks: %v", err)
	}
}

// TestChangedWhileRead is an error: half of one and half of another is neither.
func TestChangedWhileRead(t *testing.T) {
	s := fakes3.Start(t)
	s.Put(t, "a.pickle", make([]byte, 300_000))
	var requests atomic.Int64
	s.Before = cutAfter(100_000, &requests)
	r, err := open(t, "s3://team").Read(context.Background(), "a.pickle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 50_000)); err != nil {
		t.Fatal(err)
	}
	s.Put(t, "a.pickle", make([]byte, 300_001))
	if _, err := io.ReadAll(r); err == nil || err.Error() != "s3://team/a.pickle: was changed while it was read" {
		t.Errorf("error is %v", err)
	}
}

// TestSpoiltBytes are noticed: those that came, by the digest that the store tells, and those that arrived there, by the
// one that goes with them.
func TestSpoiltBytes(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 60_000)
	var flip func(n int64) int // of the n-th request for an object's bytes, the place of the one that changes; -1: none
	tag := ""
	var n atomic.Int64
	spoil := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			if at := flip(n.Add(1)); at >= 0 {
				body[at] ^= 1
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		for k, v := range answer.Header() {
			w.Header()[k] = v
		}
		body := answer.Body.Bytes()
		if r.URL.Query().Get("list-type") == "" {
			if tag != "" {
				w.Header().Set("ETag", tag)
			}
			if at := flip(n.Add(1)); at >= 0 && at < len(body) {
				body[at] ^= 1
			}
		}
		w.WriteHeader(answer.Code)
		w.Write(body)
	}
	never := func(int64) int { return -1 }
	for name, c := range map[string]struct {
		flip func(n int64) int
		tag  string
		want string
	}{
		"none":                                 {never, "", ""},
		"in the first window":                  {func(n int64) int { return map[int64]int{1: 7}[n] - 1 }, "", "other bytes came"},
		"in the rest":                          {func(n int64) int { return map[int64]int{2: 7}[n] - 1 }, "", "other bytes came"},
		"in each request":                      {func(int64) int { return 3 }, "", "other bytes came"},
		"none, of a store whose tags are none": {never, `"00000000000000000000000000000000"`, ""},
		"once, of a store whose tags are none": {func(n int64) int { return map[int64]int{2: 7}[n] - 1 }, `"00000000000000000000000000000000"`, "other bytes came"},
		"of an object that was put together":   {func(int64) int { return 3 }, `"00000000000000000000000000000000-2"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakes3.Start(t)
			s.Put(t, "a.pickle", data)
			n.Store(0)
			flip, tag, s.Before = c.flip, c.tag, spoil
			r, err := open(t, "s3://team").Read(context.Background(), "a.pickle")
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(r)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "s3://team/a.pickle: "+c.want) {
				t.Errorf("error is %v; want %q", err, c.want)
			}
		})
	}
	t.Run("each time the same, where digests were right", func(t *testing.T) {
		s := fakes3.Start(t)
		s.Put(t, "a.pickle", data)
		s.Put(t, "b.pickle", data)
		flip, tag = never, ""
		s.Before = spoil
		place := open(t, "s3://team")
		read(t, place, "a.pickle")
		flip = func(int64) int { return 3 }
		r, err := place.Read(context.Background(), "b.pickle")
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.Contains(err.Error(), "other bytes came") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("sent once", func(t *testing.T) {
		s := fakes3.Start(t)
		n.Store(0)
		flip, s.Before = func(n int64) int { return map[int64]int{1: 7}[n] - 1 }, spoil
		place := open(t, "s3://team")
		if err := write(place, "out", string(data)); err != nil {
			t.Fatal(err)
		}
		flip = never
		if read(t, place, "out") != string(data) {
			t.Error("what lies there isn't what was written")
		}
	})
	t.Run("sent each time", func(t *testing.T) {
		s := fakes3.Start(t)
		t.Setenv("AWS_MAX_ATTEMPTS", "2")
		flip, s.Before = func(int64) int { return 0 }, spoil
		err := write(open(t, "s3://team"), "out", string(data))
		if err == nil || !strings.Contains(err.Error(), "s3://team/out: other bytes arrived there") {
			t.Errorf("error is %v", err)
		}
	})
}

// TestSeek reads a part and the whole again.
func TestSeek(t *testing.T) {
	for _, place := range places(t, t.TempDir()) {
		if err := write(open(t, place), "a", "0123456789"); err != nil {
			t.Fatal(err)
		}
		r, err := open(t, place).Read(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for _, to := range []struct {
			offset int64
			whence int
			n      int64
		}{{0, io.SeekStart, 2}, {3, io.SeekCurrent, 2}, {-1, io.SeekEnd, 5}, {20, io.SeekStart, 5}, {0, io.SeekStart, 20}} {
			if _, err := r.Seek(to.offset, to.whence); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(&got, r, to.n); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			got.WriteByte(' ')
		}
		if got.String() != "01 56 9  0123456789 " {
			t.Errorf("%s: read %q", place, got.String())
		}
		if _, err := r.Seek(-1, io.SeekStart); err == nil {
			t.Errorf("%s: a position before the beginning", place)
		}
		r.Close()
	}
}

// TestPassingRefusals are asked again, so that nobody hears of them: of every four
// requests one is refused, or its answer breaks.
func TestPassingRefusals(t *testing.T) {
	spoil := map[string]func(w http.ResponseWriter, r *http.Request, store http.Handler){
		"503":  func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(503) },
		"500":  func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(500) },
		"drop": func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
		"torn": func(w http.ResponseWriter, r *http.Request, store http.Handler) {
			var all atomic.Int64
			cutAfter(40, &all)(w, r, store)
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			if fmt.Fprint(w, "<ListBucketResult><Conte"); true {
				w.(http.Flusher).Flush()
			}
		},
	}
	for name, refuse := range spoil {
		t.Run(name, func(t *testing.T) {
			s := fakes3.Start(t)
			for i := range 6 {
				s.Put(t, fmt.Sprintf("runs/%02d", i), bytes.Repeat([]byte{byte(i)}, 1000))
			}
			var requests atomic.Int64
			s.Before = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				listing := r.URL.Query().Has("list-type")
				if requests.Add(1)%4 == 1 && (listing || name != "garbage") { // an object may hold anything
					refuse(w, r, next)
				} else {
					next.ServeHTTP(w, r)
				}
			}
			place := open(t, "s3://team/runs")
			n := 0
			for f, err := range place.List(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, place, f.Name); got != strings.Repeat(string([]byte{byte(n)}), 1000) {
					t.Errorf("%s is not what lies there", f.Name)
				}
				n++
			}
			if n != 6 {
				t.Errorf("%d files, want 6", n)
			}
			if err := place.Write(context.Background(), "out", func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); err != nil {
				t.Error(err)
			}
			if err := place.Remove(context.Background(), "out"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSilence ends the waiting for a store that accepts and never answers, or that
// stops in the middle of an answer.
func TestSilence(t *testing.T) {
	for name, before := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"never answers": func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"stops": func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("<"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakes3.Start(t)
			s.Before = before
			ctx := context.Background()
			place := open(t, "s3://team?timeout=50ms")
			for _, ask := range []func() error{
				func() (err error) {
					for _, err = range place.List(ctx) {
					}
					return err
				},
				func() error { _, err := place.Stat(ctx, "a"); return err },
				func() error {
					r, err := place.Read(ctx, "a")
					if err == nil {
						_, err = io.ReadAll(r)
					}
					return err
				},
				func() error {
					return place.Write(ctx, "a", func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
				},
			} {
				if err := ask(); err == nil || !strings.Contains(err.Error(), "no answer in time") {
					t.Errorf("error is %v", err)
				}
			}
		})
	}
}

// answer makes the store refuse with a code.
func answer(status int, code, message string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
	}
}

// TestErrors say where and why, and never with what credentials.
func TestErrors(t *testing.T) {
	s := fakes3.Start(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, c := range []struct {
		name, place, want string
		before            func(http.ResponseWriter, *http.Request, http.Handler)
		is                error
	}{
		{"bucket", "s3://none/x", "s3://none/x: no such bucket", nil, fs.ErrNotExist},
		{"denied", "s3://team/x", "s3://team/x: access denied", answer(403, "AccessDenied", "Access Denied"), fs.ErrPermission},
		{"key", "s3://team", "s3://team: the access key is not known there", answer(403, "InvalidAccessKeyId", "AKIATEST does not exist"), nil},
		{"region", "s3://team", "s3://team: the bucket is in another region\nAdd ?region=", answer(301, "PermanentRedirect", "elsewhere"), nil},
		{"other", "s3://team", "s3://team: Strange: we are closed", answer(400, "Strange", "we are closed"), nil},
		{"nobody", "s3://team?endpoint=http://127.0.0.1:1", "s3://team: no connection: ", nil, nil},
		{"parameter", "s3://team?colour=" + fakes3.Secret, "s3://team: unknown query parameter \"colour\"", nil, nil},
		{"time", "s3://team?timeout=" + fakes3.Secret, "s3://team: parameter timeout is no length of time, such as 30s", nil, nil},
		{"flag", "s3://team?disable_https=" + fakes3.Secret, "s3://team: parameter disable_https is neither true nor false", nil, nil},
		{"endpoint", "s3://team?endpoint=http://me:" + fakes3.Secret + "@%zz", "s3://team: ", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Before = c.before
			p, err := store.Open(context.Background(), c.place)
			if err == nil {
				defer p.Close()
				for _, e := range p.List(context.Background()) {
					err = e
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v\nwant        %s", err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("is not %v", c.is)
			}
			for _, hidden := range []string{fakes3.Secret, "AKIATEST", "X-Amz"} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("shows %s: %v", hidden, err)
				}
			}
		})
	}
}

// TestNoCredentials says so, and nothing of where it has looked for them.
func TestNoCredentials(t *testing.T) {
	fakes3.Start(t)
	machine := httptest.NewServer(http.NotFoundHandler())
	defer machine.Close()
	for k, v := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": machine.URL} {
		t.Setenv(k, v)
	}
	said := standardError(t, func() {
		for _, err := range open(t, "s3://team").List(context.Background()) {
			if err == nil || !strings.HasPrefix(err.Error(), "s3://team: no credentials\nSet AWS_PROFILE") {
				t.Errorf("error is %v", err)
			}
		}
	})
	if said != "" {
		t.Errorf("said %q", said)
	}
	if _, err := open(t, "s3://team?anonymous=true").Read(context.Background(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without credentials where none are asked for: %v", err)
	}
}

// standardError is what a function prints there.
func standardError(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = before
	w.Close()
	said, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

// TestQuiet finds nothing on standard error, where the client warns of every
// object that was stored without a checksum.
func TestQuiet(t *testing.T) {
	s := fakes3.Start(t)
	s.Put(t, "a", []byte("x"))
	said := standardError(t, func() {
		if got := read(t, open(t, "s3://team"), "a"); got != "x" {
			t.Errorf("read %q", got)
		}
	})
	if said != "" {
		t.Errorf("said %q", said)
	}
}
