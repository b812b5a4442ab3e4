// Package dataset gives the facts of recordings and the judgements of reports
// as tables for other programs: JSON lines, CSV, Arrow streams and Parquet
// files, all from one definition of each table.
//
//	sink, err := dataset.NewSink(w, dataset.Parquet, dataset.Allocations)
//	if err != nil {
//		return err
//	}
//	r := dataset.Recording{Timeline: t, View: view, Classes: classes}
//	if err := r.Write(sink, dataset.Allocations, 0); err != nil {
//		return err
//	}
//	return sink.Close()
package dataset

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// Format is how a table is written.
type Format uint8

// The formats: one JSON object a line, RFC 4180 with a header line, a stream
// of Arrow record batches, a Parquet file.
const (
	JSONL Format = iota
	CSV
	Arrow
	Parquet
	// RawCSV is CSV with texts as they are, also those that a spreadsheet runs.
	RawCSV
)

var formats = [...]string{"jsonl", "csv", "arrow", "parquet", "csv"}

// String is the format's name, and the ending of its files.
func (f Format) String() string { return formats[f] }

// FormatNamed finds a format by its name.
func FormatNamed(name string) (Format, bool) {
	for f, n := range formats {
		if n == name {
			return Format(f), true
		}
	}
	return 0, false
}

// Binary reports whether a terminal can't show the format.
func (f Format) Binary() bool { return f == Arrow || f == Parquet }

// Sink takes the records of one table. A record may be used again once it was
// written.
type Sink interface {
	Write(arrow.Record) error
	// Close writes what ends the table. It doesn't close what is written to.
	Close() error
}

// NewSink begins a table in a format.
func NewSink(w io.Writer, f Format, t *Table) (Sink, error) {
	schema := t.Schema()
	switch f {
	case Arrow:
		return ipc.NewWriter(w, ipc.WithSchema(schema)), nil
	case Parquet:
		return newParquet(w, t, schema)
	case JSONL, CSV, RawCSV:
		return newText(w, f, schema), nil
	}
	return nil, fmt.Errorf("dataset: no format %d", f)
}
