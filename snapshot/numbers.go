package snapshot

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

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
		d.push(d.integerValue(pickle.ReadLong(d.b[d.p : d.p+int(n)])))
		d.p += int(n)
	default: // pickle.Int, pickle.Long
		line, err := d.line()
		if err != nil {
			return err
		}
		if op == pickle.Int && (string(line) == "00" || string(line) == "01") { // how INT spells booleans
			d.push(newValue(kBool, uint64(line[1]-'0')))
			return nil
		}
		n, ok := pickle.ReadDecimal(string(line))
		if !ok {
			return d.fail(at, "%.40q is no integer", line)
		}
		d.push(d.integerValue(n))
	}
	return nil
}

// number is a value for a signed integer.
func (o *objects) number(n int64) value {
	return o.integerValue(pickle.Integer{Low: uint64(n), Negative: n < 0})
}

// integerValue is a value for an integer of any length.
func (o *objects) integerValue(n pickle.Integer) value {
	low := int64(n.Low)
	if v := newValue(kInt, n.Low); !n.Huge && n.Negative == (low < 0) && v.int() == low {
		return v
	}
	o.used += 24 // the next allocation that is checked reports a limit that is passed
	o.bigs = append(o.bigs, n)
	return newValue(kBig, uint64(len(o.bigs)-1))
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
	d.used += 8 // as of an integer
	d.floats = append(d.floats, f)
	d.push(newValue(kFloat, uint64(len(d.floats)-1)))
	return nil
}
