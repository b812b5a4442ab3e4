package dataset

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// A record of a table that is made row by row ends after so many rows, or
// elements of lists. Fixed, so that a file's bytes depend on its rows alone.
const (
	rowsPerRecord     = 1 << 16
	elementsPerRecord = 1 << 20
	// maxElements bounds a record's elements with those of its last row.
	maxElements = 1 << 25
)

// rows takes the rows of a small table and hands them to a sink.
type rows struct {
	build    *array.RecordBuilder
	table    *Table
	sink     Sink
	held     int // rows
	elements int
	err      error
}

// list is a value: a list of n structures, by their members.
type list struct {
	n       int
	members func(i int) []any
}

func newRows(t *Table, sink Sink) *rows {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	return &rows{build: b, table: t, sink: sink}
}

// add adds a row.
func (r *rows) add(row any) {
	for i := range r.table.Columns {
		c := &r.table.Columns[i]
		v := c.value(row)
		if c.Null && v == "" {
			v = nil
		}
		r.put(r.build.Field(i), v)
	}
	if r.held++; r.held == rowsPerRecord || r.elements >= elementsPerRecord {
		r.flush()
	}
}

// flush writes what is held and gives the first error of all.
func (r *rows) flush() error {
	if r.held > 0 {
		r.held, r.elements = 0, 0
		record := r.build.NewRecord()
		defer record.Release()
		if r.err == nil {
			r.err = r.sink.Write(record)
		}
	}
	return r.err
}

func (r *rows) release() { r.build.Release() }

// put appends a value.
func (r *rows) put(b array.Builder, v any) {
	switch v := v.(type) {
	case string:
		appendText(b, v)
	case *string:
		putAt(r, b, v)
	case int:
		putInt(b, int64(v))
	case *int:
		putAt(r, b, v)
	case int64:
		putInt(b, v)
	case *int64:
		putAt(r, b, v)
	case uint64:
		b.(*array.Uint64Builder).Append(v)
	case float64:
		b.(*array.Float64Builder).Append(v)
	case *float64:
		putAt(r, b, v)
	case bool:
		b.(*array.BooleanBuilder).Append(v)
	case []string:
		elements := r.begin(b, len(v))
		for _, s := range v {
			appendText(elements, s)
		}
	case list:
		structure := r.begin(b, v.n).(*array.StructBuilder)
		for i := range v.n {
			if r.err != nil {
				return // nothing will be written
			}
			structure.Append(true)
			for k, member := range v.members(i) {
				r.put(structure.FieldBuilder(k), member)
			}
		}
	default:
		b.AppendNull()
	}
}

// putAt appends what v points to.
func putAt[T any](r *rows, b array.Builder, v *T) {
	if v == nil {
		b.AppendNull()
	} else {
		r.put(b, *v)
	}
}

// putInt appends to any column of integers but addresses.
func putInt(b array.Builder, v int64) {
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Uint32Builder:
		b.Append(uint32(v))
	default:
		b.(*array.Int64Builder).Append(v)
	}
}

// begin begins a list of n elements.
func (r *rows) begin(b array.Builder, n int) array.Builder {
	if n > maxElements-elementsPerRecord && r.err == nil {
		r.err = fmt.Errorf("dataset: a list of %d elements is too long for a table", n)
	}
	r.elements += n
	l := b.(*array.ListBuilder)
	l.Append(true)
	return l.ValueBuilder()
}

func appendText(b array.Builder, v string) {
	if b, ok := b.(*array.StringBuilder); ok {
		b.Append(v)
		return
	}
	if err := b.(*array.BinaryDictionaryBuilder).AppendString(v); err != nil {
		panic(err) // 2^31 distinct texts in one record
	}
}
