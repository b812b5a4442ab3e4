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

// rows takes the rows of a small table value by value, in the order of the
// columns, and hands them to a sink.
type rows struct {
	build    *array.RecordBuilder
	of       fields // build, or a structure within a row
	sink     Sink
	at       int // column of the next value
	held     int // rows
	elements int
	err      error
}

// fields are builders by index.
type fields interface{ FieldBuilder(int) array.Builder }

type recordFields struct{ *array.RecordBuilder }

func (r recordFields) FieldBuilder(i int) array.Builder { return r.Field(i) }

func newRows(t *Table, sink Sink) *rows {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	return &rows{build: b, of: recordFields{b}, sink: sink}
}

// next is the builder of the next value's column.
func (r *rows) next() array.Builder {
	b := r.of.FieldBuilder(r.at)
	r.at++
	return b
}

// end ends a row.
func (r *rows) end() {
	if n := len(r.build.Fields()); r.at != n && r.err == nil {
		r.err = fmt.Errorf("dataset: a row of %d values in a table of %d columns", r.at, n)
	}
	r.at = 0
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

func (r *rows) null()            { r.next().AppendNull() }
func (r *rows) bool(v bool)      { r.next().(*array.BooleanBuilder).Append(v) }
func (r *rows) float(v float64)  { r.next().(*array.Float64Builder).Append(v) }
func (r *rows) address(v uint64) { r.next().(*array.Uint64Builder).Append(v) }
func (r *rows) text(v string)    { appendText(r.next(), v) }

// int appends to any column of integers but addresses.
func (r *rows) int(v int64) {
	switch b := r.next().(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Uint32Builder:
		b.Append(uint32(v))
	default:
		b.(*array.Int64Builder).Append(v)
	}
}

// textOrNull takes an empty text for an unknown one.
func (r *rows) textOrNull(v string) {
	if v == "" {
		r.null()
	} else {
		r.text(v)
	}
}

func (r *rows) intAt(v *int) {
	if v == nil {
		r.null()
	} else {
		r.int(int64(*v))
	}
}

func (r *rows) int64At(v *int64) {
	if v == nil {
		r.null()
	} else {
		r.int(*v)
	}
}

func (r *rows) textAt(v *string) {
	if v == nil {
		r.null()
	} else {
		r.text(*v)
	}
}

// begin begins a list of n elements.
func (r *rows) begin(n int) array.Builder {
	if n > maxElements-elementsPerRecord && r.err == nil {
		r.err = fmt.Errorf("dataset: a list of %d elements is too long for a table", n)
	}
	r.elements += n
	l := r.next().(*array.ListBuilder)
	l.Append(true)
	return l.ValueBuilder()
}

// texts appends a list of texts.
func (r *rows) texts(list []string) {
	b := r.begin(len(list))
	for _, s := range list {
		appendText(b, s)
	}
}

// list appends a list of n structures.
func (r *rows) list(n int, structure func(x *rows, i int)) {
	s := r.begin(n).(*array.StructBuilder)
	if r.err != nil {
		return // nothing will be written
	}
	for i := range n {
		s.Append(true)
		structure(&rows{of: s}, i)
	}
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
