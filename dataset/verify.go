package dataset

import (
	"fmt"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
)

// verify reads all values of a Parquet file once. The reader panics at damaged
// pages; that of structures does so where nobody can catch it.
func verify(f *file.Reader) error {
	for g := range f.NumRowGroups() {
		r := f.RowGroup(g)
		for c := range r.NumColumns() {
			column, err := r.Column(c)
			if err != nil {
				return err
			}
			if err := drain(column, r.NumRows()); err != nil {
				return fmt.Errorf("row group %d, %s: %w", g, column.Descriptor().Path(), err)
			}
		}
	}
	return nil
}

// drain reads a column chunk to its end.
func drain(column file.ColumnChunkReader, rows int64) error {
	const n = 1024
	definition, repetition := make([]int16, n), make([]int16, n)
	read := func() (int64, int, error) { return 0, 0, fmt.Errorf("of type %s", column.Type()) }
	switch c := column.(type) {
	case *file.BooleanColumnChunkReader:
		values := make([]bool, n)
		read = func() (int64, int, error) { return c.ReadBatch(n, values, definition, repetition) }
	case *file.Int32ColumnChunkReader:
		values := make([]int32, n)
		read = func() (int64, int, error) { return c.ReadBatch(n, values, definition, repetition) }
	case *file.Int64ColumnChunkReader:
		values := make([]int64, n)
		read = func() (int64, int, error) { return c.ReadBatch(n, values, definition, repetition) }
	case *file.Float64ColumnChunkReader:
		values := make([]float64, n)
		read = func() (int64, int, error) { return c.ReadBatch(n, values, definition, repetition) }
	case *file.ByteArrayColumnChunkReader:
		values := make([]parquet.ByteArray, n)
		read = func() (int64, int, error) { return c.ReadBatch(n, values, definition, repetition) }
	}
	repeated := column.Descriptor().MaxRepetitionLevel() > 0
	var seen int64
	for column.HasNext() {
		total, _, err := read()
		if err != nil {
			return err
		}
		if total == 0 {
			break
		}
		for i := range total {
			if !repeated || repetition[i] == 0 {
				seen++
			}
		}
	}
	if err := column.Err(); err != nil {
		return err
	}
	if seen != rows {
		return fmt.Errorf("%d rows of %d", seen, rows)
	}
	return nil
}
