package tracker

import (
	"encoding/binary"
	"errors"
	"math"
)

// errProto is for bytes that are no protobuf message.
var errProto = errors.New("no message")

// field is one field of a protobuf message.
type field struct {
	number int
	value  uint64 // of a number; the bits of a float
	bytes  []byte // of text or a message; nil for a number
}

// fields hands out a message's fields in order, as far as it is whole.
func fields(b []byte, take func(f field)) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return errProto
		}
		b = b[n:]
		f := field{number: int(tag >> 3)}
		switch tag & 7 {
		case 0:
			if f.value, n = binary.Uvarint(b); n <= 0 {
				return errProto
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return errProto
			}
			f.value, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return errProto
			}
			f.bytes, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		case 5:
			if len(b) < 4 {
				return errProto
			}
			f.value, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		default:
			return errProto
		}
		take(f)
	}
	return nil
}

func (f *field) float() float64  { return float64(math.Float32frombits(uint32(f.value))) }
func (f *field) double() float64 { return math.Float64frombits(f.value) }
