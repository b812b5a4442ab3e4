// Package bound makes answers fit into a number of bytes: JSON by leaving out the ends of
// long lists, lines by leaving out the last ones. What is left out is counted, and told
// with how to ask for it.
//
//	short, err := bound.JSON(document, 10_000)
package bound

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// Least is the smallest bound that makes sense, in bytes: an answer in a sentence.
const Least = 1000

// weights are eighths of an item that a list gets at each level; others get one. Lists are
// in order of importance themselves: the worst finding first, the largest site.
var weights = map[string]int{"command": 50, "findings": 8, "changes": 8, "ooms": 4, "leaks": 4, "next": 4, "causes": 4,
	"evidence": 2, "scenarios": 2}

// nullFrom is how long a member may be at each level before it is dropped, in bytes.
const nullFrom = 16

// whole are lists whose places others refer to: they are cut last.
var whole = map[string]bool{"devices": true, "inputs": true}

// essential are members that an answer can't do without.
var essential = map[string]bool{"schema": true, "verdict": true, "question": true, "answer": true, "recording": true,
	"devices": true, "inputs": true, "findings": true, "changes": true, "peaks": true, "history": true,
	"scenarios": true, "categories": true}

// asks say how to ask for what a list doesn't show.
var asks = map[string]string{"steps": "explain --step N", "sites": "explain --site FILE:LINE",
	"sites_at_end": "export --table sites", "findings": "explain --finding ID",
	"leaks": "explain --leak N", "ooms": "explain --oom N",
	"evidence": "explain --finding ID", "largest": "export --table allocations",
	"others": "export --table blocks --at-event N", "around": "explain --event N",
	"allocations": "export --table allocations"}

// LeftOut is what was left out of the lists of one name.
type LeftOut struct {
	Path  string `json:"path"`          // as in devices[].steps
	Items int    `json:"items"`         // that aren't there; 0: the member is null, though it is known
	Ask   string `json:"ask,omitempty"` // "": a larger bound shows it
}

const mostLeftOut = 12 // lists that are named

// JSON is a document, a structure, in at most so many bytes, as it is where it is no longer. Its
// lists lose their ends, and a last member left_out counts what is gone.
func JSON(document any, most int64) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil || int64(b.Len()) <= most {
		return b.Bytes(), err
	}
	var shortest []byte
	for _, how := range []fitting{{level: 8}, {nulls: true}, {nulls: true, all: true}} { // first with an item of each list
		if shortest = how.written(document); int64(len(shortest)) <= most {
			return how.longest(document, most), nil
		}
	}
	return nil, &TooLongError{int64(len(shortest)), most}
}

// TooLongError says that a document can't be so short.
type TooLongError struct{ Shortest, Most int64 }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the shortest answer takes %d bytes, not %d", e.Shortest, e.Most)
}

// fitting is how far lists are cut, and what is gone then.
type fitting struct {
	level int  // eighths of an item that stay of each list
	nulls bool // members that aren't essential may go
	all   bool // lists that others refer to are cut, too
	gone  []LeftOut
}

// longest has the lists as long as fits.
func (f fitting) longest(document any, most int64) (out []byte) {
	longer := func(level int) bool {
		f.level = level
		text := f.written(document)
		if int64(len(text)) > most {
			return true
		}
		out = text
		return false
	}
	top := max(1, f.level)
	for top < 1<<30 && !longer(top) {
		top *= 2
	}
	longer(sort.Search(top, longer) - 1)
	return out
}

// written is a document of a level as JSON, with what was left out at its end.
func (f fitting) written(document any) []byte {
	f.gone = []LeftOut{} // a list, also where only indentation went
	text := f.value(reflect.ValueOf(document), "", 0)
	for i := range f.gone {
		f.gone[i].Ask = asks[nameOf(f.gone[i].Path)]
	}
	slices.SortStableFunc(f.gone, func(a, b LeftOut) int { return cmp.Compare(min(1, len(b.Ask)), min(1, len(a.Ask))) })
	if n, most := len(f.gone), min(mostLeftOut, 3+f.level); n > most {
		f.gone = append(f.gone[:most], LeftOut{Path: fmt.Sprintf("%d others", n-most)})
	}
	return fmt.Appendf(text[:len(text)-1], ",\"left_out\":%s}\n", marshal(f.gone))
}

// nameOf is the last name of a path.
func nameOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // the whole document was written before
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// value is a value as JSON, its lists cut.
func (f *fitting) value(v reflect.Value, path string, depth int) []byte {
	kind := v.Kind()
	switch {
	case (kind == reflect.Pointer || kind == reflect.Interface) && !v.IsNil():
		return f.value(v.Elem(), path, depth)
	case kind == reflect.Struct && !v.Type().Implements(marshals) && !reflect.PointerTo(v.Type()).Implements(marshals):
		return append(append([]byte("{"), bytes.TrimPrefix(f.members(v, path, depth), []byte(","))...), '}')
	case kind == reflect.Slice && !v.IsNil():
		switch v.Type().Elem().Kind() {
		case reflect.Struct, reflect.Pointer, reflect.String:
			return f.list(v, path, depth)
		}
	}
	if kind == reflect.Invalid {
		return []byte("null")
	}
	return marshal(v.Interface())
}

var marshals = reflect.TypeFor[json.Marshaler]()

// members are those of an object, each behind a comma; what is too long and not essential is null.
func (f *fitting) members(v reflect.Value, path string, depth int) (out []byte) {
	for i := range v.NumField() {
		field, member := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && embeds(field):
			if member = reflect.Indirect(member); member.IsValid() { // a nil pointer has no members
				out = append(out, f.members(member, path, depth)...)
			}
			continue
		case !field.IsExported() || omitted(field, member):
			continue
		}
		name = cmp.Or(name, field.Name)
		before, path := len(f.gone), strings.TrimPrefix(path+"."+name, ".")
		text := f.value(member, path, depth+1)
		if f.nulls && depth < 4 && !essential[name] && strings.ContainsRune("{[", rune(text[0])) &&
			len(text) > nullFrom*max(4, f.level) {
			text, f.gone = []byte("null"), f.gone[:before]
			f.left(path, 0)
		}
		out = append(fmt.Appendf(out, ",%q:", name), text...)
	}
	return out
}

// embeds reports whether a field's members are written as its structure's own.
func embeds(field reflect.StructField) bool {
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return field.Anonymous && t.Kind() == reflect.Struct
}

// omitted reports whether encoding/json leaves a member out: it is asked with a structure of that member alone.
func omitted(field reflect.StructField, v reflect.Value) bool {
	tag := field.Tag.Get("json")
	if !strings.Contains(tag, ",omit") {
		return tag == "-"
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: field.Type, Tag: field.Tag}})).Elem()
	alone.Field(0).Set(v)
	return string(marshal(alone.Interface())) == "{}"
}

func (f *fitting) list(v reflect.Value, path string, depth int) []byte {
	n, name := v.Len(), nameOf(path)
	if most := f.level * max(1, weights[name]) / 8; n > most && (!whole[name] || f.all) {
		f.left(path, n-most)
		n = most
	}
	out := []byte("[")
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, f.value(v.Index(i), path+"[]", depth+1)...)
	}
	return append(out, ']')
}

// left counts what is gone of a list; of a member that is null, 0.
func (f *fitting) left(path string, items int) {
	i := slices.IndexFunc(f.gone, func(x LeftOut) bool { return x.Path == path })
	if i >= 0 {
		f.gone[i].Items += items
	} else {
		f.gone = append(f.gone, LeftOut{Path: path, Items: items})
	}
}

// Lines passes whole lines on up to a number of bytes, and counts the others.
type Lines struct {
	W    io.Writer
	Most int64
	Left int    // lines that weren't passed on
	held []byte // of a line that has no end yet
}

func (l *Lines) Write(p []byte) (int, error) {
	l.held = append(l.held, p...)
	for end := bytes.IndexByte(l.held, '\n'); end >= 0; end = bytes.IndexByte(l.held, '\n') {
		if err := l.pass(l.held[:end+1]); err != nil {
			return 0, err
		}
		l.held = l.held[end+1:]
	}
	if int64(len(l.held)) > l.Most { // it's enough to know that there is a line
		l.held, l.Most = l.held[:1], 0
	}
	return len(p), nil
}

// pass passes a line on, if it fits; none after one that doesn't.
func (l *Lines) pass(line []byte) error {
	if int64(len(line)) > l.Most {
		l.Left++
		l.Most = 0
		return nil
	}
	l.Most -= int64(len(line))
	_, err := l.W.Write(line)
	return err
}

// Close passes on what has no line's end.
func (l *Lines) Close() error {
	if len(l.held) == 0 {
		return nil
	}
	return l.pass(l.held)
}
