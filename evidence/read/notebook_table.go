package read

import (
	"bytes"
	"fmt"

	"github.com/vramscope/vramscope/internal/pattern"
)

// stepTable finds the table that Transformers' Trainer shows in a notebook
// (transformers/utils/notebook.py): a row for each logged step, the first
// column headed Step, the losses beside it.
type stepTable struct {
	headers []string
	row     []string
}

const maxColumns = 64

// ofTable is a tag of a table with the text behind it, which tags of how it looks may stand around.
var ofTable = pattern.Of(`<(table|tr|/tr|th|td)(?:\s[^>]*)?>(?:\s*<(?:b|i|strong|em|span|code|p)(?:\s[^>]*)?>)*([^<]{0,64})`)

// html takes a piece of HTML, and hands out a line for every row that is a step.
func (t *stepTable) html(text []byte, number int, f lineFunc) {
	for _, m := range ofTable().FindAllSubmatch(text, -1) {
		cell := string(bytes.TrimSpace(m[2]))
		switch name := string(m[1]); {
		case name == "table":
			t.headers = t.headers[:0]
		case name == "tr":
			t.row = t.row[:0]
		case name == "/tr":
			t.step(number, f)
			t.row = t.row[:0]
		case name == "th" && len(t.headers) < maxColumns:
			t.headers = append(t.headers, cell)
		case name == "td" && len(t.row) < maxColumns:
			t.row = append(t.row, cell)
		}
	}
}

// step writes a row as the line that a trainer would have printed.
func (t *stepTable) step(number int, f lineFunc) {
	if len(t.row) < 2 || len(t.row) != len(t.headers) || t.headers[0] != "Step" {
		return
	}
	for i, h := range t.headers {
		if h == "Training Loss" || h == "Loss" || h == "loss" {
			f(number, fmt.Appendf(nil, "step %s | loss %s", t.row[0], t.row[i]))
			return
		}
	}
}
