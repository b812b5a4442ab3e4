package read

import (
	"bytes"
	"fmt"
)

// stepTable finds the table that Transformers' Trainer shows in a notebook
// (transformers/utils/notebook.py): a row for each logged step, the first
// column headed Step, the losses beside it.
type stepTable struct {
	tag     []byte
	inTag   bool
	cell    []byte
	inCell  bool
	heading bool
	headers []string
	row     []string
}

const (
	maxCell    = 64 // bytes
	maxColumns = 64
)

// html takes a piece of HTML, which may end anywhere, and hands out a line for
// every row that is a step.
func (t *stepTable) html(text []byte, number int, f lineFunc) {
	for _, c := range text {
		switch {
		case c == '<':
			t.inTag, t.tag = true, t.tag[:0]
		case c == '>' && t.inTag:
			t.inTag = false
			t.close(number, f)
		case t.inTag:
			if len(t.tag) < maxCell {
				t.tag = append(t.tag, c)
			}
		case t.inCell && len(t.cell) < maxCell:
			t.cell = append(t.cell, c)
		}
	}
}

// close acts on a complete tag.
func (t *stepTable) close(number int, f lineFunc) {
	name, _, _ := bytes.Cut(t.tag, []byte(" "))
	switch string(name) {
	case "table":
		t.headers = t.headers[:0]
	case "tr":
		t.row = t.row[:0]
	case "th", "td":
		t.inCell, t.heading, t.cell = true, string(name) == "th", t.cell[:0]
	case "/th", "/td":
		if !t.inCell {
			return
		}
		t.inCell = false
		list := &t.row
		if t.heading {
			list = &t.headers
		}
		if len(*list) < maxColumns {
			*list = append(*list, string(bytes.TrimSpace(t.cell)))
		}
	case "/tr":
		t.step(number, f)
		t.row = t.row[:0]
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
