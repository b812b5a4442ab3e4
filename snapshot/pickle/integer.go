package pickle

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Integer is one of any length. Of what takes more than 64 bits, which is nothing that
// was recorded, only the sign counts.
type Integer struct {
	Low      uint64 // two's complement
	Negative bool
	Huge     bool // more than 64 bits: Low is 0
}

// ReadDecimal reads the integers of protocol 0.
func ReadDecimal(s string) (n Integer, ok bool) {
	digits := strings.TrimSuffix(s, "L")
	if x, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return Integer{Low: uint64(x), Negative: x < 0}, true
	}
	if x, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return Integer{Low: x}, true
	}
	body := strings.TrimPrefix(digits, "-")
	return Integer{Negative: body != digits, Huge: true}, body != "" && strings.Trim(body, "0123456789") == ""
}

// ReadLong reads a little-endian two's complement integer of any length.
func ReadLong(b []byte) Integer {
	if len(b) == 0 {
		return Integer{}
	}
	negative := b[len(b)-1]&0x80 != 0
	fill := byte(0)
	if negative {
		fill = 0xff
	}
	for len(b) > 8 && b[len(b)-1] == fill { // sign bytes
		b = b[:len(b)-1]
	}
	var buf [8]byte
	for i := range buf {
		buf[i] = fill
	}
	copy(buf[:], b)
	low := binary.LittleEndian.Uint64(buf[:])
	if len(b) > 8 || negative && int64(low) >= 0 {
		return Integer{Negative: negative, Huge: true}
	}
	return Integer{Low: low, Negative: negative}
}
