package dataset

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/endian"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/klauspost/compress/zstd"
)

// parquetSink writes a table as Parquet: a row group for every record, in it
// one page for every column. Pages are made from the arrays themselves; the
// library's own writer copies each column several times and makes a compressor
// anew for every page, which takes three times as long. Pages' headers,
// statistics and the footer are the library's.
type parquetSink struct {
	out          *noter
	plain, delta *parquet.WriterProperties // of column chunks, by the encoding of their numbers
	file         *metadata.FileMetaDataBuilder
	zstd         *zstd.Encoder // nil: nothing is compressed with it
	groups       int16
	space
}

// magic begins and ends a Parquet file.
const magic = "PAR1"

func newParquet(w io.Writer, t *Table, s *arrow.Schema) (Sink, error) {
	if endian.IsBigEndian {
		return nil, errors.New("dataset: pages are written as memory is, which is the wrong way round on this machine")
	}
	others := compress.Codecs.Snappy
	if t == Events || !isFlat(t) { // the longest by far, and texts: a third of the bytes is worth the time
		others = compress.Codecs.Zstd
	}
	o := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST), // keeps unsigned integers of 32 bits as such
		parquet.WithCreatedBy("vramscope"),
		parquet.WithCompression(others),
	}
	for _, c := range t.Columns {
		if c.Type.ID() == arrow.DICTIONARY {
			o = append(o, parquet.WithCompressionFor(c.Name, compress.Codecs.Snappy))
		}
	}
	plain := parquet.NewWriterProperties(o...)
	delta := parquet.NewWriterProperties(append(o, parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked))...)
	columns, err := parquetSchema(s)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(s)
	if err != nil {
		return nil, err
	}
	p := &parquetSink{out: &noter{w: w}, plain: plain, delta: delta, file: metadata.NewFileMetadataBuilder(columns, plain, keys)}
	if others == compress.Codecs.Zstd {
		level := zstd.SpeedFastest
		if t == Events {
			level = zstd.SpeedDefault
		}
		if p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false)); err != nil {
			return nil, err
		}
	}
	_, err = io.WriteString(p.out, magic)
	return p, err
}

// isFlat reports whether a table has columns of numbers and words alone.
func isFlat(t *Table) bool {
	for _, c := range t.Columns {
		switch c.Type.ID() {
		case arrow.LIST, arrow.STRING:
			return false
		}
	}
	return true
}

func (p *parquetSink) Write(r arrow.Record) error {
	g := &group{parquetSink: p, meta: p.file.AppendRowGroup(), rows: int(r.NumRows())}
	g.meta.SetNumRows(g.rows)
	for _, column := range r.Columns() {
		if err := g.write(column); err != nil {
			return err
		}
	}
	if err := g.meta.Finish(g.size, p.groups); err != nil {
		return err
	}
	p.groups++
	return p.out.err
}

func (p *parquetSink) Close() error {
	meta, err := p.file.Finish()
	if err != nil {
		return err
	}
	n, err := meta.WriteTo(p.out, nil)
	if err != nil {
		return err
	}
	p.out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
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
