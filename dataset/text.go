package dataset

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// textSink writes JSON lines or CSV.
type textSink struct {
	w      io.Writer
	format Format
	keys   [][]byte // what stands before each column's value
	end    string   // of a row
	buffer []byte
}

// flushAt is how much text is held before it is written.
const flushAt = 1 << 16

func newText(w io.Writer, f Format, schema *arrow.Schema) *textSink {
	x := &textSink{w: w, format: f, end: "\n"}
	var names []string
	for i, field := range schema.Fields() {
		key := ""
		if i > 0 {
			key = ","
		}
		if f == JSONL {
			key = "{,"[min(i, 1):min(i, 1)+1] + strconv.Quote(field.Name) + ":"
		}
		names, x.keys = append(names, field.Name), append(x.keys, []byte(key))
	}
	if f == JSONL {
		x.end = "}\n"
	} else {
		x.buffer = append(x.buffer, strings.Join(names, ",")+"\n"...)
	}
	return x
}

func (x *textSink) Write(r arrow.Record) error {
	columns := make([]cell, r.NumCols())
	for i, c := range r.Columns() {
		columns[i] = x.column(c)
	}
	for row := range int(r.NumRows()) {
		for i, c := range columns {
			x.buffer = c(append(x.buffer, x.keys[i]...), row)
		}
		if x.buffer = append(x.buffer, x.end...); len(x.buffer) >= flushAt {
			if err := x.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close writes what is held.
func (x *textSink) Close() error {
	_, err := x.w.Write(x.buffer)
	x.buffer = x.buffer[:0]
	return err
}

// cell appends the text of one row's value.
type cell func(b []byte, row int) []byte

// column is what writes a column's values: null, or an empty field, where they
// are unknown.
func (x *textSink) column(a arrow.Array) cell {
	value := x.values(a)
	if a.NullN() == 0 {
		return value
	}
	null := "null"
	if x.format != JSONL {
		null = ""
	}
	return func(b []byte, row int) []byte {
		if a.IsNull(row) {
			return append(b, null...)
		}
		return value(b, row)
	}
}

func (x *textSink) values(a arrow.Array) cell {
	switch a := a.(type) {
	case *array.Int32:
		return func(b []byte, row int) []byte { return strconv.AppendInt(b, int64(a.Value(row)), 10) }
	case *array.Int64:
		return func(b []byte, row int) []byte { return strconv.AppendInt(b, a.Value(row), 10) }
	case *array.Uint32:
		return func(b []byte, row int) []byte { return strconv.AppendUint(b, uint64(a.Value(row)), 10) }
	case *array.Uint64:
		return func(b []byte, row int) []byte { return strconv.AppendUint(b, a.Value(row), 10) }
	case *array.Float64:
		return func(b []byte, row int) []byte { return strconv.AppendFloat(b, a.Value(row), 'g', -1, 64) }
	case *array.Boolean:
		return func(b []byte, row int) []byte { return strconv.AppendBool(b, a.Value(row)) }
	case *array.String:
		return func(b []byte, row int) []byte { return x.quote(b, a.Value(row)) }
	case *array.Dictionary:
		return x.words(a)
	}
	value := nested(a)
	if x.format == JSONL {
		return value
	}
	return func(b []byte, row int) []byte { return csvField(b, string(value(nil, row))) } // JSON has no character that steers
}

// words quotes each entry of a dictionary once.
func (x *textSink) words(a *array.Dictionary) cell {
	entries := a.Dictionary().(*array.String)
	quoted := make([][]byte, entries.Len())
	return func(b []byte, row int) []byte {
		i := a.GetValueIndex(row)
		if quoted[i] == nil {
			quoted[i] = x.quote([]byte{}, entries.Value(i))
		}
		return append(b, quoted[i]...)
	}
}

// nested is what writes lists and structures, as JSON in both formats.
func nested(a arrow.Array) cell {
	inner := textSink{format: JSONL}
	if list, ok := a.(*array.List); ok {
		element := inner.column(list.ListValues())
		return func(b []byte, row int) []byte {
			b = append(b, '[')
			start, end := list.ValueOffsets(row)
			for i := start; i < end; i++ {
				if i > start {
					b = append(b, ',')
				}
				b = element(b, int(i))
			}
			return append(b, ']')
		}
	}
	s := a.(*array.Struct)
	head := newText(nil, JSONL, arrow.NewSchema(s.DataType().(*arrow.StructType).Fields(), nil)).keys
	members := make([]cell, s.NumField())
	for i := range members {
		members[i] = inner.column(s.Field(i))
	}
	return func(b []byte, row int) []byte {
		for i, m := range members {
			b = m(append(b, head[i]...), row)
		}
		return append(b, '}')
	}
}

// quote writes a text as the format wants it.
func (x *textSink) quote(b []byte, s string) []byte {
	switch x.format {
	case CSV:
		return csvField(b, inert(s))
	case RawCSV:
		return csvField(b, s)
	}
	if plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	q, _ := json.Marshal(s) // a string always can be
	return append(b, q...)
}

// plain reports whether a string is its own JSON form.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// inert is a text that no spreadsheet takes for a formula, by an apostrophe in front, and no
// terminal for a command. Lines and columns stay.
func inert(s string) string {
	commands := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(s, commands) >= 0 {
		var b strings.Builder
		for _, r := range s {
			if commands(r) {
				fmt.Fprintf(&b, `\x%02x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	if first := strings.TrimLeft(s, " \t\n"); first != "" && strings.IndexByte("=+-@", first[0]) >= 0 {
		return "'" + s
	}
	return s
}

// csvField quotes where RFC 4180 asks for it.
func csvField(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(b, s...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(s, `"`, `""`)...)
	return append(b, '"')
}
