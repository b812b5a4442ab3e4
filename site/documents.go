package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
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
	{"Use", "How to record, ask and read.",
		strings.Fields("README site recording ranks batch queries budget changes simulation view agents profiles " +
			"cluster guides adoption")},
	{"Reference", "What each name means.",
		strings.Fields("commands findings json tables evidence classification allocator promise")},
	{"Internals", "How it is made, and how right it is.",
		strings.Fields("reliability budget-accuracy page-columns dependencies CHANGELOG CONTRIBUTING")},
}

// entry is a heading that the search finds.
type entry struct {
	Title string `json:"t"`
	In    string `json:"d"` // the document's title
	URL   string `json:"u"`
	Words string `json:"w"` // the beginning of what stands below
}

// add puts what stands below a heading to its beginning, as far as there is room.
func (e *entry) add(text string) {
	const most = 500 // bytes
	if len(e.Words) < most*4/5 {
		e.Words = cutWords(e.Words+" "+text, most)
	}
}

// document is one of them as a page.
type document struct {
	Name, Title, Words string
	body               string
	anchors            map[string]bool
	links              []string
}

// HTML is the text of a document of this repository.
func (d *document) HTML() template.HTML { return template.HTML(d.body) }

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// operable lets a keyboard scroll code that is wider than a window, and announces no column whose head is empty.
var operable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>")

func (b *builder) documents() error {
	known := map[string]*document{}
	var order []*document
	page := framed{Up: "../", Current: "doc/index.html", Version: b.version}
	for _, l := range layers {
		one := layer{Title: l.title, About: l.about}
		for _, name := range l.names {
			d, err := b.document(name)
			if err != nil {
				return err
			}
			known[name], order, one.Documents = d, append(order, d), append(one.Documents, d)
		}
		page.Layers = append(page.Layers, one)
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
		page.Title, page.Document, page.Next = d.Title, d, nil
		if i+1 < len(order) {
			page.Next = order[i+1]
		}
		if err := b.framed("doc/"+d.Name+".html", "document", page); err != nil {
			return err
		}
	}
	page.Title = "Documents"
	if err := b.framed("doc/index.html", "contents", page); err != nil {
		return err
	}
	if err := b.pictures(); err != nil {
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
	d := &document{Name: name, anchors: map[string]bool{}}
	b.index(d, tree, source)
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, tree); err != nil {
		return nil, err
	}
	d.body = operable.Replace(out.String())
	if of := slices.IndexFunc(b.entries, func(e entry) bool { return e.In == d.Title }); of >= 0 {
		d.Words = cutWords(b.entries[of].Words, 130)
	}
	return d, nil
}

// index takes a document's headings, with the beginning of what stands below each.
func (b *builder) index(d *document, tree ast.Node, source []byte) {
	first := len(b.entries)
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			if last := len(b.entries) - 1; last >= first && n.Kind() != ast.KindFencedCodeBlock {
				b.entries[last].add(plain(n, source))
			}
			continue
		}
		title := plain(heading, source)
		if d.Title == "" {
			d.Title = title
		}
		url := d.Name + ".html"
		if id, ok := heading.AttributeString("id"); ok {
			anchor := string(id.([]byte))
			d.anchors[anchor] = true
			url += "#" + anchor
		}
		b.entries = append(b.entries, entry{Title: title, In: d.Title, URL: url})
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

// pictures copies the documents'.
func (b *builder) pictures() error {
	files, err := filepath.Glob("doc/*.png")
	for _, file := range files {
		content, other := os.ReadFile(file)
		if other == nil {
			other = b.write(filepath.ToSlash(file), content)
		}
		err = cmp.Or(err, other)
	}
	return err
}

func (b *builder) framed(name, template string, page framed) error {
	text, err := frame(template, page)
	if err != nil {
		return err
	}
	return b.write(name, text)
}

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
			name = d.Name
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
			return fmt.Errorf("%s links to %s, which isn't there", d.Name, link)
		}
	}
	return nil
}

// layer is one of the layers with its documents.
type layer struct {
	Title, About string
	Documents    []*document
}

// framed is what the templates of documents and gallery see.
type framed struct {
	Title, Up, Current, Version string
	Layers                      []layer
	Document, Next              *document
	Failures                    []failure
}

type place struct{ URL, Words string }

// frames are the templates of all pages but the start page's body.
var frames = template.Must(template.New("frame.html").Funcs(template.FuncMap{"places": places}).
	ParseFS(parts, "parts/frame.html"))

// places are the parts of the site, for its header.
func places() []place {
	return []place{{"index.html", "Open a recording"}, {"gallery/index.html", "Gallery"}, {"doc/index.html", "Documents"},
		{"vramscope.html", "As one file"}}
}

// frame executes one of them.
func frame(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	err := frames.ExecuteTemplate(&out, name, data)
	return out.Bytes(), err
}
