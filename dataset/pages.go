package dataset

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow/bitutil"
)

// What a Parquet page holds, as https://parquet.apache.org/docs/file-format/data-pages/encodings
// has it. The library's encoders take the values one by one.

// appendBits appends which of n rows are known: a run of equal rows, or a bit
// for each. valid is the bitmap from a bit on, nil when all are known.
func appendBits(dst, valid []byte, from, n, nulls int) []byte {
	switch nulls {
	case 0:
		return append(binary.AppendUvarint(dst, uint64(n)<<1), 1)
	case n:
		return append(binary.AppendUvarint(dst, uint64(n)<<1), 0)
	}
	size := (n + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(size)<<1|1)
	at := len(dst)
	dst = append(dst, make([]byte, size)...)
	bitutil.CopyBitmap(valid, from, n, dst[at:], 0)
	return dst
}

// code is the number of a word in a dictionary.
type code interface{ uint8 | uint32 | int32 }

// appendCodes appends numbers below n, in as many bits as the largest needs.
func appendCodes[T code](dst []byte, codes []T, n int) []byte {
	width := bits.Len(uint(max(n-1, 0)))
	return appendRun(append(dst, byte(width)), codes, width)
}

// appendRun appends numbers of so many bits: one and how often if all are
// equal, else each.
func appendRun[T code](dst []byte, codes []T, width int) []byte {
	if len(codes) == 0 {
		return dst
	}
	if !slices.ContainsFunc(codes, func(c T) bool { return c != codes[0] }) {
		dst = binary.AppendUvarint(dst, uint64(len(codes))<<1)
		for k := 0; k < width; k += 8 {
			dst = append(dst, byte(uint32(codes[0])>>k))
		}
		return dst
	}
	groups := (len(codes) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	end := len(dst) + groups*width
	dst = pack(dst, codes, uint(width))
	return append(dst, make([]byte, end-len(dst))...)
}

// pack appends the lowest width bits of each value, the first one's lowest bit
// first, up to a whole byte. There are no others.
func pack[T code | uint64](dst []byte, values []T, width uint) []byte {
	if width == 0 {
		return dst
	}
	var word uint64
	var held uint
	for _, v := range values {
		word |= uint64(v) << held
		if held += width; held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, word)
			held -= 64
			word = uint64(v) >> (width - held)
		}
	}
	for ; held > 0; held -= min(held, 8) {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst
}

const (
	deltaBlock = 128 // differences
	deltaMini  = 32  // of the same width
)

// appendDelta appends the first value and the differences between neighbours,
// in blocks of DELTA_BINARY_PACKED. Differences wrap around.
func appendDelta[T int32 | int64](dst []byte, values []T) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaBlock/deltaMini)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	dst = binary.AppendVarint(dst, int64(values[0]))
	mask := ^uint64(0) >> (64 - 8*unsafe.Sizeof(values[0]))
	var above [deltaBlock]uint64
	for at := 1; at < len(values); at += deltaBlock {
		n := min(deltaBlock, len(values)-at)
		last, now := values[at-1:at-1+n], values[at:at+n]
		least := now[0] - last[0]
		for i, v := range now {
			least = min(least, v-last[i])
		}
		dst = binary.AppendVarint(dst, int64(least))
		var all [deltaBlock / deltaMini]uint64
		for i, v := range now {
			d := uint64(v-last[i]-least) & mask
			above[i] = d
			all[i/deltaMini] |= d
		}
		clear(above[n:])
		for _, m := range all {
			dst = append(dst, byte(bits.Len64(m)))
		}
		for i, m := range all {
			dst = pack(dst, above[i*deltaMini:(i+1)*deltaMini], uint(bits.Len64(m)))
		}
	}
	return dst
}
