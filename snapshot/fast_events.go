package snapshot

import (
	"encoding/binary"
	"unsafe"
)

// fastEvents reads trace entries at d.p, which is at `}`, as long as they are
// of the usual kind, and pushes them.
func (d *decoder) fastEvents() bool {
	first := d.rows
	for d.formedEvents() && d.fastEvent() {
	}
	return d.rows > first
}

const (
	// room is what the longest row of the usual kind takes, its list of
	// frames and its text apart.
	room = 1024
	// fieldRoom is what the longest of its fields takes, its list apart.
	fieldRoom = 64
)

// fastRow is an event of the usual kind while it is read.
type fastRow struct {
	address, size, time uint64
	action              Action
	stream, pool        uint32
	stack, forward      StackID
	compile, metadata   StringID
	internal            StringID
	category            int32
	strangers           int // of decoder.strange
}

// fastEvent reads one entry.
func (d *decoder) fastEvent() bool {
	b, p := d.b, d.p
	if len(b)-p < room || len(d.memo)+8 > cap(d.memo) && d.growMemo(len(d.memo)+8) != nil {
		return false
	}
	n := d.memoOp(p + 1)
	if b[p+1+n] != opMark || b[p+2+n] != opBinGet && b[p+2+n] != opLongBinGet {
		return false
	}
	p += 2 + n
	was := len(d.memo)
	if n > 0 {
		d.memo = append(d.memo, newValue(kEvent, uint64(d.rows)).ref())
	}
	e := fastRow{}
	d.seen, d.framed = d.seen[:0], false
	end := d.fastFields(b, p, &d.fields, &e)
	if end == 0 {
		d.memo = d.memo[:was]
		return false
	}
	d.learnForm(b[d.p:end], was, &e)
	d.p = end
	return true
}

// fastFields reads an event's fields behind f and adds its row; end is behind
// them, 0 when there is something else among them.
func (d *decoder) fastFields(b []byte, p int, f *field, e *fastRow) (end int) {
	start := unsafe.Pointer(unsafe.SliceData(b))
	for len(b)-p >= fieldRoom { // all that eight looks at, even behind a FRAME
		word, last := eight(start, p), f
		for f = f.next; f != nil && word&f.mask != f.bits; f = f.alt {
		}
		if f == nil {
			if f, p = d.learn(last, b, p); f == nil {
				return 0
			}
		}
		x := eight(start, p+f.value) & f.payload
		if x > f.max {
			return 0
		}
		d.seen = append(d.seen, seenField{f, p, len(d.memo)})
		p += f.length
		switch f.step {
		case stepAddress:
			e.address = x
		case stepSize:
			e.size = x
		case stepTime:
			e.time = x
		case stepStream:
			if x != 0 {
				e.stream = d.stream(d.number(int64(x)))
			}
		case stepAction:
			v := d.remembered(x)
			word := StringID(v.index())
			if v.kind() != kString || word < sAlloc || word > sAnnotate {
				return 0
			}
			e.action = Action(word - sAlloc)
		case stepCompile:
			v := d.remembered(x)
			if v.kind() != kString {
				return 0
			}
			e.compile = StringID(v.index())
		case stepMetadata:
			v := d.remembered(x)
			if v.kind() != kString {
				return 0
			}
			e.metadata = StringID(v.index())
		case stepInternal:
			v := d.remembered(x)
			if v.kind() != kString {
				return 0
			}
			e.internal = StringID(v.index())
		case stepCategory:
			e.category = categoryOf(int64(x))
		case stepPool:
			v := d.remembered(x)
			if v.kind() != kPool {
				return 0
			}
			e.pool = uint32(v.index())
		case stepStack:
			id, ok := d.knownStack(d.remembered(x))
			if !ok {
				return 0
			}
			e.stack = id
		case stepForward:
			id, ok := d.knownStack(d.remembered(x))
			if !ok {
				return 0
			}
			e.forward = id
		case stepNoFrames:
			d.memo = append(d.memo, newValue(kStack, 0).ref())
		case stepOther:
			n := d.fastValue(b, p, f.key, e)
			if n == 0 {
				return 0
			}
			p += n
		case stepEnd:
			if f.keys&(1<<sAction) == 0 || !d.addRow(e) {
				return 0
			}
			d.eventKeys |= f.keys
			return p
		}
	}
	return 0
}

// eight is the bytes at p.
func eight(start unsafe.Pointer, p int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(start, p))[:])
}

// addRow fills the next row of the columns.
func (d *decoder) addRow(e *fastRow) bool {
	c, n := &d.events, d.rows
	if n == len(c.Action) && d.growEvents() != nil {
		return false
	}
	if e.compile == sNA {
		e.compile = 0
	}
	if e.stream|e.pool|uint32(e.compile)|uint32(e.metadata)|uint32(e.internal)|uint32(e.forward)|uint32(e.category) != 0 {
		rare := event{stream: e.stream, pool: e.pool, compile: e.compile, metadata: e.metadata, internal: e.internal, forward: e.forward, category: e.category}
		if d.addOptional(&rare, n) != nil {
			return false
		}
	}
	c.Action[n] = e.action
	c.Address[n] = e.address
	c.Size[n] = int64(e.size)
	c.TimeUS[n] = int64(e.time)
	c.Stack[n] = e.stack
	if e.action == OOM {
		d.ooms = append(d.ooms, OutOfMemory{Event: n, DeviceFree: -1})
	}
	d.countStrange(sDeviceTraces, e.strangers)
	d.rows = n + 1
	d.push(newValue(kEvent, uint64(n)))
	return true
}

// field is what one field of an event looked like before: entries of a trace
// have the same keys in the same order, and numbers of few widths, so that the
// next one need only be compared with those. All events' fields make a tree; those
// of segments, blocks and the rest of a state make another.
type field struct {
	bits, mask uint64 // of the first bytes: the key, and the value's opcode
	payload    uint64 // mask of the value, when that is a number or a reference
	max        uint64 // that such a value may have
	value      int    // where it begins
	length     int    // with the value, when that is one
	keys       uint64 // known ones up to here, as bits
	next, alt  *field // that come behind it; that stand in its place
	steps      *stepTable
	row        value // of an end, what the keys make
	key        StringID
	step       step
}

const (
	maxAlternatives = 8    // fields in one place that are told from each other
	maxFields       = 4096 // in the tree
)

// step is what is to be done for a field.
type step uint8

const (
	stepOther   step = iota // the value is still to be read
	stepAddress             // the payload is the value
	stepSize
	stepTime
	stepStream
	stepAction // the payload is a position in the memo
	stepCompile
	stepMetadata
	stepInternal
	stepForward
	stepCategory // the payload is the value
	stepPool
	stepStack
	stepNoFrames // an empty list, and the row's end behind it
	stepEnd      // SETITEMS
	stepTotalSize
	stepRequested
	stepAllocated
	stepActive
	stepDevice
	stepState // the payload is a position in the memo
	stepSegmentType
	stepExpandable // the payload is NEWTRUE or NEWFALSE
	stepBlocks     // a list, still to be read
	stepLine
	stepFile // the payload is a position in the memo
	stepName
	stepStage
)

// stepTable is what is done for values of keys: for numbers, for references to
// the memo, for booleans.
type stepTable struct {
	number, reference, boolean [numKeys + 1]step
}

var eventSteps = stepTable{
	number: [numKeys + 1]step{sAddr: stepAddress, sSize: stepSize, sTimeUS: stepTime, sStream: stepStream, sCategory: stepCategory},
	reference: [numKeys + 1]step{sAction: stepAction, sCompileContext: stepCompile, sUserMetadata: stepMetadata, sInternalMetadata: stepInternal,
		sPoolID: stepPool, sFrames: stepStack, sForwardFrames: stepForward},
}

// sizeKeys are those of sizes, as bits: no size is larger than maxBytes.
const sizeKeys = 1<<sSize | 1<<sTotalSize | 1<<sRequestedSize | 1<<sAllocatedSize | 1<<sActiveSize

// learn is the field at p, which comes behind last; nil when it is none. It is
// known from then on, unless the tree has grown beyond what recorders write. A
// frame may begin anywhere, once in 64 KiB: at is where the field begins.
func (d *decoder) learn(last *field, b []byte, p int) (f *field, at int) {
	if b[p] == opFrame {
		d.framed = true
		p += 9
		word := binary.LittleEndian.Uint64(b[p:])
		for f := last.next; f != nil; f = f.alt {
			if word&f.mask == f.bits {
				return f, p
			}
		}
	}
	f = &field{}
	known := d.describe(f, last, b[p:p+fieldRoom/2])
	if f.length == 0 {
		return nil, p
	}
	if d.numFields == maxFields {
		return f, p
	}
	place := &last.next
	for n := 0; *place != nil && n < maxAlternatives; n++ {
		if known == 0 && (*place).key == f.key {
			f.next = (*place).next
			return f, p
		}
		if n < maxAlternatives-1 {
			place = &(*place).alt
		}
	}
	if known > 0 {
		f.mask = ^uint64(0) >> (64 - 8*known)
		f.bits = binary.LittleEndian.Uint64(b[p:]) & f.mask
		*place = f
		d.numFields++
	}
	return f, p
}

// describe makes f the field at b, of length 0 when it is none. It is told by
// that many bytes; 0: it must not be known again.
func (d *decoder) describe(f *field, last *field, b []byte) (known int) {
	f.keys, f.steps = last.keys, last.steps
	if b[0] == opSetItems {
		f.length, f.step, f.row = 1, stepEnd, shapeOf(f.keys)
		return 1
	}
	key, n := d.stringRef(b, 0)
	if n == 0 || key == 0 {
		return 0
	}
	if key < numKeys {
		if f.keys&(1<<key) != 0 {
			return 0
		}
		f.keys |= 1 << key
	}
	f.key, f.value = key, n
	known = n + 1
	if b[n] == opFrame { // it may stand anywhere, once in 64 KiB
		d.framed = true
		f.value += 9
		known = 0
	}
	v := b[f.value:]
	f.length = f.value
	at := min(key, numKeys)
	width, number, reference := 0, f.steps.number[at], f.steps.reference[at]
	switch op := v[0]; {
	case number != stepOther && op == opBinInt1, reference != stepOther && op == opBinGet:
		f.value, width = f.value+1, 1
	case number != stepOther && op == opBinInt2:
		f.value, width = f.value+1, 2
	case number != stepOther && op == opBinInt, reference != stepOther && op == opLongBinGet:
		f.value, width = f.value+1, 4
	case number != stepOther && op == opLong1 && v[1]-1 < 8:
		f.value, width = f.value+2, int(v[1])
		known += min(known, 1)
	case f.steps.boolean[at] != stepOther && (op == opNewTrue || op == opNewFalse):
		f.step, f.length, f.payload, f.max = f.steps.boolean[at], f.length+1, 0xff, 0xff
	case key == sBlocks && op == opEmptyList && f.steps == &stateSteps:
		f.step = stepBlocks
	case key == sFrames && op == opEmptyList && v[1] == opMemoize:
		if v[2] == opSetItems {
			f.length, f.step = f.length+2, stepNoFrames
		}
		known += 2 * min(known, 1)
	}
	if width > 0 {
		f.step = number | reference // a key has one of the two
		f.length = f.value + width
		f.payload = ^uint64(0) >> (64 - 8*width)
		f.max = f.payload
		if v[0] == opBinInt || v[0] == opLong1 {
			f.max >>= 1 // the sign
		}
		if uint64(1)<<key&sizeKeys != 0 {
			f.max = min(f.max, maxBytes)
		}
	}
	return known
}

// remembered is the value at a position of the memo; kOpaque when nothing is there.
func (d *decoder) remembered(slot uint64) value {
	if slot < uint64(len(d.memo)) {
		return value(d.memo[slot])
	}
	return kOpaque
}

// fastValue reads the value of key at p; n is 0 when it isn't of the usual kind.
func (d *decoder) fastValue(b []byte, p int, key StringID, e *fastRow) (n int) {
	switch key {
	case sFrames:
		n = d.fastStack(b, p, &e.stack)
	case sPoolID:
		e.pool, n = d.fastPool(b, p)
	case sCompileContext:
		e.compile, n = d.fastText(b, p)
	case sUserMetadata:
		e.metadata, n = d.fastText(b, p)
	case sInternalMetadata:
		e.internal, n = d.fastText(b, p)
	case sForwardFrames:
		e.forward, n = d.textStack(b, p)
	default:
		if key >= numKeys && e.strangers < len(d.strange) {
			x := &d.strange[e.strangers]
			x.key = key
			x.value, n = d.anyValue(b, p)
			e.strangers++
		}
	}
	return n
}

// anyValue reads the value of a key that isn't known at p.
func (d *decoder) anyValue(b []byte, p int) (v value, n int) {
	switch b[p] {
	case opNone:
		return kNone, 1
	case opNewTrue:
		return newValue(kBool, 1), 1
	case opNewFalse:
		return newValue(kBool, 0), 1
	}
	if x, n := smallInt(b, p); n > 0 {
		return d.number(int64(x)), n
	}
	id, n := d.fastText(b, p)
	return newValue(kString, uint64(id)), n
}

// fastStack reads an event's stack at p: a list, or a reference to one.
func (d *decoder) fastStack(b []byte, p int, id *StackID) (n int) {
	if b[p] == opEmptyList {
		end, stack := d.frameList(p)
		if end == 0 {
			return d.noFrames(b, p, id)
		}
		*id = stack
		return end - p
	}
	v, n := d.reference(b, p)
	stack, ok := d.knownStack(v)
	if !ok {
		return 0
	}
	*id = stack
	return n
}

// knownStack is the stack that v is, when it is one.
func (d *decoder) knownStack(v value) (id StackID, ok bool) {
	switch v.kind() {
	case kStack:
		return StackID(v.index()), true
	case kList: // its frames were spelled out where it came first
		l := &d.lists[v.index()]
		return l.stack, l.isStack
	}
	return 0, false
}

// noFrames reads an event's empty list at p: the next key or the end of the
// event is behind it. What would put something into the list is an opcode that
// stands nowhere in an event of the usual kind.
func (d *decoder) noFrames(b []byte, p int, id *StackID) (n int) {
	n = d.memoOp(p + 1)
	memo := n > 0
	n++
	if b[p+n] == opMark && b[p+n+1] == opAppends { // torch's own pickler adds none to it
		n += 2
	}
	switch b[p+n] {
	case opSetItems, opBinGet, opLongBinGet:
	default:
		return 0
	}
	if memo {
		d.memo = append(d.memo, newValue(kStack, 0).ref())
	}
	*id = 0
	return n
}

// textStack reads `] memo ( text* e` at p, as the stack of a forward pass is
// written; n is 0 when it is anything else.
func (d *decoder) textStack(b []byte, p int) (id StackID, n int) {
	if b[p] != opEmptyList {
		return 0, 0
	}
	q := p + 1 + d.memoOp(p+1)
	if q == p+1 || b[q] != opMark {
		return 0, d.noFrames(b, p, &id)
	}
	own := len(d.memo)
	d.memo = append(d.memo, kOpaque.ref()) // until it is known which one it is
	frames := d.scratch[:0]
	for q++; b[q] != opAppends; {
		if len(b)-q < room || len(d.memo) == cap(d.memo) {
			return 0, 0
		}
		text, size := d.fastText(b, q)
		if size == 0 {
			return 0, 0
		}
		frame, err := d.frame(Frame{Function: text})
		if err != nil {
			return 0, 0
		}
		frames = append(frames, frame)
		q += size
	}
	d.scratch = frames[:0]
	id, err := d.internStack(frames)
	if err != nil || b[q+1] == opMark { // more of the same list follows
		return 0, 0
	}
	d.memo[own] = newValue(kStack, uint64(id)).ref()
	return id, q + 1 - p
}

// fastPool reads `K a K b TUPLE2 MEMOIZE` at p, or a reference to such a pair.
func (d *decoder) fastPool(b []byte, p int) (id uint32, n int) {
	if v, n := d.reference(b, p); n > 0 {
		if v.kind() == kPool {
			return uint32(v.index()), n
		}
		return 0, 0
	}
	if b[p] != opBinInt1 || b[p+2] != opBinInt1 || b[p+4] != opTuple2 {
		return 0, 0
	}
	if b[p+1]|b[p+3] != 0 {
		id = d.pool(Pool{int64(b[p+1]), int64(b[p+3])})
	}
	n = d.memoOp(p + 5)
	if n > 0 {
		d.memo = append(d.memo, newValue(kPool, uint64(id)).ref())
	}
	return id, 5 + n
}

// fastText reads a reference to a string, or a literal with its memo opcode, at p.
func (d *decoder) fastText(b []byte, p int) (id StringID, n int) {
	start, size := p+2, int(b[p+1])
	switch b[p] {
	case opShortBinUnicode:
	case opBinUnicode: // up to protocol 3
		start, size = p+5, int(binary.LittleEndian.Uint32(b[p+1:]))
	default:
		return d.stringRef(b, p)
	}
	if len(b)-start-room < size {
		return 0, 0
	}
	end := start + size
	id, err := d.intern(b[start:end])
	if err != nil {
		return 0, 0
	}
	n = d.memoOp(end)
	if n > 0 {
		d.memo = append(d.memo, newValue(kString, uint64(id)).ref())
	}
	return id, end - p + n
}
