// Package dataset gives the facts of a recording as tables for other programs:
// one row for each event, allocation, stack, segment or block.
//
//	w, err := dataset.NewWriter(os.Stdout, dataset.JSONL, dataset.Allocations)
//	if err != nil {
//		return err
//	}
//	dataset.WriteAllocations(w, t, nil)
//	return w.Flush()
package dataset

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Format is how a table is written.
type Format uint8

// The formats: one JSON object a line, and RFC 4180 with a header line.
const (
	JSONL Format = iota
	CSV
)

// Table names a table and its columns, in order.
type Table struct {
	Name    string
	Columns []string
}

// Writer writes the rows of one table: a value for every column, in order.
type Writer struct {
	w       *bufio.Writer
	format  Format
	columns []string
	keys    []string // `"name":` for JSONL
	at      int      // column of the next value
	scratch []byte
}

// NewWriter begins a table.
func NewWriter(w io.Writer, format Format, table Table) *Writer {
	x := &Writer{w: bufio.NewWriterSize(w, 1<<16), format: format, columns: table.Columns}
	for i, name := range table.Columns {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		x.keys = append(x.keys, sep+strconv.Quote(name)+":")
	}
	if format == CSV {
		x.w.WriteString(strings.Join(table.Columns, ",") + "\n")
	}
	return x
}

// Flush writes what is buffered and gives the first error of all writing.
func (x *Writer) Flush() error { return x.w.Flush() }

// value writes an encoded value and what stands around it.
func (x *Writer) value(b []byte) {
	if x.format == JSONL {
		x.w.WriteString(x.keys[x.at])
	} else if x.at > 0 {
		x.w.WriteByte(',')
	}
	x.w.Write(b)
	if x.at++; x.at == len(x.columns) {
		x.at = 0
		if x.format == JSONL {
			x.w.WriteByte('}')
		}
		x.w.WriteByte('\n')
	}
}

// Int writes an integer.
func (x *Writer) Int(n int64) {
	x.scratch = strconv.AppendInt(x.scratch[:0], n, 10)
	x.value(x.scratch)
}

// Uint writes an integer that may use all 64 bits, such as an address.
func (x *Writer) Uint(n uint64) {
	x.scratch = strconv.AppendUint(x.scratch[:0], n, 10)
	x.value(x.scratch)
}

// Float writes a number with at most four decimals.
func (x *Writer) Float(f float64) {
	x.scratch = strconv.AppendFloat(x.scratch[:0], float64(int64(f*1e4+0.5))/1e4, 'g', -1, 64)
	x.value(x.scratch)
}

// Bool writes true or false.
func (x *Writer) Bool(b bool) { x.value(strconv.AppendBool(x.scratch[:0], b)) }

// Null writes an unknown value: null, or an empty field.
func (x *Writer) Null() {
	if x.format == JSONL {
		x.value([]byte("null"))
	} else {
		x.value(nil)
	}
}

// Text writes a string.
func (x *Writer) Text(s string) {
	if x.format == CSV {
		x.value(csvField(x.scratch[:0], s))
		return
	}
	if plain(s) {
		x.scratch = append(append(append(x.scratch[:0], '"'), s...), '"')
		x.value(x.scratch)
		return
	}
	b, _ := json.Marshal(s) // a string always can be
	x.value(b)
}

// TextOrNull writes a string, and an empty one as unknown.
func (x *Writer) TextOrNull(s string) {
	if s == "" {
		x.Null()
		return
	}
	x.Text(s)
}

// Object writes a nested value: itself in JSON, its JSON text in CSV.
func (x *Writer) Object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		x.Null()
		return
	}
	if x.format == CSV {
		b = csvField(nil, string(b))
	}
	x.value(b)
}

// plain tells whether a string is its own JSON form.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
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
