package snapshot

import "encoding/binary"

// The tight loops for what a snapshot nearly wholly consists of: trace entries
// with the usual keys, and lists of references to frames. Each either reads
// the whole thing or leaves everything as it was for the general opcodes.

// memoOp is the length of the opcode at p when it stores into the next free
// memo position, else 0.
func (d *decoder) memoOp(p int) int {
	switch b := d.b; b[p] {
	case opMemoize:
		return 1
	case opBinPut:
		if int(b[p+1]) == len(d.memo) {
			return 2
		}
	case opLongBinPut:
		if int(binary.LittleEndian.Uint32(b[p+1:])) == len(d.memo) {
			return 5
		}
	}
	return 0
}

// fastFrames reads a whole list of frame references at d.p and pushes its stack.
func (d *decoder) fastFrames() bool {
	end, id := d.frameList(d.p)
	if end == 0 {
		return false
	}
	d.p = end
	d.push(newValue(kStack, uint64(id)))
	return true
}

// frameList reads `] memo ( (h n | j nnnn)* e` at p, or the same with a single
// reference and APPEND; end is 0 when it is anything else. Torch's own pickler
// puts a list into the memo behind its contents, if at all.
func (d *decoder) frameList(p int) (end int, id StackID) {
	b := d.b
	if len(b)-p < 32 || len(d.memo) == cap(d.memo) && d.growMemo(len(d.memo)+1) != nil {
		return 0, 0
	}
	n := d.memoOp(p + 1)
	late := n == 0
	p += 1 + n
	if b[p] != opMark {
		if late {
			return 0, 0
		}
		return d.singleFrame(p)
	}
	p++
	if c := b[p]; c != opBinGet && c != opLongBinGet {
		return 0, 0
	}
	id, n = d.raw.guess(b[p:])
	q := p + n
	if n == 0 {
		var raw []byte
		if raw, q = d.references(p); q == 0 {
			return 0, 0
		}
		if id = d.stackAt(raw, 0); id == 0 {
			return 0, 0
		}
	}
	if b[q+1] == opMark { // more of the same list follows
		return 0, 0
	}
	end = q + 1
	if late {
		if n = d.memoOp(end); n == 0 {
			return end, id
		}
		end += n
	}
	d.memo = append(d.memo, newValue(kStack, uint64(id)).ref())
	return end, id
}

// references is the run of memo references at p up to APPENDS, whose position
// is end; 0 when something else is among them. A FRAME opcode, which may stand
// anywhere, is left out.
func (d *decoder) references(p int) (raw []byte, end int) {
	b, q := d.b, p
	framed := false
	for len(b)-q > 16 {
		switch b[q] {
		case opLongBinGet:
			q += 5
			continue
		case opBinGet:
			q += 2
			continue
		case opFrame:
			if !framed {
				d.framed, framed = d.framed[:0], true
			}
			d.framed = append(d.framed, b[p:q]...)
			q += 9
			p = q
			continue
		case opAppends:
			if framed {
				d.framed = append(d.framed, b[p:q]...)
				return d.framed, q
			}
			return b[p:q], q
		}
		break
	}
	return nil, 0
}

// singleFrame reads a list of one frame, `h n a` or `j nnnn a`, at p.
func (d *decoder) singleFrame(p int) (end int, id StackID) {
	n := 0
	switch d.b[p] {
	case opBinGet:
		n = 2
	case opLongBinGet:
		n = 5
	}
	if n == 0 || d.b[p+n] != opAppend || d.b[p+n+1] == opMark {
		return 0, 0
	}
	// The list itself takes the next memo position: a reference to it is no frame.
	if id = d.stackAt(d.b[p:p+n], 1); id == 0 {
		return 0, 0
	}
	d.memo = append(d.memo, newValue(kStack, uint64(id)).ref())
	return p + n + 1, id
}

// stackAt is the stack that the references in raw make, 0 when one of them is
// no frame. Lists of one frame end in another opcode than longer ones, which
// guess relies on, so they are not remembered.
func (d *decoder) stackAt(raw []byte, single int) StackID {
	var h uint64
	if single == 0 {
		var id StackID
		if id, h = d.raw.find(raw); id != 0 {
			return id
		}
	}
	frames := d.scratch[:0]
	for q := 0; q < len(raw); {
		var slot int
		if raw[q] == opBinGet {
			slot = int(raw[q+1])
			q += 2
		} else {
			slot = int(binary.LittleEndian.Uint32(raw[q+1:]))
			q += 5
		}
		if slot >= len(d.memo) || value(d.memo[slot]).kind() != kFrame {
			return 0
		}
		frames = append(frames, FrameID(value(d.memo[slot]).index()))
	}
	d.scratch = frames[:0]
	id, err := d.internStack(frames)
	if err != nil || single != 0 {
		return id // the next allocation reports a limit that is passed
	}
	if d.take(int64(len(raw))+48) == nil {
		d.raw.add(raw, h, id)
	}
	return id
}

// smallInt reads a non-negative integer of up to 63 bits at p; n is the length
// of its opcode, 0 when it is anything else.
func smallInt(b []byte, p int) (x uint64, n int) {
	switch b[p] {
	case opBinInt1:
		return uint64(b[p+1]), 2
	case opBinInt2:
		return uint64(binary.LittleEndian.Uint16(b[p+1:])), 3
	case opBinInt:
		x = uint64(binary.LittleEndian.Uint32(b[p+1:]))
		if x>>31 == 0 {
			return x, 5
		}
	case opLong1:
		width := uint(b[p+1])
		if width-1 < 8 {
			x = binary.LittleEndian.Uint64(b[p+2:]) & (^uint64(0) >> ((64 - 8*width) & 63))
			if x>>((8*width-1)&63) == 0 {
				return x, 2 + int(width)
			}
		}
	}
	return 0, 0
}

// fastEvents reads trace entries at d.p, which is at `}`, as long as they are
// of the usual kind, and pushes them.
func (d *decoder) fastEvents() bool {
	first := d.rows
	for d.fastEvent() {
		if b, p := d.b, d.p; p >= d.more || b[p] != opEmptyDict || len(d.stack) == cap(d.stack) {
			break
		}
	}
	return d.rows > first
}

// room is what the longest event of the usual kind takes, its list of frames
// and its text apart.
const room = 1024

// fastEvent reads one entry straight into the next row of the columns.
func (d *decoder) fastEvent() bool {
	b, p := d.b, d.p
	if len(b)-p < room || len(d.memo)+8 > cap(d.memo) && d.growMemo(len(d.memo)+8) != nil {
		return false
	}
	n := d.memoOp(p + 1)
	if b[p+1+n] != opMark || b[p+2+n] != opBinGet && b[p+2+n] != opLongBinGet {
		return false
	}
	row := d.rows
	if row == len(d.events.Action) && d.growEvents() != nil {
		return false
	}
	p += 2 + n
	was := len(d.memo)
	if n > 0 {
		d.memo = append(d.memo, newValue(kEvent, uint64(row)).ref())
	}
	c := &d.events
	var rare event
	var seen uint64
	strangers := 0
	for field := 0; ; field++ {
		if b[p] == opSetItems {
			if seen&(1<<sAction) == 0 {
				break
			}
			if rare.stream|rare.pool|uint32(rare.compile)|uint32(rare.metadata) != 0 && d.addOptional(&rare, row) != nil {
				break
			}
			if c.Action[row] == OOM {
				d.ooms = append(d.ooms, OutOfMemory{Event: row, DeviceFree: -1})
			}
			for _, x := range d.strange[:strangers] {
				d.unknownKey(sDeviceTraces, x.key, x.value)
			}
			d.p = p + 1
			d.rows = row + 1
			d.eventKeys |= seen
			d.push(newValue(kEvent, uint64(row)))
			return true
		}
		look := &d.layout[field&15]
		key, n := look.key, look.n
		if binary.LittleEndian.Uint64(b[p:])&look.mask != look.bits {
			if b[p] == opFrame {
				p += 9
				field--
				continue
			}
			if key, n = d.stringRef(b, p); n == 0 || key == 0 {
				break
			}
			look.set(b[p:p+n], key)
		}
		if key < numKeys {
			bit := uint64(1) << (key & 63)
			if seen&bit != 0 {
				break
			}
			seen |= bit
		}
		if p += n; b[p] == opFrame {
			p += 9
		}
		var x uint64
		switch key {
		case sAction:
			var word StringID
			if word, n = d.stringRef(b, p); word < sAlloc || word > sAnnotate {
				n = 0
				break
			}
			c.Action[row] = Action(word - sAlloc)
		case sAddr:
			c.Address[row], n = smallInt(b, p)
		case sSize:
			if x, n = smallInt(b, p); x > maxBytes {
				n = 0
			}
			c.Size[row] = int64(x)
		case sTimeUS:
			x, n = smallInt(b, p)
			c.TimeUS[row] = int64(x)
		case sStream:
			if x, n = smallInt(b, p); x != 0 {
				rare.stream = d.stream(d.number(int64(x)))
			}
		case sFrames:
			n = d.fastStack(b, p, &c.Stack[row])
			if len(b)-p-n < room {
				n = 0
			}
		case sPoolID:
			rare.pool, n = d.fastPool(b, p)
		case sCompileContext:
			if rare.compile, n = d.fastText(b, p); rare.compile == sNA {
				rare.compile = 0
			}
		case sUserMetadata:
			rare.metadata, n = d.fastText(b, p)
		default:
			if n = 0; key >= numKeys && strangers < len(d.strange) {
				d.strange[strangers].key = key
				d.strange[strangers].value, n = d.fastValue(b, p)
				strangers++
			}
		}
		if n == 0 {
			break
		}
		p += n
	}
	d.memo = d.memo[:was]
	c.Action[row], c.Address[row], c.Size[row], c.TimeUS[row], c.Stack[row] = 0, 0, 0, 0, 0
	return false
}

// keyLook is what the key of one field of an event looked like in the last
// event: entries of a trace have the same keys in the same order.
type keyLook struct {
	bits, mask uint64
	n          int // bytes
	key        StringID
}

// noLayout matches no bytes.
func noLayout() (layout [16]keyLook) {
	for i := range layout {
		layout[i].bits = 1
	}
	return layout
}

func (k *keyLook) set(b []byte, key StringID) {
	var buf [8]byte
	copy(buf[:], b)
	*k = keyLook{binary.LittleEndian.Uint64(buf[:]), 1<<(8*len(b)) - 1, len(b), key}
}

// reference reads a reference to the memo at p; n is 0 when it is anything else.
func (d *decoder) reference(b []byte, p int) (v value, n int) {
	var slot int
	switch b[p] {
	case opBinGet:
		slot, n = int(b[p+1]), 2
	case opLongBinGet:
		slot, n = int(binary.LittleEndian.Uint32(b[p+1:])), 5
	default:
		return 0, 0
	}
	if slot >= len(d.memo) {
		return 0, 0
	}
	return value(d.memo[slot]), n
}

// stringRef reads a reference to a string at p; n is 0 when it is anything else.
func (d *decoder) stringRef(b []byte, p int) (id StringID, n int) {
	if v, n := d.reference(b, p); v.kind() == kString {
		return StringID(v.index()), n
	}
	return 0, 0
}

// fastValue reads the value of a key that isn't known at p.
func (d *decoder) fastValue(b []byte, p int) (v value, n int) {
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
	switch v.kind() {
	case kStack:
		*id = StackID(v.index())
		return n
	case kList: // its frames were spelled out where it came first
		if l := &d.lists[v.index()]; l.isStack {
			*id = l.stack
			return n
		}
	}
	return 0
}

// noFrames reads an event's empty list at p: the next key or the end of the
// event is behind it. What would put something into the list is an opcode that
// stands nowhere in an event of the usual kind.
func (d *decoder) noFrames(b []byte, p int, id *StackID) (n int) {
	n = d.memoOp(p + 1)
	switch b[p+1+n] {
	case opSetItems, opBinGet, opLongBinGet:
	default:
		return 0
	}
	if n > 0 {
		d.memo = append(d.memo, newValue(kStack, 0).ref())
	}
	*id = 0
	return 1 + n
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

// fastText reads a reference to a string, or a short literal with its memo opcode, at p.
func (d *decoder) fastText(b []byte, p int) (id StringID, n int) {
	if b[p] != opShortBinUnicode {
		return d.stringRef(b, p)
	}
	end := p + 2 + int(b[p+1])
	if len(b)-end < room {
		return 0, 0
	}
	id, err := d.intern(b[p+2 : end])
	if err != nil {
		return 0, 0
	}
	n = d.memoOp(end)
	if n > 0 {
		d.memo = append(d.memo, newValue(kString, uint64(id)).ref())
	}
	return id, end - p + n
}
