package snapshot

import (
	"math"
	"unsafe"

	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// stateSteps are those of all rows but events: segments, blocks, frames, annotations.
var stateSteps = stepTable{
	number: [numKeys + 1]step{sAddress: stepAddress, sSize: stepSize, sRequestedSize: stepRequested, sTotalSize: stepTotalSize,
		sAllocatedSize: stepAllocated, sActiveSize: stepActive, sStream: stepStream, sDevice: stepDevice, sLine: stepLine,
		sTimeUS: stepTime},
	reference: [numKeys + 1]step{sState: stepState, sSegmentType: stepSegmentType, sSegmentPoolID: stepPool, sFrames: stepStack,
		sName: stepName, sFilename: stepFile, sStage: stepStage},
	boolean: [numKeys + 1]step{sIsExpandable: stepExpandable},
}

// fastRows reads dictionaries at d.p, which is at `}`, as long as they are rows
// of the usual kind, and pushes them.
func (d *fast) fastRows() bool {
	if d.inState {
		if d.fastStates() {
			return true
		}
		d.inState = !d.fastEvents()
		return !d.inState
	}
	if d.fastEvents() {
		return true
	}
	d.inState = d.fastStates()
	return d.inState
}

// fastStates reads segments, blocks, frames and annotations.
func (d *fast) fastStates() bool {
	found := false
	for {
		v, end := d.fastState(d.p, false)
		if end == 0 {
			return found
		}
		found = true
		d.p = end
		d.push(v)
		if end >= d.more || d.b[end] != pickle.EmptyDict || len(d.stack) == cap(d.stack) {
			return true
		}
	}
}

// stateRow is a segment, block, frame or annotation of the usual kind while it is
// read; what isn't there is zero.
type stateRow struct {
	address, size, total, requested, allocated, active uint64
	device                                             int64
	stream, pool                                       uint32
	stack                                              StackID
	line, time                                         uint64
	file, name, stage                                  StringID
	state                                              BlockState
	small, expandable, list                            bool
	firstBlock, numBlocks                              int
	strangers                                          int // of decoder.strange
}

// fastState reads a segment with its blocks, a block, a frame or an annotation at p,
// wholly or not at all; a segment that is larger than what is at hand is left to the general
// opcodes, and its blocks come here again. Blocks of a segment are within.
func (d *fast) fastState(p int, within bool) (v value, end int) {
	b := d.b
	if len(b)-p < room || len(d.memo)+8 > cap(d.memo) && d.growMemo(len(d.memo)+8) != nil {
		return 0, 0
	}
	n := d.memoOp(p + 1)
	if b[p+1+n] != pickle.Mark || b[p+2+n] != pickle.BinGet && b[p+2+n] != pickle.LongBinGet {
		return 0, 0
	}
	memo, blocks, lists := len(d.memo), len(d.blocks), len(d.lists)
	if n > 0 {
		d.memo = append(d.memo, kOpaque.ref()) // until it is known what it is
	}
	if v, end = d.stateFields(b, p+2+n, within); end == 0 {
		d.used -= blockBytes*int64(len(d.blocks)-blocks) + listBytes*int64(len(d.lists)-lists) // strings stay
		d.memo, d.blocks, d.lists = d.memo[:memo], d.blocks[:blocks], d.lists[:lists]
	} else if n > 0 {
		d.memo[memo] = v.ref()
	}
	return v, end
}

// stateFields reads a row's fields and adds it; end is behind them, 0 when there
// is something else among them.
func (d *fast) stateFields(b []byte, p int, within bool) (v value, end int) {
	var s stateRow
	f := &d.states
	start := unsafe.Pointer(unsafe.SliceData(b))
	for len(b)-p >= fieldRoom { // all that eight looks at, even behind a FRAME
		word, last := eight(start, p), f
		for f = f.next; f != nil && word&f.mask != f.bits; f = f.alt {
		}
		if f == nil {
			if f, p = d.learn(last, b, p); f == nil {
				return 0, 0
			}
		}
		x := eight(start, p+f.value) & f.payload
		if x > f.max {
			return 0, 0
		}
		p += f.length
		switch f.step {
		case stepAddress:
			s.address = x
		case stepSize:
			s.size = x
		case stepTotalSize:
			s.total = x
		case stepRequested:
			s.requested = x
		case stepAllocated:
			s.allocated = x
		case stepActive:
			s.active = x
		case stepDevice:
			s.device = int64(x)
		case stepStream:
			if x != 0 {
				s.stream = d.stream(d.number(int64(x)))
			}
		case stepState:
			v := d.remembered(x)
			state, ok := blockState(StringID(v.index()))
			if v.kind() != kString || !ok {
				return 0, 0
			}
			s.state = state
		case stepSegmentType:
			v := d.remembered(x)
			if v.kind() != kString {
				return 0, 0
			}
			s.small = StringID(v.index()) == sSmall
		case stepPool:
			v := d.remembered(x)
			if v.kind() != kPool {
				return 0, 0
			}
			s.pool = uint32(v.index())
		case stepExpandable:
			s.expandable = x == pickle.NewTrue
		case stepLine:
			s.line = x
		case stepTime:
			s.time = x
		case stepName, stepFile, stepStage:
			v := d.remembered(x)
			if v.kind() != kString {
				return 0, 0
			}
			s.word(f.key, StringID(v.index()))
		case stepStack:
			id, ok := d.knownStack(d.remembered(x))
			if !ok {
				return 0, 0
			}
			s.stack = id
		case stepNoFrames:
			d.memo = append(d.memo, newValue(kStack, 0).ref())
		case stepBlocks:
			if within || s.list {
				return 0, 0
			}
			if p = d.fastBlocks(b, p, &s); p == 0 {
				return 0, 0
			}
		case stepEnd:
			if v = d.addState(&s, f, within); v == 0 {
				return 0, 0
			}
			return v, p
		default:
			n := d.stateValue(b, p, f.key, &s)
			if n == 0 {
				return 0, 0
			}
			p += n
		}
	}
	return 0, 0
}

// stateValue reads the value of key at p; n is 0 when it isn't of the usual kind.
func (d *fast) stateValue(b []byte, p int, key StringID, s *stateRow) (n int) {
	switch {
	case key == sFrames:
		n = d.fastStack(b, p, &s.stack)
	case key == sSegmentPoolID:
		s.pool, n = d.fastPool(b, p)
	case key == sName || key == sFilename || key == sStage:
		var id StringID
		id, n = d.fastText(b, p)
		s.word(key, id)
	case key >= numKeys && s.strangers < len(d.strange):
		x := &d.strange[s.strangers]
		x.key = key
		x.value, n = d.anyValue(b, p)
		s.strangers++
	}
	return n
}

// word is the value of one of the keys that have any text.
func (s *stateRow) word(key, id StringID) {
	switch key {
	case sName:
		s.name = id
	case sFilename:
		s.file = id
	case sStage:
		s.stage = id
	}
}

// fastBlocks reads a list of blocks at p; end is 0 when it is more than is at hand.
func (d *fast) fastBlocks(b []byte, p int, s *stateRow) (end int) {
	s.firstBlock, s.list = len(d.blocks), true
	p++
	if n := d.memoOp(p); n > 0 {
		p += n
		list := tableList
		if b[p] != pickle.Mark && b[p] != pickle.EmptyDict { // it is empty, and may still be filled
			if d.pushList(kList, nil) != nil {
				return 0
			}
			list = d.stack[len(d.stack)-1]
			d.stack = d.stack[:len(d.stack)-1]
		}
		d.memo = append(d.memo, list.ref())
	}
	for len(b)-p >= room {
		many := b[p] == pickle.Mark // CPython adds a thousand at a time
		if many {
			p++
		}
		if many && b[p] == pickle.Appends { // torch's own pickler adds none to an empty list
			p++
			continue
		}
		if b[p] != pickle.EmptyDict && many {
			return 0
		}
		if b[p] != pickle.EmptyDict {
			s.numBlocks = len(d.blocks) - s.firstBlock
			return p
		}
		for b[p] == pickle.EmptyDict {
			v, end := d.fastState(p, true)
			if end == 0 || v.kind() != kBlock {
				return 0
			}
			if p = end; b[p] == pickle.Frame { // it may stand anywhere, once in 64 KiB
				p += 9
			}
			if !many {
				break
			}
		}
		if many && b[p] != pickle.Appends || !many && b[p] != pickle.Append {
			return 0
		}
		p++
	}
	return 0
}

// addState adds the row that s is; 0 when it is none, or one that must be read again.
func (d *fast) addState(s *stateRow, f *field, within bool) value {
	has := func(key StringID, x uint64) int64 {
		if f.keys&(1<<key) == 0 {
			return -1
		}
		return int64(x)
	}
	switch {
	case within && s.strangers > 0: // its segment may be read again, and keys be counted twice
	case f.row == kBlock && !s.list && f.keys&(1<<sState) != 0:
		if d.take(blockBytes) != nil {
			return 0
		}
		d.blocks = append(pages.Grown(d.blocks, 1), Block{Address: s.address, Size: int64(s.size), Requested: has(sRequestedSize,
			s.requested), State: s.state, Stack: s.stack})
		d.countStrange(sBlocks, s.strangers)
		return newValue(kBlock, uint64(len(d.blocks)-1))
	case f.row == kFrame && s.line <= math.MaxInt32:
		id, err := d.frame(Frame{Function: s.name, File: s.file, Line: int32(s.line)})
		if err != nil {
			return 0
		}
		d.countStrange(sFrames, s.strangers)
		return newValue(kFrame, uint64(id))
	case f.row == kNote:
		if d.take(64) != nil {
			return 0
		}
		d.annotations = append(pages.Grown(d.annotations, 1), Annotation{Start: d.starts(s.stage), Name: s.name,
			Device: int(s.device), TimeUS: int64(s.time)})
		d.countStrange(sExternalAnnotations, s.strangers)
		return newValue(kNote, uint64(len(d.annotations)-1))
	case f.row == kSegment:
		if d.take(segmentBytes) != nil {
			return 0
		}
		d.segments = append(pages.Grown(d.segments, 1), segmentRow{device: s.device, firstBlock: s.firstBlock,
			numBlocks: s.numBlocks, Segment: Segment{
				Address: s.address, TotalSize: int64(s.total), Allocated: has(sAllocatedSize, s.allocated),
				Active:    has(sActiveSize, s.active),
				Requested: has(sRequestedSize, s.requested), Stream: s.stream, Pool: s.pool, Small: s.small,
				Expandable: s.expandable, Stack: s.stack}})
		d.countStrange(sSegments, s.strangers)
		return newValue(kSegment, uint64(len(d.segments)-1))
	}
	return 0
}

// countStrange counts the keys of a row that aren't known.
func (d *fast) countStrange(where StringID, n int) {
	for _, x := range d.strange[:n] {
		d.unknownKey(where, x.key, x.value)
	}
}
