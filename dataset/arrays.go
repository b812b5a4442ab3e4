package dataset

import (
	"math/bits"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Arrays over slices that are in memory anyway. Nothing is copied, so the
// slices must stay as they are until the record has been written.

type integer interface {
	~int32 | ~int64 | ~uint8 | ~uint32 | ~uint64
}

func bufferOf[T any](values []T) *memory.Buffer {
	var zero T
	size := len(values) * int(unsafe.Sizeof(zero))
	return memory.NewBufferBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), size))
}

// arrayOf is an array of known values.
func arrayOf[T integer | float64](t arrow.DataType, values []T) arrow.Array {
	return array.MakeFromData(array.NewData(t, len(values), []*memory.Buffer{nil, bufferOf(values)}, nil, 0, 0))
}

// arrayWithin is an array whose values below from, and from to on, are unknown.
func arrayWithin[T integer](t arrow.DataType, values []T, from, to T) arrow.Array {
	valid, nulls := within(values, from, to)
	return array.MakeFromData(array.NewData(t, len(values), []*memory.Buffer{valid, bufferOf(values)}, nil, nulls, 0))
}

// within is the bitmap of the values from from up to to, nil for all, and how
// many are outside.
func within[T integer](values []T, from, to T) (*memory.Buffer, int) {
	bitmap := make([]byte, (len(values)+7)/8)
	known := 0
	for i := range bitmap {
		var b byte
		for k, v := range values[i*8 : min(i*8+8, len(values))] {
			if v >= from && v < to {
				b |= 1 << k
			}
		}
		bitmap[i] = b
		known += bits.OnesCount8(b)
	}
	if known == len(values) {
		return nil, 0
	}
	return memory.NewBufferBytes(bitmap), len(values) - known
}

// whether is an array that tells which values are a certain one.
func whether[T integer](values []T, is T) arrow.Array {
	bitmap := make([]byte, (len(values)+7)/8)
	for i, v := range values {
		if v == is {
			bitmap[i/8] |= 1 << (i % 8)
		}
	}
	return array.MakeFromData(array.NewData(boolean, len(values), []*memory.Buffer{nil, memory.NewBufferBytes(bitmap)}, nil, 0,
		0))
}

// coded is an array of texts, given by their numbers.
func coded[T ~uint8 | ~uint32](t *arrow.DictionaryType, values []T, texts arrow.Array) arrow.Array {
	return array.NewDictionaryArray(t, arrayOf(t.IndexType, values), texts)
}

// codedOrNull is the same where the number 0 stands for unknown.
func codedOrNull[T ~uint8 | ~uint32](t *arrow.DictionaryType, values []T, texts arrow.Array) arrow.Array {
	return array.NewDictionaryArray(t, arrayWithin(t.IndexType, values, 1, ^T(0)), texts)
}

// textsOf is an array of n texts.
func textsOf(n int, text func(int) string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(text(i))
	}
	return b.NewStringArray()
}

// scratch holds a column that has to be made, one batch at a time.
type scratch[T any] []T

// fill makes n values.
func (s *scratch[T]) fill(n int, value func(i int) T) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	values := (*s)[:n]
	for i := range values {
		values[i] = value(i)
	}
	return values
}

// part is a part of a column, of zeros when the column is missing.
func part[T any](column []T, from, to int) []T {
	if column == nil {
		return make([]T, to-from)
	}
	return column[from:to:to]
}
