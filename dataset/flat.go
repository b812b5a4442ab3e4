package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/endian"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/apache/arrow/go/v15/parquet/schema"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// flatSink writes tables of numbers and words as Parquet: a row group for
// every record, in it one page for every column. Pages are made from the arrays
// themselves; the library's own writer copies each column several times and
// makes a compressor anew for every page, which takes three times as long.
// Pages' headers, statistics and the footer are the library's.
type flatSink struct {
	out          *noter
	plain, delta *parquet.WriterProperties // of column chunks, by the encoding of their numbers
	file         *metadata.FileMetaDataBuilder
	zstd         *zstd.Encoder // nil: nothing is compressed with it
	groups       int16

	// Space for one column after the other.
	page, raw []byte
	narrow    []int32
	wide      []int64
	real      []float64
}

// isFlat tells whether a table has columns of numbers and words alone.
func isFlat(t *Table) bool {
	for _, c := range t.Columns {
		switch c.Type.ID() {
		case arrow.INT32, arrow.UINT32, arrow.INT64, arrow.UINT64, arrow.FLOAT64, arrow.DICTIONARY:
		default:
			return false
		}
	}
	return !endian.IsBigEndian // pages are as memory is
}

// magic begins and ends a Parquet file.
const magic = "PAR1"

func newFlat(w io.Writer, t *Table, s *arrow.Schema) (Sink, error) {
	numbers := compress.Codecs.Snappy
	if t == Events { // the longest by far: a third of the bytes is worth the time
		numbers = compress.Codecs.Zstd
	}
	o := append(commonProperties(), parquet.WithCompression(numbers))
	for _, c := range t.Columns {
		if c.Type.ID() == arrow.DICTIONARY {
			o = append(o, parquet.WithCompressionFor(c.Name, compress.Codecs.Snappy))
		}
	}
	plain := parquet.NewWriterProperties(o...)
	delta := parquet.NewWriterProperties(append(o, parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked))...)
	columns, err := pqarrow.ToParquet(s, plain, arrowProperties)
	if err != nil {
		return nil, err
	}
	meta, err := keysOf(s)
	if err != nil {
		return nil, err
	}
	f := &flatSink{out: &noter{w: w}, plain: plain, delta: delta, file: metadata.NewFileMetadataBuilder(columns, plain, meta)}
	if numbers == compress.Codecs.Zstd {
		if f.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)); err != nil {
			return nil, err
		}
	}
	_, err = io.WriteString(f.out, magic)
	return f, err
}

// keysOf is a schema's metadata, and the schema itself as pqarrow keeps it.
func keysOf(s *arrow.Schema) (metadata.KeyValueMetadata, error) {
	keys := metadata.NewKeyValueMetadata()
	for i, k := range s.Metadata().Keys() {
		if err := keys.Append(k, s.Metadata().Values()[i]); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if err := ipc.NewWriter(&b, ipc.WithSchema(s)).Close(); err != nil {
		return nil, err
	}
	err := keys.Append("ARROW:schema", base64.StdEncoding.EncodeToString(b.Bytes()))
	return keys, err
}

func (f *flatSink) Write(r arrow.Record) error {
	group := f.file.AppendRowGroup()
	group.SetNumRows(int(r.NumRows()))
	var size int64
	for i, column := range r.Columns() {
		c := &chunk{flatSink: f, meta: group.NextColumnChunk(), column: column, ordinal: int16(i)}
		if err := c.write(); err != nil {
			return err
		}
		size += c.meta.Contents().MetaData.TotalUncompressedSize
	}
	if err := group.Finish(size, f.groups); err != nil {
		return err
	}
	f.groups++
	return f.out.err
}

func (f *flatSink) Close() error {
	meta, err := f.file.Finish()
	if err != nil {
		return err
	}
	n, err := meta.WriteTo(f.out, nil)
	if err != nil {
		return err
	}
	f.out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
	return f.out.err
}

// chunk is one column of a record on its way into the file.
type chunk struct {
	*flatSink
	meta    *metadata.ColumnChunkMetaDataBuilder
	column  arrow.Array
	ordinal int16
}

func (c *chunk) write() error {
	switch a := c.column.(type) {
	case *array.Int32:
		return writeIntegers(c, &c.narrow, a.Int32Values())
	case *array.Uint32:
		return writeIntegers(c, &c.narrow, as[int32](a.Uint32Values()))
	case *array.Int64:
		return writeIntegers(c, &c.wide, a.Int64Values())
	case *array.Uint64:
		return writeIntegers(c, &c.wide, as[int64](a.Uint64Values()))
	case *array.Float64:
		values := known(&c.real, a.Float64Values(), a)
		if err := setStatistics(c, values); err != nil {
			return err
		}
		return c.finish(parquet.Encodings.Plain, as[byte](values), nil)
	case *array.Dictionary:
		switch codes := a.Indices().(type) {
		case *array.Uint8:
			return writeWords(c, a, codes.Uint8Values())
		case *array.Uint32:
			return writeWords(c, a, codes.Uint32Values())
		case *array.Int32:
			return writeWords(c, a, codes.Int32Values())
		}
	}
	return fmt.Errorf("dataset: no pages of %s", c.column.DataType())
}

func writeIntegers[T int32 | int64](c *chunk, space *[]T, values []T) error {
	values = known(space, values, c.column)
	if err := setStatistics(c, values); err != nil {
		return err
	}
	// Arrow's reader in Go up to version 15 loses its place in differences of
	// 64-bit numbers that may be unknown.
	risky := c.meta.Descr().MaxDefinitionLevel() > 0 && unsafe.Sizeof(T(0)) == 8
	if len(values) == 0 || risky || !smallerAsDelta(c, values) {
		return c.finish(parquet.Encodings.Plain, as[byte](values), nil)
	}
	c.raw = appendDelta(c.raw[:0], values)
	return c.finish(parquet.Encodings.DeltaBinaryPacked, c.raw, nil)
}

// smallerAsDelta tries both encodings on values from the middle.
func smallerAsDelta[T int32 | int64](c *chunk, values []T) bool {
	const sample = 4096
	if extra := len(values) - sample; extra > 0 {
		values = values[extra/2 : extra/2+sample]
	}
	codec := c.plain.CompressionFor(c.meta.Descr().Path())
	c.page = c.compress(c.page[:0], as[byte](values), codec)
	plain := len(c.page)
	c.raw = appendDelta(c.raw[:0], values)
	c.page = c.compress(c.page[:0], c.raw, codec)
	return len(c.page) < plain
}

func writeWords[T code](c *chunk, a *array.Dictionary, codes []T) error {
	codes = known(new([]T), codes, a)
	words := a.Dictionary().(*array.String)
	used := make([]bool, words.Len())
	for _, code := range codes {
		used[code] = true
	}
	var dictionary []byte
	var texts []parquet.ByteArray
	for i, used := range used {
		word := words.Value(i)
		dictionary = append(binary.LittleEndian.AppendUint32(dictionary, uint32(len(word))), word...)
		if used {
			texts = append(texts, parquet.ByteArray(word))
		}
	}
	if err := setStatistics(c, texts); err != nil {
		return err
	}
	c.raw = appendCodes(c.raw[:0], codes, words.Len())
	page := file.NewDictionaryPage(memory.NewBufferBytes(dictionary), int32(words.Len()), parquet.Encodings.Plain)
	return c.finish(parquet.Encodings.RLEDict, c.raw, page)
}

// known are the values that are, in space unless all of them are.
func known[T any](space *[]T, values []T, a arrow.Array) []T {
	if a.NullN() == 0 {
		return values
	}
	dense := (*space)[:0]
	valid, from := a.NullBitmapBytes(), a.Data().Offset()
	for i, v := range values {
		if bitutil.BitIsSet(valid, from+i) {
			dense = append(dense, v)
		}
	}
	*space = dense
	return dense
}

// setStatistics notes the least and the largest of the known values.
func setStatistics[T any](c *chunk, values []T) error {
	type statistics interface {
		Update(values []T, nulls int64)
		Encode() (metadata.EncodedStatistics, error)
	}
	d := c.meta.Descr()
	s := metadata.NewStatistics(d, memory.DefaultAllocator).(statistics)
	s.Update(values, int64(c.column.NullN()))
	encoded, err := s.Encode()
	if err != nil {
		return err
	}
	encoded.HasDistinctCount = false // nobody counted
	encoded.Signed = d.SortOrder() == schema.SortSIGNED
	encoded.ApplyStatSizeLimits(int(c.plain.MaxStatsSizeFor(d.Path())))
	c.meta.SetStats(encoded)
	return nil
}

// finish writes the pages of a column and what is known of them.
func (c *chunk) finish(encoding parquet.Encoding, raw []byte, dictionary *file.DictionaryPage) error {
	d := c.meta.Descr()
	if encoding == parquet.Encodings.DeltaBinaryPacked {
		c.meta = metadata.NewColumnChunkMetaDataBuilderWithContents(c.delta, d, c.meta.Contents())
	}
	codec := c.plain.CompressionFor(d.Path())
	pages, err := file.NewPageWriter(c.out, codec, 1, c.meta, c.groups, c.ordinal, memory.DefaultAllocator, false, nil, nil)
	if err != nil {
		return err
	}
	if dictionary != nil {
		if _, err := pages.WriteDictionaryPage(dictionary); err != nil {
			return err
		}
	}
	rows, nulls := c.column.Len(), c.column.NullN()
	page := c.page[:0]
	if d.MaxDefinitionLevel() > 0 {
		page = appendLevels(page, c.column.NullBitmapBytes(), c.column.Data().Offset(), rows, nulls)
	}
	levels := len(page)
	if len(raw) > 0 {
		page = c.compress(page, raw, codec)
	}
	c.page = page
	data := file.NewDataPageV2(memory.NewBufferBytes(page), int32(rows), int32(nulls), int32(rows), encoding, int32(levels), 0, int32(levels+len(raw)), len(raw) > 0)
	if _, err := pages.WriteDataPage(data); err != nil {
		return err
	}
	return pages.Close(dictionary != nil, false)
}

// compress appends raw to dst in fewer bytes.
func (f *flatSink) compress(dst, raw []byte, codec compress.Compression) []byte {
	if codec == compress.Codecs.Zstd {
		return f.zstd.EncodeAll(raw, dst)
	}
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(raw)))
	return dst[:len(dst)+len(s2.EncodeSnappy(dst[len(dst):cap(dst)], raw))]
}

// as is the same memory as numbers of another type.
func as[To, From any](values []From) []To {
	var from From
	var to To
	size := len(values) * int(unsafe.Sizeof(from))
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(values))), size/int(unsafe.Sizeof(to)))
}
