package recorder

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// The Python objects that a snapshot is made of, beside Go's nil, bool, int,
// int64, uint64, *big.Int, float64 and string. Objects are the same object to
// the pickler when the pointer is the same; equal strings are one object, as
// keys are in torch, and a *Text is an object of its own.
type (
	// Dict is a dictionary in insertion order.
	Dict struct{ Items []Item }
	// Item is a key with its value.
	Item struct{ Key, Value any }
	// List is a list.
	List struct{ Items []any }
	// Tuple is a tuple.
	Tuple struct{ Items []any }
	// Text is a string that is shared with no other; it need not be UTF-8.
	Text struct{ S string }
)

// Pickle opcodes that the two picklers write.
const (
	opMark, opStop, opNone, opInt, opLong, opFloat, opUnicode   = '(', '.', 'N', 'I', 'L', 'F', 'V'
	opBinInt, opBinInt1, opBinInt2, opLong1, opBinFloat         = 'J', 'K', 'M', 0x8a, 'G'
	opNewTrue, opNewFalse, opBinUnicode, opShortBinUnicode      = 0x88, 0x89, 'X', 0x8c
	opList, opDict, opTuple, opEmptyList, opEmptyDict           = 'l', 'd', 't', ']', '}'
	opEmptyTuple, opTuple1, opAppend, opAppends                 = ')', 0x85, 'a', 'e'
	opSetItem, opSetItems, opPut, opBinPut, opLongBinPut, opGet = 's', 'u', 'p', 'q', 'r', 'g'
	opBinGet, opLongBinGet, opProto, opFrame, opMemoize         = 'h', 'j', 0x80, 0x95, 0x94
)

const (
	batchSize   = 1000     // elements between MARK and APPENDS or SETITEMS
	frameTarget = 64 << 10 // a FRAME ends at the first opcode boundary behind it
	frameHeader = 9
)

// pickler writes the bytes that CPython's C pickler writes (Modules/_pickle.c).
type pickler struct {
	out     []byte
	proto   int
	memo    map[any]int
	framing bool
	frame   int // where the open frame's header is in out, -1: none
}

// Pickle is v as pickle.dumps(v, protocol) gives it.
func Pickle(v any, protocol int) []byte {
	p := &pickler{proto: protocol, memo: map[any]int{}, frame: -1}
	if protocol >= 2 {
		p.out = append(p.out, opProto, byte(protocol))
	}
	p.framing = protocol >= 4
	p.save(v)
	p.write(opStop)
	p.closeFrame()
	return p.out
}

func (p *pickler) write(b ...byte) {
	if p.framing && p.frame < 0 {
		p.frame = len(p.out)
		p.out = append(p.out, make([]byte, frameHeader)...)
	}
	p.out = append(p.out, b...)
}

// closeFrame fills in the frame's header, or takes it out again when the frame is tiny.
func (p *pickler) closeFrame() {
	if p.frame < 0 {
		return
	}
	n := len(p.out) - p.frame - frameHeader
	if n >= 4 {
		p.out[p.frame] = opFrame
		binary.LittleEndian.PutUint64(p.out[p.frame+1:], uint64(n))
	} else {
		p.out = append(p.out[:p.frame], p.out[p.frame+frameHeader:]...)
	}
	p.frame = -1
}

func (p *pickler) save(v any) {
	if t, ok := v.(*Text); ok && utf8.RuneCountInString(t.S) <= 1 {
		v = t.S // CPython has one object for each short string
	}
	if p.frame >= 0 && len(p.out)-p.frame-frameHeader >= frameTarget {
		p.closeFrame()
	}
	switch x := v.(type) {
	case nil:
		p.write(opNone)
	case bool:
		p.saveBool(x)
	case int:
		p.saveInt(big.NewInt(int64(x)))
	case int64:
		p.saveInt(big.NewInt(x))
	case uint64:
		p.saveInt(new(big.Int).SetUint64(x))
	case *big.Int:
		p.saveInt(x)
	case float64:
		p.saveFloat(x)
	case string, *Text, *List, *Dict:
		if i, ok := p.memo[v]; ok {
			p.get(i)
			return
		}
		switch x := v.(type) {
		case string:
			p.saveText(x)
			p.put(v)
		case *Text:
			p.saveText(x.S)
			p.put(v)
		case *List:
			p.saveList(x)
		case *Dict:
			p.saveDict(x)
		}
	case *Tuple:
		p.saveTuple(x)
	default:
		panic(fmt.Sprintf("recorder: can't pickle %T", v))
	}
}

func (p *pickler) get(i int) {
	switch {
	case p.proto == 0:
		p.write(append(strconv.AppendInt([]byte{opGet}, int64(i), 10), '\n')...)
	case i < 256:
		p.write(opBinGet, byte(i))
	default:
		p.write(binary.LittleEndian.AppendUint32([]byte{opLongBinGet}, uint32(i))...)
	}
}

func (p *pickler) put(v any) {
	i := len(p.memo)
	p.memo[v] = i
	switch {
	case p.proto >= 4:
		p.write(opMemoize)
	case p.proto == 0:
		p.write(append(strconv.AppendInt([]byte{opPut}, int64(i), 10), '\n')...)
	case i < 256:
		p.write(opBinPut, byte(i))
	default:
		p.write(binary.LittleEndian.AppendUint32([]byte{opLongBinPut}, uint32(i))...)
	}
}

func (p *pickler) saveBool(x bool) {
	switch {
	case p.proto >= 2 && x:
		p.write(opNewTrue)
	case p.proto >= 2:
		p.write(opNewFalse)
	case x:
		p.write([]byte("I01\n")...)
	default:
		p.write([]byte("I00\n")...)
	}
}

func (p *pickler) saveInt(x *big.Int) {
	if x.IsInt64() && int64(int32(x.Int64())) == x.Int64() {
		n := x.Int64()
		switch {
		case p.proto == 0:
			p.write([]byte(fmt.Sprintf("I%d\n", n))...)
		case 0 <= n && n < 1<<8:
			p.write(opBinInt1, byte(n))
		case 0 <= n && n < 1<<16:
			p.write(opBinInt2, byte(n), byte(n>>8))
		default:
			p.write(binary.LittleEndian.AppendUint32([]byte{opBinInt}, uint32(n))...)
		}
		return
	}
	if p.proto < 2 {
		p.write([]byte("L" + x.String() + "L\n")...)
		return
	}
	b := twosComplement(x)
	p.write(append([]byte{opLong1, byte(len(b))}, b...)...)
}

// twosComplement is the shortest little-endian form, as int.to_bytes would need.
func twosComplement(x *big.Int) []byte {
	n := x.BitLen()/8 + 1
	y := x
	if x.Sign() < 0 {
		y = new(big.Int).Add(x, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	b := y.FillBytes(make([]byte, n))
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	if x.Sign() < 0 && n > 1 && b[n-1] == 0xff && b[n-2]&0x80 != 0 {
		b = b[:n-1]
	}
	return b
}

func (p *pickler) saveFloat(x float64) {
	if p.proto > 0 {
		p.write(binary.BigEndian.AppendUint64([]byte{opBinFloat}, math.Float64bits(x))...)
		return
	}
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if x == math.Trunc(x) && math.Abs(x) < 1e16 {
		s = strconv.FormatFloat(x, 'f', 1, 64)
	}
	p.write([]byte("F" + s + "\n")...)
}

func (p *pickler) saveText(s string) {
	if p.proto == 0 {
		p.write(rawUnicodeEscape(s)...)
		return
	}
	header := binary.LittleEndian.AppendUint32([]byte{opBinUnicode}, uint32(len(s)))
	if p.proto >= 4 && len(s) < 256 {
		header = []byte{opShortBinUnicode, byte(len(s))}
	}
	if len(s) < frameTarget {
		p.write(append(header, s...)...)
		return
	}
	framing := p.framing // long strings stand between frames
	p.closeFrame()
	p.framing = false
	p.write(append(header, s...)...)
	p.framing = framing
}

// rawUnicodeEscape is UNICODE's argument. What is no UTF-8 must be a lone
// surrogate in the form of Python's surrogatepass.
func rawUnicodeEscape(s string) []byte {
	out := []byte{opUnicode}
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 && len(s) >= 3 {
			r, n = rune(s[0]&0x0f)<<12|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f), 3
		}
		s = s[n:]
		switch {
		case r > 0xffff:
			out = fmt.Appendf(out, "\\U%08x", r)
		case r > 0xff, r == '\\', r == 0, r == '\n', r == '\r', r == 0x1a:
			out = fmt.Appendf(out, "\\u%04x", r)
		default:
			out = append(out, byte(r))
		}
	}
	return append(out, '\n')
}

func (p *pickler) saveList(l *List) {
	if p.proto == 0 {
		p.write(opMark, opList)
	} else {
		p.write(opEmptyList)
	}
	p.put(l)
	if p.proto == 0 || len(l.Items) == 1 {
		for _, v := range l.Items {
			p.save(v)
			p.write(opAppend)
		}
		return
	}
	for i := 0; i < len(l.Items); i += batchSize {
		p.write(opMark)
		for _, v := range l.Items[i:min(i+batchSize, len(l.Items))] {
			p.save(v)
		}
		p.write(opAppends)
	}
}

func (p *pickler) saveDict(d *Dict) {
	if p.proto == 0 {
		p.write(opMark, opDict)
	} else {
		p.write(opEmptyDict)
	}
	p.put(d)
	if p.proto == 0 || len(d.Items) == 1 {
		for _, x := range d.Items {
			p.save(x.Key)
			p.save(x.Value)
			p.write(opSetItem)
		}
		return
	}
	for i := 0; i < len(d.Items); i += batchSize {
		p.write(opMark)
		for _, x := range d.Items[i:min(i+batchSize, len(d.Items))] {
			p.save(x.Key)
			p.save(x.Value)
		}
		p.write(opSetItems)
	}
	if n := len(d.Items); n > 0 && n%batchSize == 0 { // CPython only then sees that it was the last
		p.write(opMark, opSetItems)
	}
}

func (p *pickler) saveTuple(t *Tuple) {
	n := len(t.Items)
	if n == 0 && p.proto > 0 {
		p.write(opEmptyTuple)
		return
	}
	if i, ok := p.memo[t]; ok {
		p.get(i)
		return
	}
	short := p.proto >= 2 && n <= 3
	if !short {
		p.write(opMark)
	}
	for _, v := range t.Items {
		p.save(v)
	}
	if short {
		p.write(opTuple1 + byte(n) - 1)
	} else {
		p.write(opTuple)
	}
	if n > 0 { // the empty tuple is a single object that is never memoized
		p.put(t)
	}
}
