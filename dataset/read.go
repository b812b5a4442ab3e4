package dataset

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
)

// readGroup reads a row group of a file whose schema is the table's.
func readGroup(t *Table, g *file.RowGroupReader) (arrow.Record, error) {
	if g.NumRows() > rowsPerRecord {
		return nil, fmt.Errorf("%d rows in a group", g.NumRows())
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	defer b.Release()
	columns := 0
	next := func(visit func(e entry) error) error {
		column, err := g.Column(columns)
		if err != nil {
			return err
		}
		columns++
		rows := int64(0)
		err = entries(column, func(e entry) error {
			if e.repetition == 0 {
				rows++
			}
			return visit(e)
		})
		if err == nil && rows != g.NumRows() {
			err = fmt.Errorf("%d rows of %d", rows, g.NumRows())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", column.Descriptor().Path(), err)
		}
		return nil
	}
	for _, f := range b.Fields() {
		var err error
		if list, ok := f.(*array.ListBuilder); ok {
			err = readList(list, next)
		} else {
			err = next(func(e entry) error {
				e.appendTo(f)
				return nil
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return b.NewRecord(), nil
}

// readList reads a list's column, or all columns of a list of structures. Each
// of them tells the lists apart; the first one is believed.
func readList(list *array.ListBuilder, next func(visit func(e entry) error) error) error {
	elements := list.ValueBuilder()
	structures, ok := elements.(*array.StructBuilder)
	fields := []array.Builder{elements}
	if ok {
		fields = fields[:0]
		for i := range structures.NumField() {
			fields = append(fields, structures.FieldBuilder(i))
		}
	}
	for i, f := range fields {
		err := next(func(e entry) error {
			if e.repetition == 0 && i == 0 {
				list.Append(true)
			}
			switch {
			case e.definition == 0: // a list without elements
				return nil
			case e.definition == 1:
				return errors.New("an element that is unknown")
			case i == 0 && structures != nil:
				structures.Append(true)
			}
			e.appendTo(f)
			return nil
		})
		if err == nil && f.Len() != elements.Len() {
			err = fmt.Errorf("%d values in %d structures", f.Len(), elements.Len())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry is a value of a column, or that there is none.
type entry struct {
	repetition, definition int16
	value                  func(array.Builder) // appends the value; nil: it is unknown
}

func (e entry) appendTo(b array.Builder) {
	if e.value == nil {
		b.AppendNull()
	} else {
		e.value(b)
	}
}

// entries reads a column chunk to its end.
func entries(column file.ColumnChunkReader, visit func(e entry) error) error {
	switch c := column.(type) {
	case *file.BooleanColumnChunkReader:
		return visitAll(c, c.ReadBatch, visit, func(b array.Builder, v bool) { b.(*array.BooleanBuilder).Append(v) })
	case *file.Int32ColumnChunkReader:
		return visitAll(c, c.ReadBatch, visit, func(b array.Builder, v int32) {
			if b, ok := b.(*array.Uint32Builder); ok {
				b.Append(uint32(v))
				return
			}
			b.(*array.Int32Builder).Append(v)
		})
	case *file.Int64ColumnChunkReader:
		return visitAll(c, c.ReadBatch, visit, func(b array.Builder, v int64) {
			if b, ok := b.(*array.Uint64Builder); ok {
				b.Append(uint64(v))
				return
			}
			b.(*array.Int64Builder).Append(v)
		})
	case *file.Float64ColumnChunkReader:
		return visitAll(c, c.ReadBatch, visit, func(b array.Builder, v float64) { b.(*array.Float64Builder).Append(v) })
	case *file.ByteArrayColumnChunkReader:
		return visitAll(c, c.ReadBatch, visit, func(b array.Builder, v parquet.ByteArray) { appendText(b, string(v)) })
	}
	return fmt.Errorf("of type %s", column.Type())
}

// visitAll visits the values of a column chunk, batch by batch.
func visitAll[T any](column file.ColumnChunkReader, read func(n int64, values []T, definition, repetition []int16) (int64, int, error),
	visit func(e entry) error, appendTo func(b array.Builder, v T)) error {
	const n = 1024
	values, definition, repetition := make([]T, n), make([]int16, n), make([]int16, n)
	most := column.Descriptor().MaxDefinitionLevel()
	for left := maxElements + rowsPerRecord; column.HasNext(); {
		total, _, err := read(n, values, definition, repetition)
		if err != nil {
			return err
		}
		if total == 0 {
			break
		}
		if left -= int(total); left < 0 {
			return errors.New("more elements than a table has")
		}
		known := 0
		for i := range total {
			e := entry{}
			if most > 0 {
				e.definition = definition[i]
			}
			if column.Descriptor().MaxRepetitionLevel() > 0 {
				e.repetition = repetition[i]
			}
			if e.definition == most {
				v := values[known]
				known++
				e.value = func(b array.Builder) { appendTo(b, v) }
			}
			if err := visit(e); err != nil {
				return err
			}
		}
	}
	return column.Err()
}
