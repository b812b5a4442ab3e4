package view

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// started is a server whose pages say which input they are of; an input named "bad" has none.
func started(t *testing.T, inputs ...string) (s *Server, end func()) {
	return patientlyStarted(t, 0, inputs...)
}

// patientlyStarted is one that waits only so long for what is handed over.
func patientlyStarted(t *testing.T, patience time.Duration, inputs ...string) (s *Server, end func()) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	s, err := New(Options{Inputs: inputs, MaxUpload: 1000, MaxPages: 4, Patience: patience,
		Make: func(_ context.Context, input, folder string, uploaded bool) error {
			text := "page of " + input
			if uploaded {
				b, err := os.ReadFile(filepath.Join(folder, input))
				if err != nil {
					return err
				}
				text += ": " + string(b)
			}
			if strings.Contains(text, "bad") {
				return errors.New("<b>no</b> recording")
			}
			return errors.Join(os.WriteFile(filepath.Join(folder, Page), []byte(text), 0o600),
				os.WriteFile(filepath.Join(folder, "columns-0"), []byte("0123456789"), 0o600))
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return s, end
}

// ask sends a request as it is given: no redirect is followed, no path made clean.
func ask(t *testing.T, s *Server, method, path string, body io.Reader, headers ...string) (status int, text string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d", s.Port()), body)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = path
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header
}

// What is answered, and what isn't.
func TestRequests(t *testing.T) {
	s, _ := started(t, "dir/a.pickle", "bad.pickle")
	self, token := fmt.Sprintf("127.0.0.1:%d", s.Port()), "/"+s.token
	other := "/" + strings.Repeat("A", len(s.token))
	for name, x := range map[string]struct {
		method, path string
		headers      []string
		status       int
		text         string
	}{
		"the first page":                  {path: token + "/0/", status: 200, text: "page of dir/a.pickle"},
		"by the other name of this host":  {path: token + "/0/", headers: []string{"Host", fmt.Sprintf("localhost:%d", s.Port())}, status: 200, text: "page of dir/a.pickle"},
		"from a page of its own":          {path: token + "/0/", headers: []string{"Origin", "http://" + self}, status: 200, text: "page of dir/a.pickle"},
		"columns":                         {path: token + "/0/columns-0", status: 200, text: "0123456789"},
		"a range of columns":              {path: token + "/0/columns-0", headers: []string{"Range", "bytes=2-4"}, status: 206, text: "234"},
		"a range behind the columns":      {path: token + "/0/columns-0", headers: []string{"Range", "bytes=20-40"}, status: 416},
		"no page number":                  {path: token + "/", status: 303},
		"an input that is no recording":   {path: token + "/1/", status: 422, text: "&lt;b&gt;no&lt;/b&gt; recording"},
		"wrong token":                     {path: other + "/0/", status: 404},
		"no token":                        {path: "/0/", status: 404},
		"nothing":                         {path: "/", status: 404},
		"a part of the token":             {path: token[:len(token)-1] + "/0/", status: 404},
		"more than the token":             {path: token + "A/0/", status: 404},
		"wrong host":                      {path: token + "/0/", headers: []string{"Host", "evil.example"}, status: 403},
		"wrong host with the right port":  {path: token + "/0/", headers: []string{"Host", fmt.Sprintf("evil.example:%d", s.Port())}, status: 403},
		"right host with another port":    {path: token + "/0/", headers: []string{"Host", "127.0.0.1:1"}, status: 403},
		"wrong origin":                    {path: token + "/0/", headers: []string{"Origin", "http://evil.example"}, status: 403},
		"an origin that isn't said":       {path: token + "/0/", headers: []string{"Origin", "null"}, status: 403},
		"origin of another port":          {path: token + "/0/", headers: []string{"Origin", "http://127.0.0.1:1"}, status: 403},
		"out of the folder":               {path: token + "/0/../../../../../etc/passwd", status: 404},
		"out of the folder, escaped":      {path: token + "/0/..%2f..%2f..%2fetc%2fpasswd", status: 404},
		"out of the folder, in columns":   {path: token + "/0/columns-..%2f..%2fa", status: 404},
		"a page's file by its name":       {path: token + "/0/" + Page, status: 404},
		"columns of no device":            {path: token + "/0/columns-1", status: 404},
		"columns of a device below none":  {path: token + "/0/columns--1", status: 404},
		"columns of a device, in octal":   {path: token + "/0/columns-00", status: 404},
		"a page that isn't":               {path: token + "/2/", status: 404},
		"a page below the first":          {path: token + "/-1/", status: 404},
		"a page number in another way":    {path: token + "/+0/", status: 404},
		"a page number that is too large": {path: token + "/99999999999999999999/", status: 404},
		"writing to a page":               {method: "POST", path: token + "/0/", headers: []string{"Origin", "http://" + self}, status: 405},
		"deleting":                        {method: "DELETE", path: token + "/0/", headers: []string{"Origin", "http://" + self}, status: 405},
		"uploading by GET":                {path: token + "/upload", status: 405},
		"uploading from nowhere":          {method: "POST", path: token + "/upload?name=x", status: 403},
		"uploading from elsewhere":        {method: "POST", path: token + "/upload?name=x", headers: []string{"Origin", "http://evil.example"}, status: 403},
		"uploading without the token":     {method: "POST", path: "/upload?name=x", headers: []string{"Origin", "http://" + self}, status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, h := ask(t, s, cmp.Or(x.method, "GET"), x.path, nil, x.headers...)
			if status != x.status || !strings.Contains(text, x.text) {
				t.Errorf("%d %q, want %d %q", status, text, x.status, x.text)
			}
			if x.status != 416 && h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" {
				t.Errorf("headers %v", h)
			}
			if h.Get("Access-Control-Allow-Origin") != "" {
				t.Error("another origin may read this")
			}
			if strings.Contains(text, s.token) && status >= 400 {
				t.Error("the refusal tells the token")
			}
		})
	}
}

// Only this machine's own address is listened on.
func TestListens(t *testing.T) {
	s, _ := started(t, "a")
	if at := s.listener.Addr().(*net.TCPAddr); !at.IP.Equal(net.IPv4(127, 0, 0, 1)) || at.Port == 0 {
		t.Errorf("listens on %v", at)
	}
}

// What starts a browser says nothing to those who see its command line: the token stands in a file for this user alone.
func TestDoor(t *testing.T) {
	s, _ := started(t, "a")
	door, err := s.Door()
	if err != nil || strings.Contains(door, s.token) || strings.Contains(door, fmt.Sprint(s.Port())) {
		t.Fatalf("%s, %v", door, err)
	}
	at, err := url.Parse(door)
	if err != nil || at.Scheme != "file" {
		t.Fatal(door, err)
	}
	text, err := os.ReadFile(at.Path)
	if err != nil || !strings.Contains(string(text), `content="0;url=`+s.URL()+`"`) {
		t.Errorf("%s, %v", text, err)
	}
	for name, want := range map[string]os.FileMode{at.Path: 0o600, filepath.Dir(at.Path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// TestBrowser: a program that is started in the place of the browser gets there; its command line alone doesn't.
func TestBrowser(t *testing.T) {
	s, _ := started(t, "a")
	bin := t.TempDir()
	got := filepath.Join(bin, "got")
	script := "#!/bin/sh\nprintf %s \"$1\" >" + got + "\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	t.Setenv("SSH_CONNECTION", "")
	if !s.OpenBrowser() {
		t.Fatal("not started")
	}
	door, err := s.Door()
	if text, _ := os.ReadFile(got); err != nil || string(text) != door {
		t.Errorf("started with %s, want %s, %v", text, door, err)
	}
}

// TestStopped: an upload of which nothing more comes ends, and frees its place.
func TestStopped(t *testing.T) {
	s, _ := patientlyStarted(t, 100*time.Millisecond, "a")
	for i := range 5 { // more than there are places
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", s.Port()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /%[1]s/upload?name=x HTTP/1.1\r\nHost: 127.0.0.1:%[2]d\r\nOrigin: http://127.0.0.1:%[2]d\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", s.token, s.Port())
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusRequestTimeout {
			t.Fatalf("%d: %v, %v", i, answer, err)
		}
		c.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if left, err := filepath.Glob(s.folder + "/*/x"); s.open != 1 || len(left) > 0 || err != nil {
		t.Errorf("%d pages, left %v, %v", s.open, left, err)
	}
}

// TestSweep: the next server removes what one that was killed has left, and nobody else's.
func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	folder := func(name string, mode os.FileMode, files ...string) string {
		at := filepath.Join(tmp, name)
		if err := os.Mkdir(at, mode); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(at, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Base(at)
	}
	folder("vramscope-view-1", 0o700, "lock", "open.html")
	want := []string{folder("other", 0o700, "lock"), folder("vramscope-view-open", 0o755, "lock"), folder("vramscope-view-unlocked", 0o700, "page.html")}
	if err := os.Symlink(tmp, filepath.Join(tmp, "vramscope-view-link")); err != nil {
		t.Fatal(err)
	}
	living, err := New(Options{Inputs: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "vramscope-view-link", filepath.Base(living.folder))
	next, err := New(Options{Inputs: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, filepath.Base(next.folder))
	slices.Sort(want)
	if got := names(t, tmp); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if err := errors.Join(living.Close(), next.Close()); err != nil {
		t.Error(err)
	}
	if got := names(t, tmp); len(got) != 4 {
		t.Errorf("left are %v", got)
	}
}

// names are what lies in a folder.
func names(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// lengthless hides how long a body is.
type lengthless struct{ io.Reader }

func TestUpload(t *testing.T) {
	s, end := started(t, "a")
	origin := fmt.Sprintf("http://127.0.0.1:%d", s.Port())
	send := func(name string, body io.Reader) (int, map[string]string) {
		t.Helper()
		status, text, _ := ask(t, s, "POST", "/"+s.token+"/upload?name="+name, body, "Origin", origin)
		said := map[string]string{}
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return status, said
	}
	left := func() (names []string) {
		_ = filepath.WalkDir(s.folder, func(path string, d os.DirEntry, _ error) error {
			if d != nil && !d.IsDir() && filepath.Dir(path) != s.folder {
				rel, _ := filepath.Rel(s.folder, path)
				names = append(names, rel)
			}
			return nil
		})
		return names
	}
	if status, said := send("..%2f..%2fC:%5cother.pickle%3cb%3e", strings.NewReader("events")); status != 201 || said["page"] != "1/" {
		t.Errorf("%d %v", status, said)
	}
	if _, text, _ := ask(t, s, "GET", "/"+s.token+"/1/", nil); text != "page of other.pickle_b_: events" {
		t.Errorf("%q", text)
	}
	if got := fmt.Sprint(left()); got != "[1/columns-0 1/page.html]" {
		t.Errorf("left are %s: what was handed over should be gone", got)
	}
	for name, body := range map[string]io.Reader{"larger than it says at first": lengthless{strings.NewReader(strings.Repeat("x", 100_000))},
		"larger": bytes.NewReader(make([]byte, 1001))} {
		if status, said := send("x", body); status != 413 || !strings.Contains(said["error"], "larger than 0.98 KiB") {
			t.Errorf("%s: %d %v", name, status, said)
		}
	}
	if status, said := send("bad", strings.NewReader("x")); status != 422 || said["error"] != "<b>no</b> recording" {
		t.Errorf("%d %v", status, said)
	}
	if got := fmt.Sprint(left()); got != "[1/columns-0 1/page.html]" {
		t.Errorf("left are %s: nothing of what was refused", got)
	}
	for _, want := range []int{201, 201, 507} {
		if status, said := send("page.html", strings.NewReader("x")); status != want {
			t.Errorf("%d %v, want %d", status, said, want)
		}
	}
	_, text, _ := ask(t, s, "GET", "/"+s.token+"/files", nil)
	if want := `{"most":1000,"pages":[{"page":"0/","name":"a"},{"page":"1/","name":"other.pickle_b_"},` +
		`{"page":"4/","name":"file-page.html"},{"page":"5/","name":"file-page.html"}]}`; strings.TrimSpace(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	end()
	if _, err := os.Stat(s.folder); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A name is one that lies in its folder, whatever was sent.
func TestTame(t *testing.T) {
	for given, want := range map[string]string{"a.pickle": "a.pickle", "up/up/a": "a", `C:\x\b.gz`: "b.gz", "": "file-", "..": "file-",
		"-rf": "rf", ".hidden": "hidden", "a b\x00\n": "a_b__", "columns-0": "file-columns-0", strings.Repeat("é", 90): strings.Repeat("_", 50)} {
		if got := tame(given); got != want {
			t.Errorf("tame(%q) = %q, want %q", given, got, want)
		}
	}
}
