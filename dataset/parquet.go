package dataset

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// pageBytes bounds a page before compression. Every page has its own
// compressor, so that small ones cost more than what is in them.
const pageBytes = 4 << 20

// parquetSink writes tables with lists or flags: a row group for every record,
// column by column, so that no more than a column's pages are held.
type parquetSink struct {
	w   *pqarrow.FileWriter
	out *noter
}

// arrowProperties keep dictionaries, units and meanings.
var arrowProperties = pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema())

// commonProperties are those of all Parquet files.
func commonProperties() []parquet.WriterProperty {
	return []parquet.WriterProperty{
		// With version 1 the buffers of levels grow by a page at almost every flush.
		parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithVersion(parquet.V2_LATEST), // keeps unsigned integers of 32 bits as such
		parquet.WithCreatedBy("vramscope"),
	}
}

func newParquet(w io.Writer, t *Table, schema *arrow.Schema) (Sink, error) {
	if isFlat(t) {
		return newFlat(w, t, schema)
	}
	o := append(commonProperties(), parquet.WithDataPageSize(pageBytes), parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1))
	batch := int64(batchRows)
	for _, c := range t.Columns {
		switch {
		case c.Type.ID() == arrow.LIST:
			batch = maxElements
		case c.Type.ID() == arrow.DICTIONARY:
		default:
			// As they are in memory: the compressor finds what repeats faster than a
			// dictionary does, and better.
			o = append(o, parquet.WithDictionaryFor(c.Name, false))
		}
	}
	// The writer looks at pages' sizes between batches, and cuts lists of
	// dictionaries, and any list longer than a batch, at the wrong places.
	o = append(o, parquet.WithBatchSize(batch))
	out := &noter{w: w}
	x, err := pqarrow.NewFileWriter(schema, out, parquet.NewWriterProperties(o...), arrowProperties)
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", t.Name, err)
	}
	return &parquetSink{x, out}, nil
}

func (p *parquetSink) Write(r arrow.Record) error {
	if err := p.w.Write(r); err != nil {
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
// would drop or panic at, and hides its Close, which it would call.
type noter struct {
	w     io.Writer
	bytes int64
	err   error
}

func (n *noter) Write(b []byte) (int, error) {
	if n.err == nil {
		_, n.err = n.w.Write(b)
	}
	n.bytes += int64(len(b))
	return len(b), nil
}

// Tell is where the next byte goes.
func (n *noter) Tell() int64 { return n.bytes }
