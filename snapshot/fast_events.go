package snapshot

import (
	"encoding/binary"
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// fastEvents reads trace entries at d.p, which is at `}`, as long as they are
// of the usual kind, and pushes them.
func (d *fast) fastEvents() bool {
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
func (d *fast) fastEvent() bool {
	b, p := d.b, d.p
	if len(b)-p < room || len(d.memo)+8 > cap(d.memo) && d.growMemo(len(d.memo)+8) != nil {
		return false
	}
	n := d.memoOp(p + 1)
	if b[p+1+n] != pickle.Mark || b[p+2+n] != pickle.BinGet && b[p+2+n] != pickle.LongBinGet {
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
func (d *fast) fastFields(b []byte, p int, f *field, e *fastRow) (end int) {
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
func (d *fast) addRow(e *fastRow) bool {
	c, n := &d.events, d.rows
	if n == len(c.Action) && d.growEvents() != nil {
		return false
	}
	if e.compile == sNA {
		e.compile = 0
	}
	if e.stream|e.pool|uint32(e.compile)|uint32(e.metadata)|uint32(e.internal)|uint32(e.forward)|uint32(e.category) != 0 {
		rare := event{stream: e.stream, pool: e.pool, compile: e.compile, metadata: e.metadata, internal: e.internal,
			forward: e.forward, category: e.category}
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

// remembered is the value at a position of the memo; kOpaque when nothing is there.
func (o *objects) remembered(slot uint64) value {
	if slot < uint64(len(o.memo)) {
		return value(o.memo[slot])
	}
	return kOpaque
}

// fastValue reads the value of key at p; n is 0 when it isn't of the usual kind.
func (d *fast) fastValue(b []byte, p int, key StringID, e *fastRow) (n int) {
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
func (d *fast) anyValue(b []byte, p int) (v value, n int) {
	switch b[p] {
	case pickle.None:
		return kNone, 1
	case pickle.NewTrue:
		return newValue(kBool, 1), 1
	case pickle.NewFalse:
		return newValue(kBool, 0), 1
	}
	if x, n := smallInt(b, p); n > 0 {
		return d.number(int64(x)), n
	}
	id, n := d.fastText(b, p)
	return newValue(kString, uint64(id)), n
}

// fastStack reads an event's stack at p: a list, or a reference to one.
func (d *fast) fastStack(b []byte, p int, id *StackID) (n int) {
	if b[p] == pickle.EmptyList {
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
func (o *objects) knownStack(v value) (id StackID, ok bool) {
	switch v.kind() {
	case kStack:
		return StackID(v.index()), true
	case kList: // its frames were spelled out where it came first
		l := &o.lists[v.index()]
		return l.stack, l.isStack
	}
	return 0, false
}

// noFrames reads an event's empty list at p: the next key or the end of the
// event is behind it. What would put something into the list is an opcode that
// stands nowhere in an event of the usual kind.
func (d *fast) noFrames(b []byte, p int, id *StackID) (n int) {
	n = d.memoOp(p + 1)
	memo := n > 0
	n++
	if b[p+n] == pickle.Mark && b[p+n+1] == pickle.Appends { // torch's own pickler adds none to it
		n += 2
	}
	switch b[p+n] {
	case pickle.SetItems, pickle.BinGet, pickle.LongBinGet:
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
func (d *fast) textStack(b []byte, p int) (id StackID, n int) {
	if b[p] != pickle.EmptyList {
		return 0, 0
	}
	q := p + 1 + d.memoOp(p+1)
	if q == p+1 || b[q] != pickle.Mark {
		return 0, d.noFrames(b, p, &id)
	}
	own := len(d.memo)
	d.memo = append(d.memo, kOpaque.ref()) // until it is known which one it is
	frames := d.scratch[:0]
	for q++; b[q] != pickle.Appends; {
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
	if err != nil || b[q+1] == pickle.Mark { // more of the same list follows
		return 0, 0
	}
	d.memo[own] = newValue(kStack, uint64(id)).ref()
	return id, q + 1 - p
}

// fastPool reads `K a K b TUPLE2 MEMOIZE` at p, or a reference to such a pair.
func (d *fast) fastPool(b []byte, p int) (id uint32, n int) {
	if v, n := d.reference(b, p); n > 0 {
		if v.kind() == kPool {
			return uint32(v.index()), n
		}
		return 0, 0
	}
	if b[p] != pickle.BinInt1 || b[p+2] != pickle.BinInt1 || b[p+4] != pickle.Tuple2 {
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
func (d *fast) fastText(b []byte, p int) (id StringID, n int) {
	start, size := p+2, int(b[p+1])
	switch b[p] {
	case pickle.ShortBinUnicode:
	case pickle.BinUnicode: // up to protocol 3
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
