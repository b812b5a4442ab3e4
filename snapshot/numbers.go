package snapshot

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

func (d *decoder) integer(op byte, at int) error {
	switch op {
	case pickle.BinInt1, pickle.BinInt2, pickle.BinInt:
		width := 4
		switch op {
		case pickle.BinInt1:
			width = 1
		case pickle.BinInt2:
			width = 2
		}
		x, err := d.uint(width)
		if err != nil {
			return err
		}
		n := int64(x)
		if op == pickle.BinInt {
			n = int64(int32(x))
		}
		d.push(newValue(kInt, uint64(n)))
	case pickle.Long1, pickle.Long4:
		n, err := d.length(op, at)
		if err != nil {
			return err
		}
		if n > maxString {
			return d.fail(at, "an integer of %d bytes", n)
		}
		if err := d.need(int(n)); err != nil {
			return err
		}
		d.push(d.long(d.b[d.p : d.p+int(n)]))
		d.p += int(n)
	default: // pickle.Int, pickle.Long
		line, err := d.line()
		if err != nil {
			return err
		}
		return d.decimal(string(line), op, at)
	}
	return nil
}

// decimal reads protocol 0's integers; INT also spells booleans.
func (d *decoder) decimal(s string, op byte, at int) error {
	if op == pickle.Int && (s == "00" || s == "01") {
		d.push(newValue(kBool, uint64(s[1]-'0')))
		return nil
	}
	digits := strings.TrimSuffix(s, "L")
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		d.push(d.number(n))
		return nil
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		d.push(d.bigValue(big{low: n}))
		return nil
	}
	sign := strings.HasPrefix(digits, "-")
	if body := strings.TrimPrefix(digits, "-"); body == "" || strings.Trim(body, "0123456789") != "" {
		return d.fail(at, "%.40q is no integer", s)
	}
	d.push(d.bigValue(big{negative: sign, huge: true}))
	return nil
}

// number is a value for a signed integer.
func (o *objects) number(n int64) value {
	if v := newValue(kInt, uint64(n)); v.int() == n {
		return v
	}
	return o.bigValue(big{low: uint64(n), negative: n < 0})
}

// bigValue is a value for an integer that doesn't fit one. What takes more than
// 64 bits is nothing that was recorded: nothing of it counts.
func (o *objects) bigValue(b big) value {
	if b.huge {
		b.low = 0
	}
	o.used += 24 // the next allocation that is checked reports a limit that is passed
	o.bigs = append(o.bigs, b)
	return newValue(kBig, uint64(len(o.bigs)-1))
}

// long is a little-endian two's complement integer of any length.
func (o *objects) long(b []byte) value {
	if len(b) == 0 {
		return newValue(kInt, 0)
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
	if len(b) > 8 {
		return o.bigValue(big{low: low, negative: negative, huge: true})
	}
	if negative == (int64(low) < 0) {
		return o.number(int64(low))
	}
	return o.bigValue(big{low: low, negative: negative, huge: negative})
}

func (d *decoder) float(op byte, at int) error {
	var f float64
	if op == pickle.BinFloat {
		if err := d.need(8); err != nil {
			return err
		}
		f = math.Float64frombits(binary.BigEndian.Uint64(d.b[d.p:]))
		d.p += 8
	} else {
		line, err := d.line()
		if err != nil {
			return err
		}
		if f, err = strconv.ParseFloat(string(line), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return d.fail(at, "%.40q is no number", line)
		}
	}
	if err := d.take(8); err != nil {
		return err
	}
	d.floats = append(d.floats, f)
	d.push(newValue(kFloat, uint64(len(d.floats)-1)))
	return nil
}
