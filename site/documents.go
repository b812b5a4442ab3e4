package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// layers are the documents in the order of reading; doc/*.md that none of them names is an error.
var layers = []struct {
	title, about string
	names        []string
}{
	{"Use", "How to record, ask and read.", []string{"README", "recording", "ranks", "batch", "queries", "budget", "changes", "simulation", "view",
		"agents", "profiles", "cluster", "guides"}},
	{"Reference", "What each name means.", []string{"findings", "json", "tables", "evidence", "classification", "allocator"}},
	{"Internals", "How it is made, and how right it is.", []string{"reliability", "budget-accuracy", "page-columns", "dependencies", "CHANGELOG",
		"CONTRIBUTING"}},
}

// entry is a heading that the search finds.
type entry struct {
	Title string `json:"t"`
	In    string `json:"d"` // the document's title
	URL   string `json:"u"`
	Words string `json:"w"` // the beginning of what stands below
}

// document is one of them as a page.
type document struct {
	name, title, body string
	anchors           map[string]bool
	links             []string
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func (b *builder) documents() error {
	known := map[string]*document{}
	var order []*document
	for _, l := range layers {
		for _, name := range l.names {
			d, err := b.document(name)
			if err != nil {
				return err
			}
			known[name], order = d, append(order, d)
		}
	}
	all, err := filepath.Glob("doc/*.md")
	if err != nil {
		return err
	}
	for _, file := range all {
		if known[strings.TrimSuffix(filepath.Base(file), ".md")] == nil {
			return fmt.Errorf("%s is in no layer of site/documents.go", file)
		}
	}
	for i, d := range order {
		d.resolve(known)
		if err := d.check(known); err != nil {
			return err
		}
		if err := b.write("doc/"+d.name+".html", b.documentPage(d, order, i)); err != nil {
			return err
		}
	}
	if err := b.write("doc/index.html", b.contents(known)); err != nil {
		return err
	}
	pictures, err := filepath.Glob("doc/*.png")
	for _, file := range pictures {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := b.write(filepath.ToSlash(file), content); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	index, err := json.Marshal(b.entries)
	if err != nil {
		return err
	}
	script := "'use strict';\nconst entries = " + string(index) + ";\n" + part("search.js")
	return b.write("doc/search.js", []byte(script))
}

func (b *builder) document(name string) (*document, error) {
	file := filepath.Join("doc", name+".md")
	if strings.ToUpper(name) == name {
		file = name + ".md"
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tree := markdown.Parser().Parse(text.NewReader(source))
	d := &document{name: name, anchors: map[string]bool{}}
	b.index(d, tree, source)
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, tree); err != nil {
		return nil, err
	}
	d.body = out.String()
	return d, nil
}

// index takes a document's headings, with the beginning of what stands below each.
func (b *builder) index(d *document, tree ast.Node, source []byte) {
	first := len(b.entries)
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			if last := len(b.entries) - 1; last >= first && len(b.entries[last].Words) < 160 && n.Kind() != ast.KindFencedCodeBlock {
				b.entries[last].Words = cutWords(b.entries[last].Words+" "+plain(n, source), 200)
			}
			continue
		}
		title := plain(heading, source)
		if d.title == "" {
			d.title = title
		}
		url := d.name + ".html"
		if id, ok := heading.AttributeString("id"); ok {
			anchor := string(id.([]byte))
			d.anchors[anchor] = true
			url += "#" + anchor
		}
		b.entries = append(b.entries, entry{Title: title, In: d.title, URL: url})
	}
}

// plain is a node's text without marks.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch t := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(t.Segment.Value(source))
			} else if t.SoftLineBreak() || t.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			if entering {
				out.Write(t.Value)
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// cutWords is a text's beginning, to the end of a word.
func cutWords(s string, most int) string {
	s = strings.TrimSpace(s)
	if len(s) <= most {
		return s
	}
	end := strings.LastIndexByte(s[:most], ' ')
	return strings.ToValidUTF8(s[:cmp.Or(max(end, 0), most)], "") + " …"
}

var anchorElement = regexp.MustCompile(`(?s)<a href="([^"]*)">(.*?)</a>`)

// resolve makes links to documents links to their pages. What else lies in the sources has no page: its name stays.
func (d *document) resolve(known map[string]*document) {
	d.body = anchorElement.ReplaceAllStringFunc(d.body, func(whole string) string {
		found := anchorElement.FindStringSubmatch(whole)
		href, words := html.UnescapeString(found[1]), found[2]
		if strings.Contains(href, "://") {
			return whole
		}
		file, anchor, _ := strings.Cut(href, "#")
		name, isDocument := strings.CutSuffix(path.Base(file), ".md")
		folder := strings.Trim(strings.TrimPrefix(path.Dir(file), ".."), "/.")
		switch {
		case file == "":
			name = d.name
		case !isDocument || known[name] == nil || folder != "" && folder != "doc":
			return words
		}
		target := name + ".html"
		if anchor != "" {
			target += "#" + anchor
		}
		d.links = append(d.links, target)
		return `<a href="` + html.EscapeString(target) + `">` + words + `</a>`
	})
	d.body = strings.ReplaceAll(d.body, `src="doc/`, `src="`)
}

// check wants every link to lead somewhere.
func (d *document) check(known map[string]*document) error {
	for _, link := range d.links {
		page, anchor, _ := strings.Cut(link, "#")
		to := known[strings.TrimSuffix(page, ".html")]
		if to == nil || anchor != "" && !to.anchors[anchor] {
			return fmt.Errorf("%s links to %s, which isn't there", d.name, link)
		}
	}
	return nil
}

const head = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; base-uri 'none'; form-action 'none'">
<title>%s. vramscope</title>
<link rel="icon" href="data:image/svg+xml,%%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%%3E%%3Cpath fill='%%232f7fdb' d='M1 15V9h3v6zm5 0V5h3v10zm5 0V1h3v14z'/%%3E%%3C/svg%%3E">
<link rel="stylesheet" href="../site.css">
<a class="skip" href="#main">Skip to the text</a>
`

func (b *builder) frame(title, current, body, scripts string) []byte {
	return []byte(fmt.Sprintf(head, html.EscapeString(title)) + header("../", current) + "\n" + body + "\n" + b.footer() + "\n" + scripts + "</html>\n")
}

const searchScript = `<script src="search.js"></script>` + "\n"

func (b *builder) documentPage(d *document, order []*document, at int) []byte {
	var nav strings.Builder
	nav.WriteString(`<nav aria-label="Documents"><label for="find">Search the documents</label><input id="find" type="search" autocomplete="off"><ul id="found"></ul>`)
	next := 0
	for _, l := range layers {
		fmt.Fprintf(&nav, "<h2>%s</h2><ul>", l.title)
		for range l.names {
			x, now := order[next], ""
			if next == at {
				now = ` aria-current="page"`
			}
			fmt.Fprintf(&nav, `<li><a href="%s.html"%s>%s</a></li>`, x.name, now, html.EscapeString(x.title))
			next++
		}
		nav.WriteString("</ul>")
	}
	nav.WriteString("</nav>")
	along := ""
	if at+1 < len(order) {
		along = fmt.Sprintf(`<p class="quiet">Next: <a href="%s.html">%s</a></p>`, order[at+1].name, html.EscapeString(order[at+1].title))
	}
	body := `<main class="document">` + nav.String() + `<article id="main">` + d.body + along + `</article></main>`
	return b.frame(d.title, "doc/index.html", body, searchScript)
}

func (b *builder) contents(known map[string]*document) []byte {
	var out strings.Builder
	out.WriteString(`<main id="main"><h1>Documents</h1><p><label for="find">Search</label> <input id="find" type="search" autocomplete="off"></p><ul id="found"></ul>`)
	for _, l := range layers {
		fmt.Fprintf(&out, "<h2>%s</h2><p class=\"quiet\">%s</p><ul>", l.title, l.about)
		for _, name := range l.names {
			first := slices.IndexFunc(b.entries, func(e entry) bool { return e.In == known[name].title })
			fmt.Fprintf(&out, `<li><a href="%s.html">%s</a> <span class="quiet">%s</span></li>`, name, html.EscapeString(known[name].title),
				html.EscapeString(cutWords(b.entries[first].Words, 130)))
		}
		out.WriteString("</ul>")
	}
	return b.frame("Documents", "doc/index.html", out.String()+"</main>", searchScript)
}
