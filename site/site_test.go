package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocuments: each document has a page, all links lead somewhere, and the search knows every heading.
func TestDocuments(t *testing.T) {
	t.Chdir("..")
	b := builder{out: t.TempDir(), version: "1.2.3"}
	if err := b.documents(); err != nil {
		t.Fatal(err)
	}
	index, err := b.read("doc/index.html")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(filepath.Join(b.out, "doc", "*.html"))
	if len(pages) < 20 {
		t.Fatalf("%d pages", len(pages))
	}
	local := regexp.MustCompile(`(?:href|src)="([^"#:]+)(?:#[^"]*)?"`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(page); name != "index.html" && !bytes.Contains(index, []byte(`href="`+name+`"`)) {
			t.Errorf("the contents don't name %s", name)
		}
		if bytes.Contains(text, []byte("<script>")) || !bytes.Contains(text, []byte("<h1")) {
			t.Errorf("%s has a script of its own, or no heading", page)
		}
		for _, m := range local.FindAllSubmatch(text, -1) {
			to := string(m[1])
			if strings.HasPrefix(to, "../") {
				continue // the start page's, which is made elsewhere
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), to)); err != nil {
				t.Errorf("%s: %v", filepath.Base(page), err)
			}
		}
	}
	search, err := b.read("doc/search.js")
	if err != nil || !bytes.Contains(search, []byte(`"t":"logits_dominate"`)) {
		t.Errorf("the search doesn't know a finding: %v", err)
	}
}

// TestBrokenLinksAreErrors: a link to a heading that isn't there ends the build.
func TestBrokenLinksAreErrors(t *testing.T) {
	a := &document{Name: "a", anchors: map[string]bool{"here": true}, body: `<a href="b.md#gone">x</a> <a href="#here">y</a> <a href="../view/serve.go">z</a>`}
	known := map[string]*document{"a": a, "b": {Name: "b", anchors: map[string]bool{}}}
	a.resolve(known)
	if want := `<a href="b.html#gone">x</a> <a href="a.html#here">y</a> z`; a.body != want {
		t.Errorf("%s", a.body)
	}
	if err := a.check(known); err == nil || !strings.Contains(err.Error(), "b.html#gone") {
		t.Errorf("%v", err)
	}
}

// TestGallery: each failure has its page, which opens at an event, and its recording.
func TestGallery(t *testing.T) {
	t.Chdir("..")
	b := builder{out: t.TempDir(), version: "1.2.3"}
	if err := b.gallery(); err != nil {
		t.Fatal(err)
	}
	page, err := b.read("gallery/index.html")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`href="([^"#]+\.html)#at=[1-9]\d*"`).FindAllSubmatch(page, -1)
	if len(links) != 8 {
		t.Errorf("%d failures", len(links))
	}
	for _, l := range links {
		if text, err := b.read("gallery/" + string(l[1])); err != nil || !bytes.Contains(text, []byte("vramscope 1.2.3")) {
			t.Errorf("%s: %v", l[1], err)
		}
	}
}

func TestBase128(t *testing.T) {
	for want, content := range map[string]string{
		"1 @À":                 "\x80",                         // 1000000 0(000000)
		"7 \x7f\x7fÀÀÁ<\n\x01": "\xff\xfc\x00\x01\xaf\x05\x01", // the last three of these are 0001101 0111100 0001010 0000001
		"2 Â/À":                "\x78\xbc",                     // 0111100 0101111 00(00000)
		"2 Â!À":                "\x78\x84",                     // 0111100 0100001 00(00000)
	} {
		if got := base128([]byte(content)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
