package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/licenses"
	"github.com/vramscope/vramscope/report/html"
)

//go:embed parts
var parts embed.FS

func part(name string) string {
	text, err := parts.ReadFile("parts/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(text)
}

// The engine's files. Its name hides that it is gzipped: a server that knew would take the compression off or not, as it likes.
const (
	engineFile = "engine.bin"
	sampleFile = "sample.bin"
	sample     = "testdata/recordings/qwen_vocab_oom__05b/snapshot_all.pickle.gz"
)

// engine compiles it, and takes along what starts it: the compiler's own script.
func (b *builder) engine() error {
	folder, err := os.MkdirTemp("", "vramscope-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	module := filepath.Join(folder, "engine.wasm")
	flags := "-s -w -buildid= -X main.version=" + b.version
	compile := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", module, "./cmd/web")
	compile.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		to, from string
		pack     bool
	}{{engineFile, module, true}, {sampleFile, sample, false},
		{"wasm_exec.js", filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"), false}} {
		content, err := os.ReadFile(c.from)
		if err != nil {
			return err
		}
		if c.pack {
			content = packed(content)
		}
		if err := b.write(c.to, content); err != nil {
			return err
		}
	}
	return nil
}

func packed(content []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = z.Write(content) // into memory
	_ = z.Close()
	return out.Bytes()
}

// licensed are the texts of the licences of all that the engine is linked from, and of the reports' scripts.
func licensed() (string, error) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/web")
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	lines, err := list.Output()
	if err != nil {
		return "", err
	}
	build := &debug.BuildInfo{GoVersion: runtime.Version()}
	known := map[string]bool{}
	for line := range strings.Lines(string(lines)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if version != "" && !known[name] {
			known[name] = true
			build.Deps = append(build.Deps, &debug.Module{Path: name, Version: version})
		}
	}
	linked, missing := licenses.All().In(build)
	if len(missing) > 0 {
		return "", fmt.Errorf("no licence is known of %s", strings.Join(missing, ", "))
	}
	var out bytes.Buffer
	own, err := os.ReadFile("LICENSE")
	if err == nil {
		fmt.Fprintf(&out, "vramscope\n\n%s\n", own)
		err = linked.WriteText(&out)
	}
	return out.String(), err
}

// startPage is what the template sees.
type startPage struct {
	Version, Policy, Style, Header, Parts, Script string
	Up                                            string
	Remote, Served                                bool
}

// policy allows the page's own scripts and those of the reports that it shows, which inherit it. What the page may ask of
// servers ends when it has its engine.
func policy(scripts, connect string) string {
	return "default-src 'none'; script-src " + scripts + " 'wasm-unsafe-eval' " + html.Policies() +
		"; worker-src 'self' blob:; connect-src " + connect +
		"; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-src blob:; base-uri 'none'; form-action 'none'"
}

func (b *builder) start() error {
	for _, name := range []string{"site.css", "page.js", "worker.js", "digest.js"} {
		if err := b.write(name, []byte(part(name))); err != nil {
			return err
		}
	}
	header, err := frame("header", framed{Current: "index.html"})
	if err != nil {
		return err
	}
	served := startPage{Version: b.version, Header: string(header), Served: true,
		Style:  `<link rel="stylesheet" href="site.css">`,
		Script: `<script src="page.js" integrity="` + digest(part("page.js")) + `"></script>`}
	for name, connect := range map[string]string{"index.html": "'self'", "remote.html": "'self' https: http:"} {
		p := served
		p.Policy, p.Remote = policy("'self'", connect), name == "remote.html"
		if err := b.page(name, &p); err != nil {
			return err
		}
	}
	texts, err := licensed()
	if err == nil {
		err = b.write("licenses.txt", []byte(texts))
	}
	if err == nil {
		err = b.single(texts)
	}
	if err != nil {
		return err
	}
	return b.offline()
}

func (b *builder) page(name string, p *startPage) error {
	t, err := template.New(name).Funcs(template.FuncMap{"places": places}).Parse(part("index.html"))
	if err == nil {
		t, err = t.Parse(part("frame.html"))
	}
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return err
	}
	return b.write(name, out.Bytes())
}

// single is the start page and its engine as one file: for a disk, an intranet or a ticket. It can ask no server from its
// first byte on.
func (b *builder) single(texts string) error {
	script := part("page.js")
	p := startPage{Version: b.version, Policy: strings.ReplaceAll(policy("'"+digest(script)+"'", "'none'"), "'self' ", ""),
		Style: "<style>" + part("site.css") + "</style>", Script: "<script>" + script + "</script>",
		Header: `<header><div class="bar"><b>vramscope</b></div></header>`}
	var elements strings.Builder
	for _, name := range []string{engineFile, sampleFile, "wasm_exec.js", "worker.js", "digest.js"} {
		content, err := b.read(name)
		if err != nil {
			return err
		}
		text := string(content)
		if strings.HasSuffix(name, ".bin") {
			text = base128(content)
		} else if strings.Contains(strings.ToLower(text), "</script") {
			return fmt.Errorf("%s would end the element that it stands in", name)
		}
		fmt.Fprintf(&elements, "<script type=\"text/plain\" id=\"part-%s\">%s</script>\n", strings.TrimSuffix(name, ".js"), text)
	}
	fmt.Fprintf(&elements, "<script type=\"text/plain\" id=\"part-licenses\">%s</script>\n", base128(packed([]byte(texts))))
	p.Parts = elements.String()
	return b.page("vramscope.html", &p)
}

// escaped are the bytes of base128 that HTML would not leave as they are: null, the carriage return, and what begins a tag, which
// in a script ends or is a remark.
const escaped = "\x00\r<"

// base128 writes seven bits as a letter: eight bytes take 9.3 where base64 takes 10.7. The number of bytes stands in front.
func base128(content []byte) string {
	out := fmt.Appendf(make([]byte, 0, len(content)/6*7+32), "%d ", len(content))
	var n, bits uint
	write := func(seven uint) {
		last := len(out) - 1
		if (seven == '/' || seven == '!') && out[last] == '<' {
			out = utf8.AppendRune(out[:last], 'À'+rune(strings.IndexByte(escaped, '<')))
		}
		if i := strings.IndexByte(escaped, byte(seven)); i >= 0 && seven != '<' {
			out = utf8.AppendRune(out, 'À'+rune(i))
		} else {
			out = append(out, byte(seven))
		}
	}
	for _, b := range content {
		for n, bits = n<<8|uint(b), bits+8; bits >= 7; n &= 1<<bits - 1 {
			bits -= 7
			write(n >> bits)
		}
	}
	if bits > 0 {
		write(n << (7 - bits))
	}
	return string(out)
}

// offline writes the service worker, which keeps all but the gallery and the file that needs no keeping.
func (b *builder) offline() error {
	var names []string
	all := sha256.New()
	err := filepath.WalkDir(b.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(b.out, path)
		name = filepath.ToSlash(name)
		if err != nil || name == "sw.js" || name == "vramscope.html" || strings.HasPrefix(name, "gallery/") {
			return err
		}
		content, err := os.ReadFile(path)
		names = append(names, name)
		fmt.Fprintf(all, "%s %d\n", name, len(content))
		all.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("{{.Version}}", hex.EncodeToString(all.Sum(nil)[:6]), "{{.Files}}", string(list))
	return b.write("sw.js", []byte(fill.Replace(part("sw.js"))))
}

// digest is a text's as policies and integrity attributes have it.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
