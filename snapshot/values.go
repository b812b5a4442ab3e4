package snapshot

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
func (v value) index() int  { return int(v >> kindBits) }
func (v value) int() int64  { return int64(v) >> kindBits }

// ref is the value for the memo; what doesn't fit (the 134-millionth event)
// can't be referred to any more, which no recorder does.
func (v value) ref() ref {
	if v>>32 != 0 {
		return ref(kOpaque)
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

// big is an integer that doesn't fit a value.
type big struct {
	low      uint64 // two's complement
	negative bool
	huge     bool // more than 64 bits
}
