package doc_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// longest is how many words a sentence has at most: a longer one is read twice.
const longest = 35

// owed has how many longer ones a document may still have. Figures may only shrink.
var owed = map[string]int{
	"guides.md": 1,
}

// TestSentencesAreShort reads the documents as people do: without code, tables and what tests make of registries.
func TestSentencesAreShort(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, name := range append(files, "../README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written, _, _ := strings.Cut(string(b), "<!-- From here on made from")
		var long []string
		for _, paragraph := range paragraphs(written) {
			for _, s := range sentences(paragraph) {
				if n := len(strings.Fields(s)); n > longest {
					long = append(long, s)
				}
			}
		}
		if len(long) > owed[name] {
			t.Errorf("%s: %d sentences of more than %d words:\n\t%s", name, len(long), longest, strings.Join(long, "\n\t"))
		}
	}
}

func TestSentences(t *testing.T) {
	const source = "# A title\n\nOne, e.g. this. `Two.  words` (see [here](x.md)). 3 more.\n\n- an item\n  of a list\n\n```\ncode. Code.\n```\n\n| a | b |\n|---|---|\n| c. C | d |\n"
	var all []string
	for _, p := range paragraphs(source) {
		all = append(all, sentences(p)...)
	}
	if got := strings.Join(all, "|"); got != "One, e.g. this.|code (see here).|3 more.|an item of a list" {
		t.Error(got)
	}
}

// paragraphs are a document's texts outside of titles, code and tables. What stands in backquotes counts as one word.
func paragraphs(source string) []string {
	var all []string
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader([]byte(source)))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.(type) {
		case *east.Table, *ast.Heading:
			return ast.WalkSkipChildren, nil
		case *ast.Paragraph, *ast.TextBlock:
			if entering {
				var b strings.Builder
				words(&b, n, []byte(source))
				all = append(all, b.String())
			}
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return all
}

func words(b *strings.Builder, n ast.Node, source []byte) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.CodeSpan:
			b.WriteString("code")
		case *ast.Text:
			b.Write(c.Segment.Value(source))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		default:
			words(b, c, source)
		}
	}
}

// end is behind a sentence: a small letter goes on with it.
var end = regexp.MustCompile(`[.!?]["”)]*\s+`)

func sentences(paragraph string) []string {
	var all []string
	from := 0
	for _, at := range end.FindAllStringIndex(paragraph, -1) {
		next := strings.TrimLeft(paragraph[at[1]:], `("“`)
		if next == "" || 'a' <= next[0] && next[0] <= 'z' && !strings.HasPrefix(next, "code") {
			continue
		}
		all = append(all, strings.TrimSpace(paragraph[from:at[1]]))
		from = at[1]
	}
	if rest := strings.TrimSpace(paragraph[from:]); rest != "" {
		all = append(all, rest)
	}
	return all
}
