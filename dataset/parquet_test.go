package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// every has a column of every type that pages are made of, known and not.
var every = func() *Table {
	t := &Table{Name: "every", Version: "every/1", Doc: "test"}
	for _, typ := range []arrow.DataType{int32s, uint32s, int64s, uint64s, float, codes, numbers, words, boolean, text} {
		for _, null := range []bool{false, true} {
			t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("%d %v", len(t.Columns), typ), Type: typ, Doc: "test", Null: null})
		}
	}
	for _, typ := range []arrow.DataType{text, float, arrow.StructOf(required("a", words), optional("b", int64s), required("c", boolean), optional("d", text), optional("e", words))} {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("%d lists of %v", len(t.Columns), typ), Type: listOf(typ), Doc: "test"})
	}
	return t
}()

// columnShapes are values that the encodings treat differently.
var columnShapes = map[string]func(r *rand.Rand, i int) uint64{
	"constant": func(_ *rand.Rand, _ int) uint64 { return 7 },
	"rising":   func(r *rand.Rand, i int) uint64 { return uint64(i)*5 + r.Uint64N(4) },
	"wrapping": func(_ *rand.Rand, i int) uint64 { return uint64(i) * 0x3fff_ffff_ffff_fff1 },
	"steps":    func(_ *rand.Rand, i int) uint64 { return uint64(i / 50) },
	"any":      func(r *rand.Rand, _ int) uint64 { return r.Uint64() },
	"extremes": func(r *rand.Rand, _ int) uint64 {
		return []uint64{0, 1, math.MaxUint64, math.MaxInt64, 1 << 63, math.MaxInt32, 1 << 31}[r.IntN(7)]
	},
}

// appendAny appends a value to a column.
func appendAny(b array.Builder, v uint64) {
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Uint32Builder:
		b.Append(uint32(v))
	case *array.Int64Builder:
		b.Append(int64(v))
	case *array.Uint64Builder:
		b.Append(v)
	case *array.Float64Builder:
		b.Append(float64(v))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(fmt.Sprint("word ", v%200)); err != nil {
			panic(err)
		}
	case *array.BooleanBuilder:
		b.Append(v%3 == 0)
	case *array.StringBuilder:
		b.Append(fmt.Sprint("text ", v))
	case *array.ListBuilder:
		b.Append(true)
		for i := range v % 4 {
			appendElement(b.ValueBuilder(), v>>2+i)
		}
	}
}

// appendElement appends a value to a list; structures' optional fields are
// unknown in some.
func appendElement(b array.Builder, v uint64) {
	s, ok := b.(*array.StructBuilder)
	if !ok {
		appendAny(b, v)
		return
	}
	s.Append(true)
	for i := range s.NumField() {
		if s.Type().(*arrow.StructType).Field(i).Nullable && (v+uint64(i))%3 == 0 {
			s.FieldBuilder(i).AppendNull()
		} else {
			appendAny(s.FieldBuilder(i), v)
		}
	}
}

// TestPages writes columns of all types, shapes and lengths, and has the
// library read them.
func TestPages(t *testing.T) {
	unknown := map[string]func(r *rand.Rand, i int) bool{
		"all known":    func(*rand.Rand, int) bool { return false },
		"none known":   func(*rand.Rand, int) bool { return true },
		"some unknown": func(r *rand.Rand, _ int) bool { return r.IntN(3) == 0 },
	}
	for shape, value := range columnShapes {
		for holes, null := range unknown {
			t.Run(shape+"/"+holes, func(t *testing.T) {
				var groups []arrow.Record
				for _, rows := range []int{1, 2, 7, 8, 9, 31, 32, 33, 128, 129, 130, 1000} {
					record := someRows(rows, value, null)
					groups = append(groups, record, record.NewSlice(int64(rows/3), int64(rows)))
				}
				checkPages(t, groups)
			})
		}
	}
}

// someRows are rows of every column.
func someRows(rows int, value func(*rand.Rand, int) uint64, null func(*rand.Rand, int) bool) arrow.Record {
	r := rand.New(rand.NewPCG(1, uint64(rows)))
	b := array.NewRecordBuilder(memory.DefaultAllocator, every.Schema())
	defer b.Release()
	for k, c := range every.Columns {
		for i := range rows {
			if c.Null && null(r, i) {
				b.Field(k).AppendNull()
			} else {
				appendAny(b.Field(k), value(r, i))
			}
		}
	}
	return b.NewRecord()
}

// checkPages writes row groups and reads them back.
func checkPages(t *testing.T, groups []arrow.Record) {
	t.Helper()
	var out bytes.Buffer
	sink, err := NewSink(&out, Parquet, every)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if err := sink.Write(g); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	read, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 100}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	for g, want := range groups {
		records, err := read.GetRecordReader(t.Context(), nil, []int{g})
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		for records.Next() {
			got := records.Record()
			for k, column := range got.Columns() {
				part := array.NewSlice(want.Column(k), at, min(at+got.NumRows(), want.NumRows()))
				if !array.Equal(column, part) && !slices.Equal(allOf(column), allOf(part)) { // or their dictionaries differ
					t.Fatalf("group %d of %d rows, %s: other values", g, want.NumRows(), every.Columns[k].Name)
				}
			}
			at += got.NumRows()
		}
		if err := records.Err(); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if at != want.NumRows() {
			t.Fatalf("group %d: %d rows of %d", g, at, want.NumRows())
		}
		for k, c := range every.Columns {
			if c.Type.ID() != arrow.LIST {
				checkStatistics(t, f.RowGroup(g), k, want.Column(k))
			}
		}
	}
}

// allOf are the values of an array, unknown ones too.
func allOf(a arrow.Array) (texts []string) {
	for i := range a.Len() {
		texts = append(texts, a.ValueStr(i))
	}
	return texts
}

// checkStatistics compares what is said of a column chunk with its values.
func checkStatistics(t *testing.T, group *file.RowGroupReader, k int, a arrow.Array) {
	t.Helper()
	meta, err := group.MetaData().ColumnChunk(k)
	if err != nil {
		t.Fatal(err)
	}
	s, err := meta.Statistics()
	if err != nil {
		t.Fatal(err)
	}
	if s.NullCount() != int64(a.NullN()) || s.HasMinMax() != (a.NullN() < a.Len()) {
		t.Fatalf("column %d: %d unknown of %d, bounds %v", k, s.NullCount(), a.NullN(), s.HasMinMax())
	}
	if !s.HasMinMax() {
		return
	}
	var want string
	switch a := a.(type) {
	case *array.Int32:
		want = bounds(a, a.Value)
	case *array.Uint32:
		want = bounds(a, a.Value)
	case *array.Int64:
		want = bounds(a, a.Value)
	case *array.Uint64:
		want = bounds(a, a.Value)
	case *array.Float64:
		want = bounds(a, a.Value)
	case *array.Boolean:
		want = bounds(a, func(i int) string { return fmt.Sprint(a.Value(i)) })
	case *array.String:
		want = bounds(a, a.Value)
	case *array.Dictionary:
		want = bounds(a, a.ValueStr)
	}
	if got := noted(s, a.DataType()); got != want {
		t.Errorf("column %d, %v: bounds %s, want %s", k, a.DataType(), got, want)
	}
}

// bounds are the least and the largest of the known values.
func bounds[T cmp.Ordered](a arrow.Array, value func(int) T) string {
	var known []T
	for i := range a.Len() {
		if a.IsValid(i) {
			known = append(known, value(i))
		}
	}
	return fmt.Sprint(slices.Min(known), " ", slices.Max(known))
}

// noted are the bounds in a file.
func noted(s metadata.TypedStatistics, t arrow.DataType) string {
	switch s := s.(type) {
	case *metadata.Int32Statistics:
		if t == uint32s {
			return fmt.Sprint(uint32(s.Min()), " ", uint32(s.Max()))
		}
		return fmt.Sprint(s.Min(), " ", s.Max())
	case *metadata.Int64Statistics:
		if t == uint64s {
			return fmt.Sprint(uint64(s.Min()), " ", uint64(s.Max()))
		}
		return fmt.Sprint(s.Min(), " ", s.Max())
	case *metadata.Float64Statistics: // a least of 0 is noted as -0, a largest as 0
		return fmt.Sprint(s.Min()+0, " ", s.Max()+0)
	case *metadata.BooleanStatistics:
		return fmt.Sprint(s.Min(), " ", s.Max())
	case *metadata.ByteArrayStatistics:
		return fmt.Sprint(string(s.Min()), " ", string(s.Max()))
	}
	return fmt.Sprintf("%T", s)
}
