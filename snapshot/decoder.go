package snapshot

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// Bounds on what a file may ask for. Real files stay far below all of them.
const (
	maxString = 64 << 20 // bytes of one string
	maxText   = 8 << 10  // of it that are kept: two bytes of a file may refer to it again
)

// decoder is a machine for the pickle's opcodes that recognises a snapshot's
// frames, events, blocks and segments as they close and appends them to
// columns. It never builds the objects themselves.
type decoder struct {
	b      []byte      // what is at hand of the file
	p      int         // position in b
	base   int64       // offset of b[0]
	whole  []byte      // all of the file, where there is no feed
	passed func(p int) // nil, or told now and then what was read of it
	feed   *feed
	buf    []byte // the feed's, which b is part of; nil when b is the decoder's own
	eof    bool
	torn   bool  // a container ended too early
	more   int   // p from which more of the file is to be made available
	total  int64 // size of the whole file, 0 when unknown

	stack      []value
	marks      []int
	memo       []ref
	memoGrowth growth
	// aliased: a dictionary was referred to before it turned out to be a row.
	aliased bool
	holes   int64 // positions of memo that no PUT filled
	// rewritten: a position of memo was filled twice, which no pickler does;
	// the tight loops rely on it.
	rewritten bool

	strings    map[string]StringID
	lastText   string // the last literal string and its id: recorders repeat them
	lastID     StringID
	frames     map[Frame]FrameID
	lastStream struct {
		raw uint64
		id  uint32
	}
	streams   map[uint64]uint32
	pools     map[Pool]uint32
	actions   map[StringID]Action
	raw       *rawStacks
	fields    field       // of events: what comes first is behind it
	states    field       // of all other rows
	forms     forms       // of whole events
	seen      []seenField // of the last event
	framed    bool        // there was a FRAME amid them
	inState   bool        // the last row was one of these
	numFields int
	strange   [4]struct { // keys of the event at hand that aren't known
		key   StringID
		value value
	}

	lists  []list // the first one is tableList
	dicts  []dict
	kept   int // values that were put into them
	bigs   []big
	floats []float64

	events      Events // columns longer than rows
	rows        int
	eventGrowth growth
	readyRows   int // memory is behind the columns up to here
	readyMemo   int
	ooms        []OutOfMemory
	blocks      []Block
	segments    []segmentRow
	annotations []Annotation
	histories   []History

	partial bool // the file may be cut off

	limit int64 // bytes of memory that may be used; 0: no limit
	used  int64

	flattened int    // settings looked at
	place     int64  // where damage is said to be, 0: where it is found
	eventKeys uint64 // all keys seen in events, as bits
	out       *Snapshot
	damage    []damage
	unknown   map[[2]StringID]*Unknown
	scratch   []FrameID
	unframed  []byte
}

// tableList stands for every list that was read together with the rows in it.
var tableList = newValue(kList, 0)

// segmentRow is a segment whose device isn't sorted out yet.
type segmentRow struct {
	Segment
	device                int64
	firstBlock, numBlocks int
	placed                bool // its device has it
}

// damage counts one kind of thing that can't be right.
type damage struct {
	text  string
	count int
	at    int64
}

func newDecoder(o Options) *decoder {
	d := &decoder{
		total: o.Size, limit: o.MaxMemory, partial: o.Partial,
		strings: make(map[string]StringID, 1024), frames: make(map[Frame]FrameID, 1024),
		streams: map[uint64]uint32{0: 0}, pools: map[Pool]uint32{{}: 0}, actions: map[StringID]Action{},
		unknown: map[[2]StringID]*Unknown{},
		out:     &Snapshot{Streams: []uint64{0}, Pools: []Pool{{}}, Cut: -1, stacks: newStackTable()},
	}
	for i, s := range known {
		d.strings[s] = StringID(i)
		d.out.Strings = append(d.out.Strings, s)
	}
	for i := range actionNames {
		d.actions[sAlloc+StringID(i)] = Action(i)
	}
	d.raw = newRawStacks()
	d.lists = []list{{expanded: true}}
	d.fields.steps, d.states.steps = &eventSteps, &stateSteps
	d.forms.patience = patience
	return d
}

// fail is an error at the present opcode.
func (d *decoder) fail(at int, format string, args ...any) error {
	return &Error{Offset: d.base + int64(at), Cause: fmt.Sprintf(format, args...)}
}

func (d *decoder) shape(at int, format string, args ...any) error {
	return &Error{Offset: d.base + int64(at), Cause: fmt.Sprintf(format, args...), Err: errShape}
}

// end is where the file ends, once that is known.
func (d *decoder) end() int64 {
	if read := d.base + int64(len(d.b)); d.eof {
		return read
	}
	return d.total
}

// cut is the error for a file that ends too early.
func (d *decoder) cut() *Error {
	return &Error{Offset: d.end(), Cause: "the file ends in the middle of the recording",
		Advice: "The dump was cut off: dump again, or read what is there with --partial.", Err: ErrCut}
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
		at := d.base + int64(d.p)
		if d.place > 0 {
			at = d.place
		}
		d.damage = append(d.damage, damage{text, 1, at})
	}
}

// take accounts for memory about to be used.
func (d *decoder) take(bytes int64) error {
	d.used += bytes
	if d.limit > 0 && d.used > d.limit {
		return tooMuch(d.base+int64(d.p), d.limit)
	}
	return nil
}

// maxLoose is how many values no row has to be told for: a recorder writes a
// handful of them for each row, in lists of a thousand at a time.
const maxLoose = 1 << 22

// looseValues refuses values piled up of which no row of a snapshot is made. They take
// a byte each in the file, next to none when it is compressed, and much memory.
func (d *decoder) looseValues() error {
	rows := d.rows + len(d.blocks) + len(d.segments) + len(d.histories) + len(d.annotations) + len(d.out.Frames) +
		len(d.out.Strings)
	if n := len(d.stack) + len(d.lists) + len(d.dicts) + d.kept + len(d.memo); n > maxLoose+16*rows {
		return d.fail(d.p, "%d values piled up, hardly an event, segment, block or frame among them: no memory snapshot", n)
	}
	return nil
}

func tooMuch(at, limit int64) error {
	return &Error{Offset: at, Err: ErrMemory, Cause: fmt.Sprintf("needs more than the %d MiB of memory allowed for reading it",
		limit>>20), Advice: "Allow more with --max-memory."}
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
			more := cap(d.stack) + 64
			if err := d.take(int64(more) * 8); err != nil {
				return 0, err
			}
			d.stack = slices.Grow(d.stack, more)
		}
		at := d.p
		op := d.b[at]
		switch {
		case d.rewritten:
		case op == pickle.EmptyDict && d.fastRows():
			continue
		case op == pickle.EmptyList && d.fastFrames():
			continue
		case d.fastScalars():
			continue
		}
		d.p++
		if op == pickle.Stop {
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
	case pickle.Proto:
		if err := d.need(1); err != nil {
			return err
		}
		d.out.Protocol = int(d.b[d.p])
		if d.b[d.p] > 5 {
			return d.fail(at, "pickle protocol %d; 0 to 5 are known", d.b[d.p])
		}
		d.p++
	case pickle.Frame:
		n, err := d.uint(8)
		if err != nil {
			return err
		}
		if d.beyond(n) && !d.partial { // up to the cut a frame's contents are good
			return d.cutOr(at, "FRAME", n)
		}
	case pickle.Mark:
		if len(d.marks) >= pickle.MaxMarks {
			return d.fail(at, "nesting deeper than %d", pickle.MaxMarks)
		}
		d.marks = append(d.marks, len(d.stack))
	case pickle.Pop:
		if len(d.stack) > d.floor() {
			d.stack = d.stack[:len(d.stack)-1]
		} else if _, err := d.popMark(at, "POP"); err != nil {
			return err
		}
	case pickle.PopMark:
		m, err := d.popMark(at, "POP_MARK")
		if err != nil {
			return err
		}
		d.stack = d.stack[:m]
	case pickle.Dup:
		i, err := d.top(at, "DUP")
		if err != nil {
			return err
		}
		d.aliased = d.aliased || d.stack[i].kind() == kDict
		d.push(d.stack[i])
	case pickle.None:
		d.push(kNone)
	case pickle.NewTrue:
		d.push(newValue(kBool, 1))
	case pickle.NewFalse:
		d.push(newValue(kBool, 0))
	case pickle.Int, pickle.Long, pickle.BinInt, pickle.BinInt1, pickle.BinInt2, pickle.Long1, pickle.Long4:
		return d.integer(op, at)
	case pickle.Float, pickle.BinFloat:
		return d.float(op, at)
	case pickle.Unicode, pickle.String, pickle.BinString, pickle.ShortBinString, pickle.BinUnicode, pickle.ShortBinUnicode, pickle.BinUnicode8:
		id, err := d.literal(op, at)
		if err != nil {
			return err
		}
		d.push(newValue(kString, uint64(id)))
	case pickle.BinBytes, pickle.ShortBinBytes, pickle.BinBytes8, pickle.ByteArray8:
		n, err := d.length(op, at)
		if err != nil {
			return err
		}
		if err := d.skip(n); err != nil {
			return err
		}
		d.push(kOpaque)
	case pickle.Put, pickle.BinPut, pickle.LongBinPut, pickle.Memoize:
		return d.put(op, at)
	case pickle.Get, pickle.BinGet, pickle.LongBinGet:
		return d.get(op, at)
	case pickle.EmptyList, pickle.List, pickle.EmptyDict, pickle.Dict, pickle.EmptyTuple, pickle.Tuple, pickle.Tuple1, pickle.Tuple2, pickle.Tuple3,
		pickle.EmptySet, pickle.FrozenSet, pickle.Append, pickle.Appends, pickle.AddItems, pickle.SetItem, pickle.SetItems:
		return d.container(op, at)
	default:
		if name, ok := pickle.Forbidden[op]; ok {
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
	case pickle.Global, pickle.Inst:
		if module, err := d.line(); err == nil {
			m := string(module)
			if attr, err := d.line(); err == nil {
				what = fmt.Sprintf("%s %.80q", name, m+"."+string(attr))
			}
		}
	case pickle.StackGlobal:
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
	e.Cause = fmt.Sprintf("the file ends in the middle of the recording: %s of %d bytes at offset %d goes beyond the end of "+
		"the file", name, n, d.base+int64(at))
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
	case pickle.ShortBinUnicode, pickle.ShortBinString, pickle.ShortBinBytes, pickle.Long1:
		width = 1
	case pickle.BinUnicode8, pickle.BinBytes8, pickle.ByteArray8:
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

// literal reads a string opcode's argument and interns it.
func (d *decoder) literal(op byte, at int) (StringID, error) {
	switch op {
	case pickle.Unicode, pickle.String:
		line, err := d.line()
		if err != nil {
			return 0, err
		}
		s, err := pickle.Unescape(string(line), op == pickle.String)
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
	if len(s) > maxText {
		s = d.shortened(s)
	}
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

// shortened is the beginning of a text that is too long to be a name.
func (d *decoder) shortened(s []byte) []byte {
	d.note("text of more than 8 KiB, cut")
	n := maxText
	for n > maxText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return append(s[:n:n], "\u2026"...)
}

// text views bytes as a string without copying; the bytes must not change while it is used.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
