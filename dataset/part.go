package dataset

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
)

// Part is a Parquet file that an Appender wrote, in memory.
type Part struct {
	table   *Table
	records []arrow.Record
	first   []int // row of the whole that each record begins with
	runs    []string
	rows    map[string][]int
}

// OpenPart reads a Parquet file that an Appender wrote.
func OpenPart(t *Table, r parquet.ReaderAtSeeker) (p *Part, err error) {
	defer func() {
		if x := recover(); x != nil { // the reader panics at some files that aren't whole
			err = fmt.Errorf("not to be read: %v", x)
		}
		if err != nil {
			p, err = nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}()
	f, err := file.NewParquetReader(r)
	if err != nil {
		return nil, err
	}
	if err := sameSchema(t, f); err != nil {
		return nil, err
	}
	p = &Part{table: t, rows: map[string][]int{}}
	n := 0
	for g := range f.NumRowGroups() {
		record, err := readGroup(t, f.RowGroup(g))
		if err != nil {
			return nil, fmt.Errorf("row group %d, %w", g, err)
		}
		p.index(record, n)
		n += int(record.NumRows())
	}
	if int64(n) != f.NumRows() {
		return nil, fmt.Errorf("%d rows of %d", n, f.NumRows())
	}
	return p, nil
}

// sameSchema compares a file's schemas with those that this version writes. The
// reader would believe whatever they say, lengths included.
func sameSchema(t *Table, f *file.Reader) error {
	metadata := f.MetaData().KeyValueMetadata()
	if version := metadata.FindValue(schemaKey); version == nil || *version != t.Version {
		return fmt.Errorf("its schema isn't %s, which this version writes", t.Version)
	}
	var b bytes.Buffer
	sink, err := NewSink(&b, Parquet, t)
	if err != nil {
		return err
	}
	if err := sink.Close(); err != nil {
		return err
	}
	empty, err := file.NewParquetReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		return err
	}
	got, want := metadata.FindValue(arrowKey), empty.MetaData().KeyValueMetadata().FindValue(arrowKey)
	if got == nil || *got != *want || !f.MetaData().Schema.Equals(empty.MetaData().Schema) {
		return fmt.Errorf("its columns aren't those that this version writes")
	}
	return nil
}

// index notes the runs of a record's rows.
func (p *Part) index(record arrow.Record, first int) {
	p.records, p.first = append(p.records, record), append(p.first, first)
	names := record.Column(0).(*array.Dictionary)
	for i := range int(record.NumRows()) {
		run := wordAt(names, i)
		if _, seen := p.rows[run]; !seen {
			p.runs = append(p.runs, run)
		}
		p.rows[run] = append(p.rows[run], first+i)
	}
}

// Runs are the names of the runs, in the order of the file.
func (p *Part) Runs() []string { return p.runs }

// at finds a row of the whole.
func (p *Part) at(i int) (arrow.Record, int) {
	k := sort.SearchInts(p.first, i+1) - 1
	return p.records[k], i - p.first[k]
}
