package batch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/store"
)

// maxFooter bounds what stands behind a table's columns; those of the tables here have some kilobytes.
const maxFooter = 16 << 20

var errNoTable = errors.New("no table in Parquet")

// parquetRows is how many rows a table has, by its footer: a part is somebody else's, which Arrow's
// readers aren't made for.
func parquetRows(ctx context.Context, place *store.Place, name string) (int64, error) {
	f, err := place.Stat(ctx, name)
	if err != nil {
		return 0, err
	}
	r, err := place.Read(ctx, name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var end [8]byte
	if f.Size < 12 {
		return 0, fmt.Errorf("%s: %w", place.URL(name), errNoTable)
	}
	if _, err := r.ReadAt(end[:], f.Size-8); err != nil {
		return 0, err
	}
	size := int64(binary.LittleEndian.Uint32(end[:]))
	if !bytes.Equal(end[4:], []byte("PAR1")) || size > min(f.Size-12, maxFooter) {
		return 0, fmt.Errorf("%s: %w", place.URL(name), errNoTable)
	}
	footer := make([]byte, size)
	if _, err := r.ReadAt(footer, f.Size-8-size); err != nil {
		return 0, err
	}
	rows, ok := rowsOf(footer)
	if !ok {
		return 0, fmt.Errorf("%s: %w", place.URL(name), errNoTable)
	}
	return rows, nil
}

// rowsOf is num_rows, the third field of FileMetaData (parquet.thrift), in Thrift's compact protocol.
func rowsOf(footer []byte) (rows int64, ok bool) {
	const longNumber = 6
	t := thrift{rest: footer}
	for id := int64(0); !t.broken; {
		head := t.take(1)[0]
		if head == 0 {
			break
		}
		if id += int64(head >> 4); head>>4 == 0 {
			id = t.zigzag()
		}
		if id == 3 && head&15 == longNumber {
			rows = t.zigzag()
			return rows, !t.broken && rows >= 0
		}
		t.skip(head&15, 0)
	}
	return 0, false
}

// thrift reads the compact protocol; what is broken reads as zeros.
type thrift struct {
	rest   []byte
	broken bool
}

func (t *thrift) take(n uint64) []byte {
	if n > uint64(len(t.rest)) {
		t.broken, t.rest = true, nil
		return []byte{0}
	}
	b := t.rest[:n]
	t.rest = t.rest[n:]
	return b
}

func (t *thrift) number() uint64 {
	v, n := binary.Uvarint(t.rest)
	t.take(uint64(max(n, 0)))
	t.broken = t.broken || n <= 0
	return v
}

func (t *thrift) zigzag() int64 {
	v := t.number()
	return int64(v>>1) ^ -int64(v&1)
}

// skip passes over a value of a type.
func (t *thrift) skip(kind byte, depth int) {
	t.broken = t.broken || depth > 8
	if t.broken {
		return
	}
	switch kind {
	case 1, 2: // the type is the value
	case 3:
		t.take(1)
	case 4, 5, 6:
		t.number()
	case 7:
		t.take(8)
	case 8:
		t.take(t.number())
	case 9, 10:
		t.list(depth + 1)
	case 12:
		t.structure(depth + 1)
	default: // no footer has maps
		t.broken = true
	}
}

func (t *thrift) list(depth int) {
	head := t.take(1)[0]
	n := uint64(head >> 4)
	if n == 15 {
		n = t.number()
	}
	for ; n > 0 && !t.broken; n-- {
		if kind := head & 15; kind > 2 {
			t.skip(kind, depth)
		} else {
			t.take(1)
		}
	}
}

func (t *thrift) structure(depth int) {
	for head := t.take(1)[0]; head != 0 && !t.broken; head = t.take(1)[0] {
		if head>>4 == 0 {
			t.number()
		}
		t.skip(head&15, depth)
	}
}
