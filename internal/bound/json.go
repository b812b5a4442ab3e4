// Package bound makes answers fit into a number of bytes: JSON by leaving out the ends of
// long lists, lines by leaving out the last ones. What is left out is counted, and told
// with how to ask for it.
//
//	short, err := bound.JSON(document, 10_000)
package bound

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Least is the smallest bound that makes sense, in bytes: an answer in a sentence.
const Least = 1000

// weights say how much longer than other lists the important ones may stay. Lists are in
// order of importance themselves: the worst finding first, the largest site.
var weights = map[string]int64{"command": 50, "findings": 8, "changes": 8, "ooms": 4, "leaks": 4, "next": 4,
	"scenarios": 2}

// whole are lists whose places others refer to: they are cut last.
var whole = map[string]bool{"devices": true, "inputs": true}

// essential are members that an answer can't do without.
var essential = map[string]bool{"schema": true, "verdict": true, "question": true, "answer": true, "recording": true,
	"devices": true, "inputs": true, "findings": true, "changes": true, "peaks": true, "history": true,
	"scenarios": true, "categories": true,
	"peak_bytes": true, "text": true, "title": true}

// asks say how to ask for what a list doesn't show.
var asks = map[string]string{"steps": "explain --step N", "sites": "explain --site FILE:LINE",
	"sites_at_end": "export --table sites", "findings": "explain --finding ID",
	"leaks": "explain --leak N", "ooms": "explain --oom N",
	"evidence": "explain --finding ID", "largest": "export --table allocations",
	"others": "export --table blocks --at-event N", "around": "explain --event N",
	"allocations": "export --table allocations"}

// key is a member's name.
func (n *node) key(i int) string { return strings.Trim(n.keys[i], `"`) }

// LeftOut is what was left out of the lists of one name.
type LeftOut struct {
	Path  string `json:"path"`          // as in devices[].steps
	Items int    `json:"items"`         // that aren't there; 0: the member is null, though it is known
	Ask   string `json:"ask,omitempty"` // "": a larger bound shows it
}

const mostLeftOut = 12 // lists that are named

// node is a JSON value.
type node struct {
	raw     []byte   // of a scalar
	keys    []string // as written, in quotes
	members []*node  // of an object or list
	list    bool
	kept    int // members of a list that stay
	null    bool
	size    int64 // as written
}

// JSON is a document in at most so many bytes, itself where it is no longer. Its lists
// lose their ends, the longest most, and a last member left_out counts what is gone.
func JSON(document []byte, most int64) ([]byte, error) {
	if int64(len(document)) <= most {
		return document, nil
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	root, err := read(d, 0)
	if err != nil {
		return nil, err
	}
	for _, how := range []cutting{{least: 1, rest: 1}, {least: 1, rest: 1, nulls: true}, {least: 1, nulls: true},
		{nulls: true}, {nulls: true, all: true}} {
		if out := how.fit(root, most); out != nil {
			return out, nil
		}
	}
	return nil, &TooLongError{cutting{nulls: true, all: true}.length(root, 0), most}
}

// TooLongError says that a document can't be so short.
type TooLongError struct{ Shortest, Most int64 }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the shortest answer takes %d bytes, not %d", e.Shortest, e.Most)
}

// cutting is how far lists may be cut.
type cutting struct {
	least int  // items that stay of each important list
	rest  int  // items that stay of other lists
	nulls bool // members that aren't essential may go
	all   bool // lists that others refer to are cut, too
}

// fit finds the longest lists that fit; nil: even the shortest don't.
func (c cutting) fit(root *node, most int64) []byte {
	low, high := int64(-1), most // bytes that a list may take; low fits
	for low < high {
		if level := (low + high + 1) / 2; c.length(root, level) <= most {
			low = level
		} else {
			high = level - 1
		}
	}
	if low < 0 {
		return nil
	}
	c.cut(root, "", low, 0)
	var b bytes.Buffer
	root.write(&b)
	if !root.list && root.members != nil {
		b.Truncate(b.Len() - 1)
	}
	b.Write(root.told())
	return b.Bytes()
}

// length is that of what is left when lists may take so many bytes.
func (c cutting) length(root *node, level int64) int64 {
	c.cut(root, "", level, 0)
	n := root.size + int64(len(root.told()))
	if !root.list && root.members != nil {
		n--
	}
	return n
}

// told is the end of a document, which says what was left out of it.
func (root *node) told() []byte {
	if root.list || root.members == nil {
		return []byte("\n")
	}
	gone := map[string]int{}
	var order []string
	root.leftOut("", gone, &order)
	list := []LeftOut{}
	for i, path := range order {
		if i == mostLeftOut {
			list = append(list, LeftOut{Path: fmt.Sprintf("%d others", len(order)-i)})
			break
		}
		key := path[strings.LastIndexByte(path, '.')+1:]
		list = append(list, LeftOut{path, gone[path], asks[key]})
	}
	text, _ := json.Marshal(list)
	comma := ","
	if len(root.members) == 0 {
		comma = ""
	}
	return fmt.Appendf(nil, "%s\"left_out\":%s}\n", comma, text)
}

// cut decides what stays, the inner lists first, and sums up the sizes.
func (c cutting) cut(n *node, key string, level int64, depth int) {
	n.null = false
	switch {
	case n.members == nil:
		n.size = int64(len(n.raw))
		return
	case !n.list:
		n.size = 2 + int64(max(0, len(n.members)-1))
		for i, m := range n.members {
			key := n.key(i)
			c.cut(m, key, level, depth+1)
			if c.nulls && !essential[key] && depth < 4 && m.members != nil && m.size > level {
				m.null, m.size = true, 4
			}
			n.size += int64(len(n.keys[i])) + 1 + m.size
		}
		return
	}
	room := level * max(1, weights[key])
	n.size, n.kept = 1, 0
	least := c.rest
	if weights[key] > 1 {
		least = c.least
	}
	for _, m := range n.members {
		c.cut(m, key, level, depth+1)
		if n.size+m.size > room && n.kept >= least && (c.all || !whole[key]) {
			break
		}
		n.size += m.size + 1
		n.kept++
	}
	n.size += int64(max(0, 1-n.kept)) // the last has no comma behind it
}

func (n *node) write(b *bytes.Buffer) {
	if n.members == nil {
		b.Write(n.raw)
		return
	}
	if n.null {
		b.WriteString("null")
		return
	}
	open, end, count := byte('{'), byte('}'), len(n.members)
	if n.list {
		open, end, count = '[', ']', n.kept
	}
	b.WriteByte(open)
	for i, m := range n.members[:count] {
		if i > 0 {
			b.WriteByte(',')
		}
		if !n.list {
			b.WriteString(n.keys[i])
			b.WriteByte(':')
		}
		m.write(b)
	}
	b.WriteByte(end)
}

// leftOut counts by path what doesn't stay.
func (n *node) leftOut(path string, gone map[string]int, order *[]string) {
	count := func(path string, items int) {
		if !slices.Contains(*order, path) {
			*order = append(*order, path)
		}
		gone[path] += items
	}
	switch {
	case n.members == nil:
	case n.null:
		count(path, 0)
	case n.list:
		if rest := len(n.members) - n.kept; rest > 0 {
			count(path, rest)
		}
		for _, m := range n.members[:n.kept] {
			m.leftOut(path+"[]", gone, order)
		}
	default:
		for i, m := range n.members {
			m.leftOut(strings.TrimPrefix(path+"."+n.key(i), "."), gone, order)
		}
	}
}

// text is a string as JSON, its characters as they are.
func text(s string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxDepth is deeper than any answer.
const maxDepth = 64

// read reads a value.
func read(d *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("offset %d: more than %d values within each other", d.InputOffset(), maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := token.(type) {
	case json.Delim:
		n := &node{list: x == '[', members: []*node{}}
		for d.More() {
			if !n.list {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				raw, err := text(key.(string))
				if err != nil {
					return nil, err
				}
				n.keys = append(n.keys, string(raw))
			}
			m, err := read(d, depth+1)
			if err != nil {
				return nil, err
			}
			n.members = append(n.members, m)
		}
		n.kept = len(n.members)
		_, err = d.Token()
		return n, err
	case string:
		raw, err := text(x)
		return &node{raw: raw}, err
	default:
		raw, err := json.Marshal(x)
		return &node{raw: raw}, err
	}
}

// Lines passes whole lines on up to a number of bytes, and counts the others.
type Lines struct {
	W    io.Writer
	Most int64
	Left int // lines that weren't passed on
	held []byte
	full bool
	part bool // of a line came
}

func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			if !l.full {
				l.held = append(l.held, p...)
			}
			l.full, l.part = l.full || int64(len(l.held)) > l.Most, true
			return n, nil
		}
		if !l.full {
			l.held = append(l.held, p[:end+1]...)
		}
		p = p[end+1:]
		if err := l.pass(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// pass passes a line on, if it fits.
func (l *Lines) pass() error {
	line := l.held
	l.held, l.part = l.held[:0], false
	if l.full || int64(len(line)) > l.Most {
		l.full = true
		l.Left++
		return nil
	}
	l.Most -= int64(len(line))
	_, err := l.W.Write(line)
	return err
}

// Close passes on what has no line's end.
func (l *Lines) Close() error {
	if !l.part {
		return nil
	}
	return l.pass()
}
