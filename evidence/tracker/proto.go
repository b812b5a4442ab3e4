package tracker

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
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
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errProto
		}
		b, n = b[n:], -1
		f := field{number: int(number)}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.value = uint64(v)
		}
		if n < 0 {
			return errProto
		}
		b = b[n:]
		take(f)
	}
	return nil
}

func (f *field) float() float64  { return float64(math.Float32frombits(uint32(f.value))) }
func (f *field) double() float64 { return math.Float64frombits(f.value) }
