package dataset

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// groupRows is the length of a row group.
const groupRows = 1 << 20

// parquetSink writes a Parquet file.
type parquetSink struct {
	w   *pqarrow.FileWriter
	out *noter
}

func newParquet(w io.Writer, t *Table, schema *arrow.Schema) (Sink, error) {
	o := []parquet.WriterProperty{
		// With version 1 the buffers of levels grow by a page at almost every flush.
		parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithVersion(parquet.V2_LATEST), // keeps unsigned integers of 32 bits as such
		parquet.WithMaxRowGroupLength(groupRows),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(1),
		parquet.WithCreatedBy("vramscope"),
		parquet.WithBatchSize(1 << 30),
	}
	out := &noter{w: w}
	x, err := pqarrow.NewFileWriter(schema, out, parquet.NewWriterProperties(o...), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", t.Name, err)
	}
	return &parquetSink{x, out}, nil
}

func (p *parquetSink) Write(r arrow.Record) error {
	if err := p.w.WriteBuffered(r); err != nil {
		return err
	}
	return p.out.err
}

func (p *parquetSink) Close() error {
	if err := p.w.Close(); err != nil {
		return err
	}
	return p.out.err
}

// noter notes the first error of what it writes to, which the Parquet writer
// may drop, and hides its Close, which it would call.
type noter struct {
	w   io.Writer
	err error
}

func (n *noter) Write(b []byte) (int, error) {
	k, err := n.w.Write(b)
	if n.err == nil {
		n.err = err
	}
	return k, err
}
