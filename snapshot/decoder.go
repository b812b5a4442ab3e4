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

// window is what is at hand of the file, and the memory that reading it takes.
type window struct {
	b      []byte      // what is at hand of the file
	p      int         // position in b
	base   int64       // offset of b[0]
	whole  []byte      // all of the file, where there is no feed
	passed func(p int) // nil, or told now and then what was read of it
	feed   *feed
	buf    []byte // the feed's, which b is part of; nil when b is the decoder's own
	eof    bool
	torn   bool         // a container ended too early
	more   int          // p from which more of the file is to be made available
	total  int64        // size of the whole file, 0 when unknown
	before func() error // called before more is made available

	limit int64 // bytes of memory that may be used; 0: no limit
	used  int64
}

// tables are what the file said so far, as interned texts, frames and stacks and as
// rows of columns.
type tables struct {
	window

	strings    map[string]StringID
	lastText   string // the last literal string and its id: recorders repeat them
	lastID     StringID
	frames     map[Frame]FrameID
	lastStream struct {
		raw uint64
		id  uint32
	}
	streams map[uint64]uint32
	pools   map[Pool]uint32
	actions map[StringID]Action

	events      Events // columns longer than rows
	rows        int
	eventGrowth growth
	readyRows   int // memory is behind the columns up to here
	ooms        []OutOfMemory
	blocks      []Block
	segments    []segmentRow
	annotations []Annotation
	histories   []History

	eventKeys uint64 // all keys seen in events, as bits
	out       *Snapshot
	damage    []damage
	place     int64 // where damage is said to be, 0: where it is found
	unknown   map[[2]StringID]*Unknown
}

// objects are Python's that are under construction, and those that may be referred to
// again.
type objects struct {
	tables

	stack      []value
	marks      []int
	memo       []ref
	memoGrowth growth
	readyMemo  int // memory is behind it up to here
	// aliased: a dictionary was referred to before it turned out to be a row.
	aliased bool
	holes   int64 // positions of memo that no PUT filled
	// rewritten: a position of memo was filled twice, which no pickler does;
	// the tight loops rely on it.
	rewritten bool

	lists   []list // the first one is tableList
	dicts   []dict
	kept    int // values that were put into them
	bigs    []big
	floats  []float64
	scratch []FrameID
}

// decoder is a machine for the pickle's opcodes that recognises a snapshot's
// frames, events, blocks and segments as they close and appends them to
// columns. It never builds the objects themselves.
type decoder struct {
	fast

	partial   bool // the file may be cut off
	flattened int  // settings looked at
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
	d := &decoder{partial: o.Partial}
	d.total, d.limit, d.before = o.Size, o.MaxMemory, d.objects.beforeMore
	d.strings, d.frames, d.actions = make(map[string]StringID, 1024), make(map[Frame]FrameID, 1024), map[StringID]Action{}
	d.streams, d.pools, d.unknown = map[uint64]uint32{0: 0}, map[Pool]uint32{{}: 0}, map[[2]StringID]*Unknown{}
	d.out = &Snapshot{Streams: []uint64{0}, Pools: []Pool{{}}, Cut: -1, stacks: newStackTable()}
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
func (w *window) fail(at int, format string, args ...any) error {
	return &Error{Offset: w.base + int64(at), Cause: fmt.Sprintf(format, args...)}
}

func (w *window) shape(at int, format string, args ...any) error {
	return &Error{Offset: w.base + int64(at), Cause: fmt.Sprintf(format, args...), Err: errShape}
}

// end is where the file ends, once that is known.
func (w *window) end() int64 {
	if read := w.base + int64(len(w.b)); w.eof {
		return read
	}
	return w.total
}

// cut is the error for a file that ends too early.
func (w *window) cut() *Error {
	return &Error{Offset: w.end(), Cause: "the file ends in the middle of the recording",
		Advice: "The dump was cut off: dump again, or read what is there with --partial.", Err: ErrCut}
}

// note counts damage; the text names the kind, the first place is kept.
func (t *tables) note(text string) {
	for i := range t.damage {
		if t.damage[i].text == text {
			t.damage[i].count++
			return
		}
	}
	if len(t.damage) < 64 {
		at := t.base + int64(t.p)
		if t.place > 0 {
			at = t.place
		}
		t.damage = append(t.damage, damage{text, 1, at})
	}
}

// take accounts for memory about to be used.
func (w *window) take(bytes int64) error {
	w.used += bytes
	if w.limit > 0 && w.used > w.limit {
		return tooMuch(w.base+int64(w.p), w.limit)
	}
	return nil
}

// maxLoose is how many values no row has to be told for: a recorder writes a
// handful of them for each row, in lists of a thousand at a time.
const maxLoose = 1 << 22

// looseValues refuses values piled up of which no row of a snapshot is made. They take
// a byte each in the file, next to none when it is compressed, and much memory.
func (o *objects) looseValues() error {
	rows := o.rows + len(o.blocks) + len(o.segments) + len(o.histories) + len(o.annotations) + len(o.out.Frames) +
		len(o.out.Strings)
	if n := len(o.stack) + len(o.lists) + len(o.dicts) + o.kept + len(o.memo); n > maxLoose+16*rows {
		return o.fail(o.p, "%d values piled up, hardly an event, segment, block or frame among them: no memory snapshot", n)
	}
	return nil
}

func tooMuch(at, limit int64) error {
	return &Error{Offset: at, Err: ErrMemory, Cause: fmt.Sprintf("needs more than the %d MiB of memory allowed for reading it",
		limit>>20), Advice: "Allow more with --max-memory."}
}

// need makes n bytes available at p.
func (w *window) need(n int) error {
	if len(w.b)-w.p >= n {
		return nil
	}
	if err := w.fill(n); err != nil {
		return err
	}
	if len(w.b)-w.p < n {
		return w.cut()
	}
	return nil
}

// line is the text up to the next newline, as protocol 0 writes arguments.
func (w *window) line() ([]byte, error) {
	for scanned := 0; ; {
		if i := strings.IndexByte(text(w.b[w.p+scanned:]), '\n'); i >= 0 {
			s := w.b[w.p : w.p+scanned+i]
			w.p += scanned + i + 1
			return s, nil
		}
		scanned = len(w.b) - w.p
		if scanned > maxString {
			return nil, w.fail(w.p, "a line of more than %d bytes", maxString)
		}
		if err := w.need(scanned + 1); err != nil {
			return nil, err
		}
	}
}

func (o *objects) push(v value) { o.stack = append(o.stack, v) }

// top is the position of the topmost value above the last mark.
func (o *objects) top(at int, name string) (int, error) {
	if len(o.stack) <= o.floor() {
		return 0, o.fail(at, "%s with nothing on the stack", name)
	}
	return len(o.stack) - 1, nil
}

// floor is the height of the stack at the last mark.
func (o *objects) floor() int {
	if len(o.marks) == 0 {
		return 0
	}
	return o.marks[len(o.marks)-1]
}

// popMark is the height of the stack at the last mark, which it removes.
func (o *objects) popMark(at int, name string) (int, error) {
	if len(o.marks) == 0 {
		return 0, o.fail(at, "%s without a mark", name)
	}
	m := o.marks[len(o.marks)-1]
	o.marks = o.marks[:len(o.marks)-1]
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

func (t *tables) textOf(v value) string { return t.out.Strings[v.index()] }

// cutOr is the error for a length beyond the end of the file.
func (w *window) cutOr(at int, name string, n uint64) error {
	e := w.cut()
	e.Cause = fmt.Sprintf("the file ends in the middle of the recording: %s of %d bytes at offset %d goes beyond the end of "+
		"the file", name, n, w.base+int64(at))
	return e
}

// uint reads n little-endian bytes.
func (w *window) uint(n int) (uint64, error) {
	if err := w.need(n); err != nil {
		return 0, err
	}
	var buf [8]byte
	copy(buf[:], w.b[w.p:w.p+n])
	w.p += n
	return binary.LittleEndian.Uint64(buf[:]), nil
}

// length reads the length that an opcode's argument begins with.
func (w *window) length(op byte, at int) (uint64, error) {
	width := 4
	switch op {
	case pickle.ShortBinUnicode, pickle.ShortBinString, pickle.ShortBinBytes, pickle.Long1:
		width = 1
	case pickle.BinUnicode8, pickle.BinBytes8, pickle.ByteArray8:
		width = 8
	}
	n, err := w.uint(width)
	if err != nil {
		return 0, err
	}
	if w.beyond(n) {
		return 0, w.cutOr(at, "a length", n)
	}
	return n, nil
}

// skip passes over n bytes without keeping them.
func (w *window) skip(n uint64) error {
	for n > 0 {
		if err := w.need(1); err != nil {
			return err
		}
		k := min(n, uint64(len(w.b)-w.p))
		w.p += int(k)
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
func (t *tables) intern(s []byte) (StringID, error) {
	if len(s) > maxText {
		s = t.shortened(s)
	}
	if string(s) == t.lastText {
		return t.lastID, nil
	}
	id, ok := t.strings[string(s)]
	if !ok {
		if err := t.take(2*int64(len(s)) + 64); err != nil {
			return 0, err
		}
		id = StringID(len(t.out.Strings))
		clean := string(s)
		t.strings[clean] = id
		if !utf8.ValidString(clean) {
			t.note("string that is not UTF-8, shown with replacement characters")
			clean = strings.ToValidUTF8(clean, "\uFFFD")
		}
		t.out.Strings = append(t.out.Strings, clean)
	}
	t.lastText, t.lastID = t.out.Strings[id], id
	return id, nil
}

// shortened is the beginning of a text that is too long to be a name.
func (t *tables) shortened(s []byte) []byte {
	t.note("text of more than 8 KiB, cut")
	n := maxText
	for n > maxText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return append(s[:n:n], "\u2026"...)
}

// text views bytes as a string without copying; the bytes must not change while it is used.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
