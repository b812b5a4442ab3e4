package runlog

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence/figures"
)

// TestStopWords: each word is in its line, and the line is taken for what the word tells.
func TestStopWords(t *testing.T) {
	for _, w := range figures.Words {
		if r := parse(w.Line); !strings.Contains(strings.ToLower(w.Line), w.Word) || r.Steps.MaxMemoryBytes != nil {
			t.Errorf("%q is memory of a GPU in spite of %q", w.Line, w.Word)
		}
	}
	for _, test := range []struct {
		what  string
		words []stopWord
		taken func(*Report) bool
	}{
		{"a known line", knownLines, func(r *Report) bool { return r.Steps.Count == 0 && r.Known == 1 }},
		{"an evaluation", results, func(r *Report) bool { return r.Steps.Count == 0 && r.Known == 1 }},
		{"a step", endings, func(r *Report) bool { return r.Steps.Count == 1 }},
	} {
		for _, w := range test.words {
			if !strings.Contains(strings.ToLower(w.line), strings.ToLower(w.word)) || !test.taken(parse(w.line)) {
				t.Errorf("%q isn't %s by %q", w.line, test.what, w.word)
			}
		}
	}
}
