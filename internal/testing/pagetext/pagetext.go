// Package pagetext sets the paragraphs of documents that tests make.
package pagetext

import "strings"

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
