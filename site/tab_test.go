package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/site/engine"
)

// tab is a page in a real browser, and what it said.
type tab struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string
}

const patience = 2 * time.Minute

func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(context.Background())
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(func() { cancel(); closeTab() })
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no browser: %v", err)
		}
		t.Skipf("no browser to look at pages with (Debian: apt-get install chromium): %v", err)
	}
	b := &tab{t: t, ctx: ctx}
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
	return b
}

// asked is the value of a JavaScript expression, which may be a promise's.
func asked[T any](b *tab, format string, args ...any) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", fmt.Sprintf(format, args...), err)
	}
	return v
}

func (b *tab) open(url string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url)); err != nil {
		b.t.Fatal(err)
	}
	b.until(`document.documentElement.dataset.ready === '1'`)
	asked[bool](b, "(%s, true)", helpers)
}

func (b *tab) until(expression string) {
	b.t.Helper()
	for start := time.Now(); !asked[bool](b, "Boolean(%s)", expression); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > patience/3 {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("never true: %s; the console has %q", expression, b.said)
		}
	}
}

// quiet fails when the page had anything to complain of, but for what is named.
func (b *tab) quiet(but ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, m := range b.said {
		for _, x := range but {
			if strings.Contains(m, "inline") {
				break // a script of the page's own
			}
			if strings.Contains(m, x) {
				continue next
			}
		}
		b.t.Errorf("console: %s", m)
	}
}

// helpers make files of base64, and tell a report's texts.
const helpers = `window.fileOf = (path, base64) => ({path, file: new File([Uint8Array.from(atob(base64), c => c.charCodeAt(0))], path.split('/').pop())}),
window.texts = async data => ({answer: data.answer, parts: Object.fromEntries(await Promise.all(Object.entries(data.parts).map(async ([k, v]) => [k, await v.text()])))}),
window.alive = url => new Promise(done => {
	const f = document.createElement('iframe');
	f.src = url;
	document.body.append(f);
	const began = performance.now(), look = () => {
		const d = f.contentDocument;
		if (d?.readyState === 'complete' && d.URL === url && (!d.scripts.length || d.documentElement.dataset.ready === '1' || performance.now() - began > 20000)) {
			f.contentWindow.fetch(location.origin + '/index.html').then(() => 'connects', () => 'alone').then(net => {
				done({scripts: d.scripts.length, ready: d.documentElement.dataset.ready || '', net});
				f.remove();
			});
		} else setTimeout(look, 20);
	};
	look();
}), true`

type given struct{ path, file string }

// files are such as the page would have been given, as JavaScript.
func files(t *testing.T, list ...given) string {
	t.Helper()
	var out []string
	for _, g := range list {
		content, err := os.ReadFile(g.file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := json.Marshal(g.path)
		base64, _ := json.Marshal(content)
		out = append(out, fmt.Sprintf("fileOf(%s, %s)", name, base64))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// served is the site on a server that counts what it is asked.
type served struct {
	*httptest.Server
	folder string
	count  atomic.Int64
}

var built struct {
	sync.Once
	folder string
	err    error
}

func serve(t *testing.T) *served {
	t.Helper()
	thorough.Only(t)
	t.Chdir("..")
	built.Do(func() {
		built.folder, built.err = os.MkdirTemp("", "vramscope-site-test-")
		if built.err == nil {
			b := builder{out: built.folder, version: "1.2.3"}
			built.err = b.build()
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	if st, err := os.Stat(filepath.Join(built.folder, "vramscope.html")); err != nil || st.Size() > 10_000_000 {
		t.Errorf("the single file: %v, %d bytes are too many to attach", err, st.Size())
	}
	s := &served{folder: built.folder}
	static := http.FileServer(http.Dir(s.folder))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count.Add(1)
		static.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

const recordings = "testdata/recordings/"

// TestTheTab reads twenty kinds of input in a browser. Each answer is the program's, byte by byte; each page lives under the
// start page's policy; and no request is made after the engine has come.
func TestTheTab(t *testing.T) {
	s := serve(t)
	root, _ := os.Getwd()
	one := func(names ...string) (list []given) {
		for _, n := range names {
			list = append(list, given{filepath.Base(n), filepath.Join(root, recordings, n)})
		}
		return list
	}
	cut := filepath.Join(t.TempDir(), "cut.pickle.gz")
	whole, err := os.ReadFile(recordings + "growing_list__step_cache/snapshot_all.pickle.gz")
	if err != nil || os.WriteFile(cut, whole[:len(whole)/2], 0o600) != nil {
		t.Fatal(err)
	}
	type kind struct {
		name  string
		files []given
		q     engine.Request
	}
	kinds := []kind{
		{"a comparison", one("growing_list__step_cache/snapshot_all.pickle.gz", "growing_list__step_cache/snapshot_named.pickle.gz"),
			engine.Request{Compare: true}},
		{"a snapshot and its log", one("qwen_vocab_oom__05b/snapshot_all.pickle.gz", "qwen_vocab_oom__05b/log.txt"), engine.Request{}},
		{"a run's folder", []given{{"run/eval_dict/snapshot.pickle.gz", recordings + "device_map__two_gpus/snapshot_named.pickle.gz"},
			{"run/eval_dict/log.txt", recordings + "device_map__two_gpus/log.txt"}}, engine.Request{Inputs: []string{"run"}}},
		{"what is there of a damaged one", []given{{"cut.pickle.gz", cut}}, engine.Request{Partial: true}},
		{"ranks", []given{{"rank0.pickle.gz", recordings + "mlp_regression__script/snapshot_all.pickle.gz"},
			{"rank1.pickle.gz", recordings + "mlp_regression__script/snapshot_named.pickle.gz"}}, engine.Request{}},
	}
	singles, _ := filepath.Glob(recordings + "*/snapshot_*.pickle.gz")
	logs, _ := filepath.Glob(recordings + "*/log.txt")
	for i, name := range append(singles, logs...) {
		if i%3 == 0 {
			full := filepath.Join(root, name)
			kinds = append(kinds, kind{name, []given{{filepath.Base(name), full}}, engine.Request{}})
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("%d kinds", len(kinds))
	}
	b := newTab(t)
	b.open(s.URL + "/index.html")
	asked[bool](b, "load().then(() => true)")
	asked[bool](b, "navigator.serviceWorker.ready.then(() => true)") // it fetches what the site needs offline, however long that takes
	before := s.count.Load()
	for i := range kinds {
		k := &kinds[i]
		k.q.Formats = []string{"html", "md", "json"}
		if k.q.Inputs == nil {
			for _, f := range k.files {
				k.q.Inputs = append(k.q.Inputs, f.path)
			}
		}
		folder := t.TempDir()
		for _, f := range k.files {
			content, err := os.ReadFile(f.file)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(folder, f.path)
			if os.MkdirAll(filepath.Dir(to), 0o755) != nil || os.WriteFile(to, content, 0o600) != nil {
				t.Fatal("can't copy")
			}
		}
		query, _ := json.Marshal(&k.q)
		got := asked[struct {
			Answer engine.Result
			Parts  map[string]string
		}](b, "ask(%s, %s).then(texts)", files(t, k.files...), query)
		want := map[string]string{}
		t.Chdir(folder)
		r := engine.Answer(&k.q, engine.Options{Version: "1.2.3", Put: func(format string, content []byte) error {
			want[format] = string(content)
			return nil
		}})
		t.Chdir(root)
		if r.Error != "" || got.Answer.Verdict != r.Verdict || got.Answer.Text != r.Text || got.Answer.All != r.All {
			t.Errorf("%s: %+v\nnatively %+v", k.name, got.Answer, r)
		}
		for format, text := range want {
			if got.Parts[format] != text {
				t.Errorf("%s: %s of %d bytes, natively %d", k.name, format, len(got.Parts[format]), len(text))
			}
		}
		if i > 8 {
			continue
		}
		page, _ := json.Marshal(want["html"])
		in := asked[struct {
			Scripts    int
			Ready, Net string
		}](b, "alive(URL.createObjectURL(new Blob([%s], {type: 'text/html;charset=utf-8'})))", page)
		if in.Net != "alone" || in.Scripts > 0 && in.Ready != "1" && !k.q.Compare {
			t.Errorf("%s: the page in its frame: %+v", k.name, in)
		}
	}
	if n := s.count.Load() - before; n != 0 {
		t.Errorf("%d requests while files were read", n)
	}
	for what, script := range map[string]string{
		"the page": "fetch(location.origin + '/index.html').then(() => 'connects', () => 'alone')",
		"a worker": `new Promise(done => { const w = new Worker(URL.createObjectURL(new Blob(["fetch('" + location.origin + "/index.html').then(() => postMessage('connects'), () => postMessage('alone'))"])));
			w.onmessage = e => done(e.data); })`,
		"a worker's script": `new Promise(done => { const w = new Worker(URL.createObjectURL(new Blob(["try { importScripts('" + location.origin + "/wasm_exec.js'); postMessage('connects'); } catch { postMessage('alone'); }"])));
			w.onmessage = e => done(e.data); })`,
		"a picture": "new Promise(done => { const i = new Image(); i.onload = () => done('connects'); i.onerror = () => done('alone'); i.src = location.origin + '/doc/page.png'; })",
	} {
		if got := asked[string](b, "%s", script); got != "alone" {
			t.Errorf("%s %s", what, got)
		}
	}
	b.quiet("connect-src", "violates the document's Content Security Policy", "violates the following Content Security Policy", "Refused to", "ERR_BLOCKED_BY_CSP")
}

// TestThePageReads drives what visitors do: a drop of one, of two and of many, a pasted log, what is damaged, stop, hostile names.
func TestThePageReads(t *testing.T) {
	s := serve(t)
	b := newTab(t)
	b.open(s.URL + "/index.html")
	all := given{"snapshot_all.pickle.gz", recordings + "growing_list__step_cache/snapshot_all.pickle.gz"}
	qwen := given{"b/qwen.pickle.gz", recordings + "qwen_vocab_oom__05b/snapshot_all.pickle.gz"}
	idle := "document.getElementById('progress').hidden && document.getElementById('state').textContent"
	drop := `(() => { const t = new DataTransfer(); for (const f of %s) t.items.add(f.file);
		dispatchEvent(new DragEvent('drop', {dataTransfer: t, cancelable: true})); return true; })()`
	see := func(what, want string) {
		t.Helper()
		b.until(idle)
		if got := asked[string](b, "document.getElementById('state').textContent"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", what, got)
		}
	}
	begin := func() { asked[bool](b, "(document.getElementById('state').textContent = '', true)") }

	begin()
	asked[bool](b, drop, files(t, all))
	see("one dropped", "Every step leaves 72 MiB behind")
	b.until("document.getElementById('page').src.startsWith('blob:')")
	if n := asked[int](b, "document.querySelectorAll('#get a[download]').length"); n != 3 {
		t.Errorf("%d downloads", n)
	}
	begin()
	asked[bool](b, "(guarded(read(%s)), true)", files(t, all, qwen))
	see("two recordings", "")
	b.until("document.querySelectorAll('#offers button').length === 2")
	if got := asked[string](b, "document.getElementById('page').src && document.querySelector('#offers').innerText"); !strings.Contains(got, "Each on its own") {
		t.Errorf("two recordings offer %q", got)
	}
	begin()
	asked[bool](b, "(guarded(read(%s)), true)", files(t, all, qwen, given{"c/log.txt", recordings + "qwen_vocab_oom__05b/log.txt"},
		given{"c/more.pickle.gz", recordings + "mlp_regression__script/snapshot_all.pickle.gz"}))
	see("many", "3 runs read.")
	if n := asked[int](b, "document.querySelectorAll('#table tbody tr').length"); n != 3 {
		t.Errorf("%d rows", n)
	}
	asked[bool](b, "(document.querySelector('#table tbody button').click(), true)")
	see("a row", "Every step leaves")
	begin()
	asked[bool](b, `(document.getElementById('paste').value = 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.', document.getElementById('inputs').requestSubmit(), true)`)
	see("a pasted log", "Out of memory")
	begin()
	asked[bool](b, "(guarded(read([{file: new File(['not a recording'], 'x.pickle')}])), true)")
	see("nothing in it", "x.pickle: ")

	begin()
	asked[bool](b, "(guarded(read([fileOf('cut.pickle.gz', %s)])), true)", func() string {
		content, _ := os.ReadFile(all.file)
		text, _ := json.Marshal(content[:len(content)/2])
		return string(text)
	}())
	see("damaged", "cut.pickle.gz: ")
	b.until("document.querySelector('#offers button')")
	begin()
	asked[bool](b, "(document.querySelector('#offers button').click(), true)")
	see("what is there of it", "")
	b.until("!document.getElementById('result').hidden")

	begin()
	asked[bool](b, "(guarded(read(%s)), true)", files(t, qwen))
	b.until("busy")
	asked[bool](b, "(document.getElementById('stop').click(), true)")
	see("stopped", "Stopped.")
	begin()
	asked[bool](b, "(guarded(read(%s)), true)", files(t, qwen))
	see("after a stop", "logits hold 69.6 GiB")

	for _, name := range []string{"-", "--help", "<img src=x onerror=window.ran=1>.pickle.gz", `"onload="window.ran=2`, "..", "s3:", "file:", "a\nb.pickle.gz",
		"\u202egz.elkcip", strings.Repeat("n", 300), "%00", "javascript:window.ran=3"} {
		begin()
		quoted, _ := json.Marshal(name)
		list := files(t, all)
		asked[bool](b, "(guarded(read([{path: %s, file: %s[0].file}])), true)", quoted, list)
		see(name, "Every step leaves 72 MiB behind")
		b.until("document.getElementById('page').src")
	}
	if n := asked[int](b, "window.ran || 0"); n != 0 {
		t.Errorf("name %d ran", n)
	}
	b.quiet()
}

// TestWithoutANetwork: the single file works from a disk, and the site after its server is gone. A file of the same site is read
// by its address, one of another only after a click.
func TestWithoutANetwork(t *testing.T) {
	s := serve(t)
	b := newTab(t)
	shown := "document.getElementById('progress').hidden && /Out of memory/.test(document.getElementById('state').textContent)"
	b.open("file://" + filepath.Join(s.folder, "vramscope.html"))
	asked[bool](b, "(document.getElementById('sample').click(), true)")
	b.until(shown)
	asked[bool](b, "(document.getElementById('licenses').open = true)")
	b.until("document.querySelector('#licenses pre').textContent.includes('Go Authors')")
	if got := asked[string](b, "fetch('%s/index.html').then(() => 'connects', () => 'alone')", s.URL); got != "alone" {
		t.Errorf("the single file %s", got)
	}

	b.open(s.URL + "/index.html?open=gallery/qwen_vocab_oom__05b.pickle.gz")
	b.until(shown)
	b.open(s.URL + "/index.html?open=gallery/gone.pickle")
	b.until("/gone.pickle: 404/.test(document.getElementById('state').textContent)")
	asked[bool](b, "(document.getElementById('sample').click(), true)")
	b.until(shown)
	b.open(s.URL + "/index.html?open=http://localhost:1/other.pickle")
	if got := asked[string](b, "document.querySelector('#asked a').href"); !strings.Contains(got, "remote.html?open=http") {
		t.Errorf("another site's file leads to %s", got)
	}
	b.open(s.URL + "/index.html")
	asked[bool](b, "navigator.serviceWorker.ready.then(() => caches.keys()).then(names => names.length > 0)")
	s.Close()
	b.open(s.URL + "/")
	asked[bool](b, "(document.getElementById('sample').click(), true)")
	b.until(shown)
	b.open(s.URL + "/doc/findings.html")
	asked[bool](b, "(document.getElementById('find').value = 'logits dominate', document.getElementById('find').dispatchEvent(new Event('input')), true)")
	if n := asked[int](b, "document.querySelectorAll('#found a').length"); n == 0 {
		t.Error("the search finds nothing offline")
	}
}
