// Package pagetext sets the paragraphs of documents that tests make, and keeps them.
package pagetext

import (
	"os"
	"strings"
	"testing"
)

// Fill breaks paragraphs into lines; those of a list lie close.
func Fill(text string) string {
	var b strings.Builder
	item := false
	for i, paragraph := range strings.Split(text, "\n\n") {
		before := item
		if item = strings.HasPrefix(paragraph, "* "); i > 0 && !(item && before) {
			b.WriteByte('\n')
		}
		b.WriteString(lines(paragraph))
	}
	return b.String()
}

func lines(text string) string {
	const width = 130
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case column == 0:
			column = n
		case column+1+n > width:
			b.WriteByte('\n')
			column = n
		default:
			b.WriteByte(' ')
			column += 1 + n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// made begins the lines of documents behind which tests keep them.
const made = "<!-- From here on made from"

// Keep compares the part of a document behind a line, up to the next one of its kind, with
// what it should be, or, to update, writes that.
func Keep(t *testing.T, name, line, text string, update bool) {
	t.Helper()
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(old), line)
	if !found {
		t.Fatalf("%s: no line %q", name, line)
	}
	if i := strings.Index(rest, made); i >= 0 {
		text += "\n" + rest[i:]
	}
	switch text = head + line + text; {
	case !update && text != string(old):
		t.Errorf("%s is stale: %s", name, line)
	case update:
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
