package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on what a file may ask for. Real files stay far below all of them.
const (
	maxMarks  = 1000     // nested containers under construction
	maxString = 64 << 20 // bytes of one string
)

// decoder is a machine for the pickle's opcodes that recognises a snapshot's
// frames, events, blocks and segments as they close and appends them to
// columns. It never builds the objects themselves.
type decoder struct {
	b     []byte // the window of the stream that is at hand
	p     int    // position in b
	base  int64  // offset of b[0]
	feed  *feed
	buf   []byte // the feed's, which b is part of; nil when b is the decoder's own
	eof   bool
	more  int   // p from which more of the stream is to be read
	total int64 // size of the whole file, 0 when unknown

	stack []value
	marks []int
	memo  []ref

	strings  map[string]StringID
	lastText string // the last literal string and its id: recorders repeat them
	lastID   StringID
	frames   map[Frame]FrameID
	streams  map[uint64]uint32
	pools    map[Pool]uint32
	actions  map[StringID]Action
	raw      *rawStacks
	layout   [16]keyLook

	lists  []list
	dicts  []dict
	bigs   []big
	floats []float64

	events      Events // columns longer than rows
	rows        int
	firstAt     int64 // offset of the first event
	ooms        []OutOfMemory
	blocks      []Block
	segments    []segmentRow
	annotations []Annotation
	histories   []History

	limit int64 // bytes of memory that may be used; 0: no limit
	used  int64

	eventKeys uint64 // all keys seen in events, as bits
	out       *Snapshot
	damage    []damage
	unknown   map[[2]StringID]*Unknown
	scratch   []FrameID
	framed    []byte
}

// segmentRow is a segment whose device isn't sorted out yet.
type segmentRow struct {
	Segment
	device                int64
	firstBlock, numBlocks int
}

// damage counts one kind of thing that can't be right.
type damage struct {
	text  string
	count int
	at    int64
}

func newDecoder() *decoder {
	d := &decoder{
		strings: make(map[string]StringID, 1024), frames: make(map[Frame]FrameID, 1024),
		streams: map[uint64]uint32{0: 0}, pools: map[Pool]uint32{{}: 0}, actions: map[StringID]Action{},
		unknown: map[[2]StringID]*Unknown{}, firstAt: -1,
		out: &Snapshot{Streams: []uint64{0}, Pools: []Pool{{}}, Cut: -1, Fast: true, stacks: newStackTable()},
	}
	for i, s := range known {
		d.strings[s] = StringID(i)
		d.out.Strings = append(d.out.Strings, s)
	}
	for i := range actionNames {
		d.actions[sAlloc+StringID(i)] = Action(i)
	}
	d.raw, d.layout = newRawStacks(), noLayout()
	return d
}

// fail is an error at the present opcode.
func (d *decoder) fail(at int, format string, args ...any) error {
	return &Error{Offset: d.base + int64(at), Cause: fmt.Sprintf(format, args...)}
}

func (d *decoder) shape(at int, format string, args ...any) error {
	return &Error{Offset: d.base + int64(at), Cause: fmt.Sprintf(format, args...), Err: errShape}
}

// cut is the error for a file that ends too early.
func (d *decoder) cut() *Error {
	return &Error{Offset: d.base + int64(len(d.b)), Cause: "the file ends in the middle of the recording",
		Advice: "The dump was cut off: dump again, or read what is there with --partial.", Err: errTruncated}
}

// note counts damage; the text names the kind, the first place is kept.
func (d *decoder) note(text string) {
	for i := range d.damage {
		if d.damage[i].text == text {
			d.damage[i].count++
			return
		}
	}
	if len(d.damage) < 64 {
		d.damage = append(d.damage, damage{text, 1, d.base + int64(d.p)})
	}
}

// take accounts for memory about to be used.
func (d *decoder) take(bytes int64) error {
	d.used += bytes
	if d.limit > 0 && d.used > d.limit {
		return &Error{Offset: d.base + int64(d.p), Cause: fmt.Sprintf("needs more than the %d MiB of memory allowed", d.limit>>20),
			Advice: "Allow more with --max-memory."}
	}
	return nil
}

// need makes n bytes available at p.
func (d *decoder) need(n int) error {
	if len(d.b)-d.p >= n {
		return nil
	}
	if err := d.fill(n); err != nil {
		return err
	}
	if len(d.b)-d.p < n {
		return d.cut()
	}
	return nil
}

// line is the text up to the next newline, as protocol 0 writes arguments.
func (d *decoder) line() ([]byte, error) {
	for scanned := 0; ; {
		if i := strings.IndexByte(text(d.b[d.p+scanned:]), '\n'); i >= 0 {
			s := d.b[d.p : d.p+scanned+i]
			d.p += scanned + i + 1
			return s, nil
		}
		scanned = len(d.b) - d.p
		if scanned > maxString {
			return nil, d.fail(d.p, "a line of more than %d bytes", maxString)
		}
		if err := d.need(scanned + 1); err != nil {
			return nil, err
		}
	}
}

func (d *decoder) push(v value) { d.stack = append(d.stack, v) }

// top is the position of the topmost value above the last mark.
func (d *decoder) top(at int, name string) (int, error) {
	if len(d.stack) <= d.floor() {
		return 0, d.fail(at, "%s with nothing on the stack", name)
	}
	return len(d.stack) - 1, nil
}

// floor is the height of the stack at the last mark.
func (d *decoder) floor() int {
	if len(d.marks) == 0 {
		return 0
	}
	return d.marks[len(d.marks)-1]
}

// popMark is the height of the stack at the last mark, which it removes.
func (d *decoder) popMark(at int, name string) (int, error) {
	if len(d.marks) == 0 {
		return 0, d.fail(at, "%s without a mark", name)
	}
	m := d.marks[len(d.marks)-1]
	d.marks = d.marks[:len(d.marks)-1]
	return m, nil
}

// run decodes up to STOP; the result is the one value on the stack.
func (d *decoder) run() (value, error) {
	for {
		if d.p >= d.more {
			if err := d.fill(margin); err != nil {
				return 0, err
			}
		}
		if d.p >= len(d.b) {
			if err := d.need(1); err != nil {
				return 0, err
			}
		}
		if len(d.stack) == cap(d.stack) {
			if err := d.take(int64(cap(d.stack)+64) * 8); err != nil {
				return 0, err
			}
		}
		at := d.p
		op := d.b[at]
		switch {
		case op == opEmptyDict && d.fastEvents():
			continue
		case op == opEmptyList && d.fastFrames():
			continue
		}
		d.p++
		if op == opStop {
			if len(d.stack) != 1 || len(d.marks) != 0 {
				return 0, d.fail(at, "STOP with %d values and %d marks on the stack", len(d.stack), len(d.marks))
			}
			return d.stack[0], nil
		}
		if err := d.step(op, at); err != nil {
			return 0, err
		}
	}
}

// step carries out one opcode whose first byte has been read.
func (d *decoder) step(op byte, at int) error {
	switch op {
	case opProto:
		if err := d.need(1); err != nil {
			return err
		}
		d.out.Protocol = int(d.b[d.p])
		if d.b[d.p] > 5 {
			return d.fail(at, "pickle protocol %d; 0 to 5 are known", d.b[d.p])
		}
		d.p++
	case opFrame:
		n, err := d.uint(8)
		if err != nil {
			return err
		}
		if d.beyond(n) {
			return d.cutOr(at, "FRAME", n)
		}
	case opMark:
		if len(d.marks) >= maxMarks {
			return d.fail(at, "nesting deeper than %d", maxMarks)
		}
		d.marks = append(d.marks, len(d.stack))
	case opPop:
		if len(d.stack) > d.floor() {
			d.stack = d.stack[:len(d.stack)-1]
		} else if _, err := d.popMark(at, "POP"); err != nil {
			return err
		}
	case opPopMark:
		m, err := d.popMark(at, "POP_MARK")
		if err != nil {
			return err
		}
		d.stack = d.stack[:m]
	case opDup:
		i, err := d.top(at, "DUP")
		if err != nil {
			return err
		}
		d.push(d.stack[i])
	case opNone:
		d.push(kNone)
	case opNewTrue:
		d.push(newValue(kBool, 1))
	case opNewFalse:
		d.push(newValue(kBool, 0))
	case opInt, opLong, opBinInt, opBinInt1, opBinInt2, opLong1, opLong4:
		return d.integer(op, at)
	case opFloat, opBinFloat:
		return d.float(op, at)
	case opUnicode, opString, opBinString, opShortBinString, opBinUnicode, opShortBinUnicode, opBinUnicode8:
		id, err := d.literal(op, at)
		if err != nil {
			return err
		}
		d.push(newValue(kString, uint64(id)))
	case opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8:
		n, err := d.length(op, at)
		if err != nil {
			return err
		}
		if err := d.skip(n); err != nil {
			return err
		}
		d.push(kOpaque)
	case opPut, opBinPut, opLongBinPut, opMemoize:
		return d.put(op, at)
	case opGet, opBinGet, opLongBinGet:
		return d.get(op, at)
	case opEmptyList, opList, opEmptyDict, opDict, opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3,
		opEmptySet, opFrozenSet, opAppend, opAppends, opAddItems, opSetItem, opSetItems:
		return d.container(op, at)
	default:
		if name, ok := forbidden[op]; ok {
			return d.refuse(op, at, name)
		}
		return d.fail(at, "byte 0x%02x is no pickle opcode", op)
	}
	return nil
}

// refuse explains an opcode that would import or call, with what it names.
func (d *decoder) refuse(op byte, at int, name string) error {
	what := name
	switch op {
	case opGlobal, opInst:
		if module, err := d.line(); err == nil {
			m := string(module)
			if attr, err := d.line(); err == nil {
				what = fmt.Sprintf("%s %.80q", name, m+"."+string(attr))
			}
		}
	case opStackGlobal:
		if n := len(d.stack); n >= 2 && d.stack[n-1].kind() == kString && d.stack[n-2].kind() == kString {
			what = fmt.Sprintf("%s %.80q", name, d.textOf(d.stack[n-2])+"."+d.textOf(d.stack[n-1]))
		}
	}
	return &Error{Offset: d.base + int64(at), Cause: what + " refused: a memory snapshot has no code to import or call",
		Advice: "This pickle was not written by torch.cuda.memory._dump_snapshot. Don't load it with pickle.load either."}
}

func (d *decoder) textOf(v value) string { return d.out.Strings[v.index()] }

// cutOr is the error for a length beyond the end of the file.
func (d *decoder) cutOr(at int, name string, n uint64) error {
	e := d.cut()
	e.Cause = fmt.Sprintf("%s of %d bytes at offset %d goes beyond the end of the file", name, n, d.base+int64(at))
	return e
}

// uint reads n little-endian bytes.
func (d *decoder) uint(n int) (uint64, error) {
	if err := d.need(n); err != nil {
		return 0, err
	}
	var buf [8]byte
	copy(buf[:], d.b[d.p:d.p+n])
	d.p += n
	return binary.LittleEndian.Uint64(buf[:]), nil
}

// length reads the length that an opcode's argument begins with.
func (d *decoder) length(op byte, at int) (uint64, error) {
	width := 4
	switch op {
	case opShortBinUnicode, opShortBinString, opShortBinBytes, opLong1:
		width = 1
	case opBinUnicode8, opBinBytes8, opByteArray8:
		width = 8
	}
	n, err := d.uint(width)
	if err != nil {
		return 0, err
	}
	if d.beyond(n) {
		return 0, d.cutOr(at, "a length", n)
	}
	return n, nil
}

// skip passes over n bytes without keeping them.
func (d *decoder) skip(n uint64) error {
	for n > 0 {
		if err := d.need(1); err != nil {
			return err
		}
		k := min(n, uint64(len(d.b)-d.p))
		d.p += int(k)
		n -= k
	}
	return nil
}

func (d *decoder) integer(op byte, at int) error {
	switch op {
	case opBinInt1, opBinInt2, opBinInt:
		width := map[byte]int{opBinInt1: 1, opBinInt2: 2, opBinInt: 4}[op]
		x, err := d.uint(width)
		if err != nil {
			return err
		}
		n := int64(x)
		if op == opBinInt {
			n = int64(int32(x))
		}
		d.push(newValue(kInt, uint64(n)))
	case opLong1, opLong4:
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
	default: // opInt, opLong
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
	if op == opInt && (s == "00" || s == "01") {
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
func (d *decoder) number(n int64) value {
	if v := newValue(kInt, uint64(n)); v.int() == n {
		return v
	}
	return d.bigValue(big{low: uint64(n), negative: n < 0})
}

func (d *decoder) bigValue(b big) value {
	d.bigs = append(d.bigs, b)
	return newValue(kBig, uint64(len(d.bigs)-1))
}

// long is a little-endian two's complement integer of any length.
func (d *decoder) long(b []byte) value {
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
		return d.bigValue(big{low: low, negative: negative, huge: true})
	}
	if negative == (int64(low) < 0) {
		return d.number(int64(low))
	}
	return d.bigValue(big{low: low, negative: negative, huge: negative})
}

func (d *decoder) float(op byte, at int) error {
	var f float64
	if op == opBinFloat {
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

// literal reads a string opcode's argument and interns it.
func (d *decoder) literal(op byte, at int) (StringID, error) {
	switch op {
	case opUnicode, opString:
		line, err := d.line()
		if err != nil {
			return 0, err
		}
		s, err := unescape(string(line), op == opString)
		if err != nil {
			return 0, d.fail(at, "%v", err)
		}
		return d.intern([]byte(s))
	}
	n, err := d.length(op, at)
	if err != nil {
		return 0, err
	}
	if n > maxString {
		return 0, d.fail(at, "a string of %d bytes", n)
	}
	if err := d.need(int(n)); err != nil {
		return 0, err
	}
	s := d.b[d.p : d.p+int(n)]
	d.p += int(n)
	return d.intern(s)
}

// intern gives a string's id; a new string is copied, once.
func (d *decoder) intern(s []byte) (StringID, error) {
	if string(s) == d.lastText {
		return d.lastID, nil
	}
	id, ok := d.strings[string(s)]
	if !ok {
		if err := d.take(2*int64(len(s)) + 64); err != nil {
			return 0, err
		}
		id = StringID(len(d.out.Strings))
		clean := string(s)
		d.strings[clean] = id
		if !utf8.ValidString(clean) {
			d.note("string that is not UTF-8, shown with replacement characters")
			clean = strings.ToValidUTF8(clean, "\uFFFD")
		}
		d.out.Strings = append(d.out.Strings, clean)
	}
	d.lastText, d.lastID = d.out.Strings[id], id
	return id, nil
}

func (d *decoder) put(op byte, at int) error {
	i, err := d.top(at, "PUT")
	if err != nil {
		return err
	}
	slot := uint64(len(d.memo))
	switch op {
	case opBinPut:
		slot, err = d.uint(1)
	case opLongBinPut:
		slot, err = d.uint(4)
	case opPut:
		var line []byte
		if line, err = d.line(); err == nil {
			if slot, err = strconv.ParseUint(string(line), 10, 32); err != nil {
				return d.fail(at, "PUT %.20q is no memo position", line)
			}
		}
	}
	if err != nil {
		return err
	}
	// A memo has one entry for each PUT, so a sparse position is a trick to
	// make readers allocate.
	if slot > uint64(len(d.memo))+1<<16 {
		return d.fail(at, "PUT %d beyond a memo of %d entries", slot, len(d.memo))
	}
	if err := d.growMemo(int(slot) + 1); err != nil {
		return err
	}
	if int(slot) < len(d.memo) && d.memo[slot] != unset {
		d.raw, d.layout = newRawStacks(), noLayout() // what stacks look like in the file may have changed
	}
	for int(slot) >= len(d.memo) {
		d.memo = append(d.memo, unset)
	}
	v := d.stack[i]
	if v.kind() == kDict {
		if e := &d.dicts[v.index()]; !e.done && e.memo < 0 && slot < math.MaxInt32 {
			e.memo = int32(slot)
		}
	}
	d.memo[slot] = v.ref()
	return nil
}

// unset marks a memo position that no PUT has filled.
const unset = ref(kOpaque) | 1<<31

// growMemo makes room for n memo entries at once, as many as the file is
// likely to need: untouched memory costs nothing.
func (d *decoder) growMemo(n int) error {
	if n <= cap(d.memo) {
		return nil
	}
	size := d.estimate(n, cap(d.memo))
	if err := d.take(int64(size-cap(d.memo)) * 4); err != nil {
		return err
	}
	memo := make([]ref, len(d.memo), size)
	copy(memo, d.memo)
	d.memo = memo
	return nil
}

// estimate is the capacity for a column that has filled old places and needs
// n: what the rest of the file will bring, or half as much again.
func (d *decoder) estimate(n, old int) int {
	size := max(n, old+old/2, 4096)
	done := d.base + int64(d.p)
	if start := max(d.firstAt, 0); d.total > 0 && old >= 4096 && done > start {
		size = max(size, int(float64(n)*float64(d.total-start)/float64(done-start)*1.5))
	}
	return size
}

func (d *decoder) get(op byte, at int) error {
	var slot uint64
	var err error
	switch op {
	case opBinGet:
		slot, err = d.uint(1)
	case opLongBinGet:
		slot, err = d.uint(4)
	default:
		var line []byte
		if line, err = d.line(); err == nil {
			if slot, err = strconv.ParseUint(string(line), 10, 32); err != nil {
				return d.fail(at, "GET %.20q is no memo position", line)
			}
		}
	}
	if err != nil {
		return err
	}
	if slot >= uint64(len(d.memo)) || d.memo[slot] == unset {
		return d.fail(at, "GET %d outside memo of %d entries", slot, len(d.memo))
	}
	d.push(value(d.memo[slot]))
	return nil
}
