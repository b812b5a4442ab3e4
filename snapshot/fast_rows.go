package snapshot

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

const (
	// room is what the longest row of the usual kind takes, its list of
	// frames and its text apart.
	room = 1024
	// fieldRoom is what the longest of its fields takes, its list apart.
	fieldRoom = 64
)

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

// fastEvents reads trace entries.
func (d *fast) fastEvents() bool {
	first := d.rows
	for d.formedEvents() {
		var r row
		memo := len(d.memo)
		v, end := d.fastRow(d.p, &d.fields, &r)
		if end == 0 {
			break
		}
		d.learnForm(d.b[d.p:end], memo, &r)
		d.p = end
		d.push(v)
	}
	return d.rows > first
}

// fastStates reads segments, blocks, frames and annotations.
func (d *fast) fastStates() bool {
	found := false
	for {
		var r row
		v, end := d.fastRow(d.p, &d.states, &r)
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

// fastRow reads a row at p, wholly or not at all, whose first field is behind f; a
// segment that is larger than what is at hand is left to the general opcodes, and its
// blocks come here again.
func (d *fast) fastRow(p int, f *field, r *row) (v value, end int) {
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
	d.seen, d.framed = d.seen[:0], false
	if v, end = d.fastFields(b, p+2+n, f, r); end == 0 {
		d.used -= blockBytes*int64(len(d.blocks)-blocks) + listBytes*int64(len(d.lists)-lists) // strings stay
		d.memo, d.blocks, d.lists = d.memo[:memo], d.blocks[:blocks], d.lists[:lists]
	} else if n > 0 {
		d.memo[memo] = v.ref()
	}
	return v, end
}

// fastFields reads a row's fields behind f and adds it; end is behind them, 0 when
// there is something else among them.
// One switch over all kinds of fields, as it is the tightest of loops.
func (d *fast) fastFields(b []byte, p int, f *field, r *row) (v value, end int) {
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
		d.seen = append(d.seen, seenField{f, p, len(d.memo)})
		p += f.length
		switch f.step {
		case stepAddress, stepSize, stepTime, stepTotalSize, stepRequested, stepAllocated, stepActive, stepDevice, stepLine:
			r.numbers[f.step] = x
		case stepStream:
			if x != 0 {
				r.stream = d.stream(d.number(int64(x)))
			}
		case stepCategory:
			r.category = categoryOf(int64(x))
		case stepExpandable:
			r.expandable = x == pickle.NewTrue
		case stepNoFrames:
			d.memo = append(d.memo, newValue(kStack, 0).ref())
		case stepBlocks:
			if r.within || r.list {
				return 0, 0
			}
			if p = d.fastBlocks(b, p, r); p == 0 {
				return 0, 0
			}
		case stepEnd:
			if v = d.addRow(r, f); v == 0 {
				return 0, 0
			}
			return v, p
		case stepOther:
			n := d.fastValue(b, p, f, r)
			if n == 0 {
				return 0, 0
			}
			p += n
		default:
			if !d.refer(f.step, d.remembered(x), r) {
				return 0, 0
			}
		}
	}
	return 0, 0
}

// refer sets what a step's reference to the memo is to be; false when that is
// something else.
func (d *fast) refer(s step, v value, r *row) (ok bool) {
	switch s {
	case stepAction:
		word := StringID(v.index())
		r.action = Action(word - sAlloc)
		return v.kind() == kString && word >= sAlloc && word <= sAnnotate
	case stepStack:
		r.stack, ok = d.knownStack(v)
		return ok
	case stepForward:
		r.forward, ok = d.knownStack(v)
		return ok
	case stepPool:
		r.pool = uint32(v.index())
		return v.kind() == kPool
	case stepState:
		r.state, ok = blockState(StringID(v.index()))
	case stepSegmentType:
		r.small, ok = StringID(v.index()) == sSmall, true
	default:
		*r.text(s), ok = StringID(v.index()), true
	}
	return ok && v.kind() == kString
}

// fastValue reads the value of f's key at p; n is 0 when it isn't of the usual kind.
func (d *fast) fastValue(b []byte, p int, f *field, r *row) (n int) {
	switch s := f.steps.reference[min(f.key, numKeys)]; s {
	case stepStack:
		n = d.fastStack(b, p, &r.stack)
	case stepPool:
		r.pool, n = d.fastPool(b, p)
	case stepForward:
		r.forward, n = d.textStack(b, p)
	case stepCompile, stepMetadata, stepInternal, stepName, stepFile, stepStage:
		*r.text(s), n = d.fastText(b, p)
	default:
		if f.key >= numKeys && r.strangers < len(d.strange) {
			x := &d.strange[r.strangers]
			x.key = f.key
			x.value, n = d.anyValue(b, p)
			r.strangers++
		}
	}
	return n
}

// eight is the bytes at p.
func eight(start unsafe.Pointer, p int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(start, p))[:])
}

// fastBlocks reads a list of blocks at p; end is 0 when it is more than is at hand.
func (d *fast) fastBlocks(b []byte, p int, r *row) (end int) {
	r.first, r.list = len(d.blocks), true
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
			r.count = len(d.blocks) - r.first
			return p
		}
		for b[p] == pickle.EmptyDict {
			v, end := d.fastRow(p, &d.states, &row{within: true})
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

// addRow adds a row that was read; 0 when it is none, or one that must be read again.
func (d *fast) addRow(r *row, f *field) value {
	switch {
	case r.within && r.strangers > 0: // its segment may be read again, and keys be counted twice
		return 0
	case f.row == kBlock && (r.list || f.keys&(1<<sState) == 0), f.row == kHistory, r.numbers[stepLine] > math.MaxInt32:
		return 0
	}
	v, err := d.add(r, f.row, f.keys)
	if err != nil || v == 0 {
		return 0
	}
	d.countStrange(shapes[f.row].where, r.strangers)
	return v
}

// countStrange counts the keys of a row that aren't known.
func (d *fast) countStrange(where StringID, n int) {
	for _, x := range d.strange[:n] {
		d.unknownKey(where, x.key, x.value)
	}
}
