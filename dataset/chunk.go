package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/schema"
	"github.com/klauspost/compress/s2"
)

// space is for one column after the other.
type space struct {
	page, raw []byte
	narrow    []int32
	wide      []int64
	real      []float64
	flags     []bool
}

// group is a record on its way into the file.
type group struct {
	*parquetSink
	meta    *metadata.RowGroupMetaDataBuilder
	rows    int
	size    int64 // of the columns so far, uncompressed
	columns int16
}

// write writes a column of the table: one of numbers or texts, or a list of
// them or of structures of them, each of whose fields is a column of the file.
func (g *group) write(column arrow.Array) error {
	list, ok := column.(*array.List)
	if !ok {
		return g.leaf(column, nil)
	}
	l := listsOf(list)
	elements := array.NewSlice(list.ListValues(), l.from, l.to)
	defer elements.Release()
	structures, ok := elements.(*array.Struct)
	if !ok {
		return g.leaf(elements, l)
	}
	for i := range structures.NumField() {
		if err := g.leaf(structures.Field(i), l); err != nil {
			return err
		}
	}
	return nil
}

// leaf writes a column of the file, whose values are elements of lists unless
// l is nil.
func (g *group) leaf(values arrow.Array, l *lists) error {
	c := &chunk{group: g, meta: g.meta.NextColumnChunk(), column: values, lists: l}
	if err := c.write(); err != nil {
		return err
	}
	g.size += c.meta.Contents().MetaData.TotalUncompressedSize
	g.columns++
	return nil
}

// lists tell their elements apart.
type lists struct {
	from, to   int64   // the elements
	repetition []uint8 // 0 begins a list
	filled     []uint8 // 1 for an element, 0 for a list without any
}

func listsOf(a *array.List) *lists {
	l := &lists{}
	for i := range a.Len() {
		start, end := a.ValueOffsets(i)
		if i == 0 {
			l.from = start
		}
		l.to = end
		if start == end {
			l.repetition, l.filled = append(l.repetition, 0), append(l.filled, 0)
		}
		for k := start; k < end; k++ {
			l.repetition, l.filled = append(l.repetition, uint8(min(k-start, 1))), append(l.filled, 1)
		}
	}
	return l
}

// chunk is one column of a row group.
type chunk struct {
	*group
	meta   *metadata.ColumnChunkMetaDataBuilder
	column arrow.Array
	lists  *lists // whose elements the values are; nil: they are the rows
}

// entries is how many values the column has, with a row that has none as one.
func (c *chunk) entries() int {
	if c.lists == nil {
		return c.rows
	}
	return len(c.lists.filled)
}

// nulls is how many of them are unknown.
func (c *chunk) nulls() int { return c.entries() - c.column.Len() + c.column.NullN() }

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
	case *array.Boolean:
		return writeFlags(c, a)
	case *array.String:
		return writeTexts(c, a)
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

func writeTexts(c *chunk, a *array.String) error {
	var texts []parquet.ByteArray
	c.raw = c.raw[:0]
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		text := a.Value(i)
		texts = append(texts, parquet.ByteArray(text))
		c.raw = append(binary.LittleEndian.AppendUint32(c.raw, uint32(len(text))), text...)
	}
	if err := setStatistics(c, texts); err != nil {
		return err
	}
	return c.finish(parquet.Encodings.Plain, c.raw, nil)
}

func writeFlags(c *chunk, a *array.Boolean) error {
	c.flags = c.flags[:0]
	for i := range a.Len() {
		if a.IsValid(i) {
			c.flags = append(c.flags, a.Value(i))
		}
	}
	if err := setStatistics(c, c.flags); err != nil {
		return err
	}
	c.raw = append(c.raw[:0], make([]byte, (len(c.flags)+7)/8)...)
	for i, flag := range c.flags {
		bitutil.SetBitTo(c.raw, i, flag)
	}
	return c.finish(parquet.Encodings.Plain, c.raw, nil)
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
	s.Update(values, int64(c.nulls()))
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
	pages, err := file.NewPageWriter(c.out, codec, 1, c.meta, c.groups, c.columns, memory.DefaultAllocator, false, nil, nil)
	if err != nil {
		return err
	}
	if dictionary != nil {
		if _, err := pages.WriteDictionaryPage(dictionary); err != nil {
			return err
		}
	}
	page, repetition := c.appendLevels(c.page[:0])
	levels := len(page)
	if len(raw) > 0 {
		page = c.compress(page, raw, codec)
	}
	c.page = page
	if max(len(page), levels+len(raw)) > math.MaxInt32 {
		return fmt.Errorf("dataset: %s: texts of %d bytes are too long for a Parquet file", d.Path(), len(raw))
	}
	data := file.NewDataPageV2(memory.NewBufferBytes(page), int32(c.entries()), int32(c.nulls()), int32(c.rows), encoding,
		int32(levels-repetition), int32(repetition), int32(levels+len(raw)), len(raw) > 0)
	if _, err := pages.WriteDataPage(data); err != nil {
		return err
	}
	return pages.Close(dictionary != nil, false)
}

// appendLevels appends what tells lists from each other, in so many bytes, and
// which values are known.
func (c *chunk) appendLevels(page []byte) (_ []byte, repetition int) {
	most := c.meta.Descr().MaxDefinitionLevel()
	bitmap, from := c.column.NullBitmapBytes(), c.column.Data().Offset()
	if c.lists == nil {
		if most > 0 {
			page = appendBits(page, bitmap, from, c.rows, c.nulls())
		}
		return page, 0
	}
	page = appendRun(page, c.lists.repetition, 1)
	repetition = len(page)
	definition := make([]uint8, len(c.lists.filled))
	for i, filled := range c.lists.filled {
		if filled == 0 {
			continue
		}
		definition[i] = uint8(most)
		if c.column.NullN() > 0 && !bitutil.BitIsSet(bitmap, from) {
			definition[i]--
		}
		from++
	}
	return appendRun(page, definition, bits.Len16(uint16(most))), repetition
}

// compress appends raw to dst in fewer bytes.
func (p *parquetSink) compress(dst, raw []byte, codec compress.Compression) []byte {
	if codec == compress.Codecs.Zstd {
		return p.zstd.EncodeAll(raw, dst)
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
