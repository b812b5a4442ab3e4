package snapshot

import "github.com/vramscope/vramscope/snapshot/pickle"

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
	bigs    []pickle.Integer
	floats  []float64
	scratch []FrameID
}

// value is a Python object while the file is being read: the kind in the low
// bits, a number or an index above. The same encoding, cut to 32 bits, stands
// in the memo.
type value uint64

type ref uint32

const kindBits = 5

const (
	kNone    value = iota // payload 0
	kBool                 // 0, 1
	kInt                  // signed, 59 bits
	kBig                  // index into decoder.bigs
	kFloat                // index into decoder.floats
	kString               // StringID
	kList                 // index into decoder.lists
	kDict                 // index into decoder.dicts
	kTuple                // index into decoder.lists
	kPool                 // index into Snapshot.Pools: a tuple of two integers
	kFrame                // FrameID
	kStack                // StackID: a finished list of frames
	kEvent                // index into all events of the file
	kBlock                // index into decoder.blocks
	kSegment              // index into decoder.segments
	kNote                 // index into decoder.annotations
	kHistory              // index into decoder.histories
	kOpaque               // bytes, sets and other harmless things that no snapshot has
)

func newValue(kind value, payload uint64) value { return value(payload)<<kindBits | kind }

func (v value) kind() value { return v & (1<<kindBits - 1) }

func (v value) index() int { return int(v >> kindBits) }

func (v value) int() int64 { return int64(v) >> kindBits }

// ref is the value for the memo; what doesn't fit (a large number, the 134-millionth
// event) can't be referred to any more, which no recorder does.
func (v value) ref() ref {
	if v>>32 != 0 {
		return unfit
	}
	return ref(v)
}

// list is a Python list or tuple. Rows of a table that were read one after the
// other, millions in a trace, are kept as a run instead of one by one.
type list struct {
	items    []value
	run      value // the first row of a run, kind included
	count    int   // rows in the run; items is nil then
	stack    StackID
	isStack  bool // stack holds the interned frames of this list
	expanded bool // used as a table already: a second use would multiply a file's size
}

// dict is a Python dictionary whose meaning isn't known yet, or closed.
type dict struct {
	items  []value // key, value, key, value
	mask   uint64  // of the known keys among them
	closed value   // what it turned out to be, when done
	memo   int32   // where it stands in the memo, -1: nowhere
	done   bool
}

// looseValues refuses values piled up of which no row of a snapshot is made. They take
// a byte each in the file, next to none when it is compressed, and much memory.
func (o *objects) looseValues() error {
	rows := o.rows + len(o.blocks) + len(o.segments) + len(o.histories) + len(o.annotations) + len(o.out.Frames) +
		len(o.out.Strings)
	if n := len(o.stack) + len(o.lists) + len(o.dicts) + o.kept + len(o.memo); n > maxLoose+16*rows {
		return o.fail(o.p, "%d values piled up, hardly an event, segment, block or frame among them: no memory snapshot", n)
	}
	return o.roomFor(stackedBytes * int64(len(o.stack)))
}

// stackedBytes are those of a value on the stack at worst: there, in a stack that is being
// made larger, and in the list that it is for.
const stackedBytes = 18

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
