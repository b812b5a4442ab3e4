package snapshot

import (
	"slices"
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

const (
	listBytes = int64(unsafe.Sizeof(list{}))
	dictBytes = int64(unsafe.Sizeof(dict{}))
)

// container carries out the opcodes that make and fill lists, tuples and
// dictionaries.
func (d *decoder) container(op byte, at int) error {
	switch op {
	case pickle.EmptyList:
		return d.pushList(kList, nil)
	case pickle.EmptyTuple:
		return d.pushList(kTuple, nil)
	case pickle.EmptyDict:
		return d.pushDict()
	case pickle.EmptySet:
		d.push(kOpaque)
	case pickle.Tuple1, pickle.Tuple2, pickle.Tuple3:
		m := len(d.stack) - int(op-pickle.Tuple1) - 1
		if m < d.floor() {
			return d.fail(at, "TUPLE%d with too few values on the stack", op-pickle.Tuple1+1)
		}
		return d.tuple(m)
	case pickle.Tuple, pickle.List, pickle.FrozenSet, pickle.Dict:
		m, err := d.popMark(at, "TUPLE, LIST, DICT or FROZENSET")
		if err != nil {
			return err
		}
		switch op {
		case pickle.Tuple:
			return d.tuple(m)
		case pickle.FrozenSet:
			d.stack = append(d.stack[:m], kOpaque)
			return nil
		}
		items := d.stack[m:]
		d.stack = d.stack[:m] // items stay readable until the next push
		return d.build(op, at, items)
	case pickle.Append, pickle.SetItem:
		m := len(d.stack) - 1
		if op == pickle.SetItem {
			m--
		}
		if m-1 < d.floor() {
			return d.fail(at, "%s with too few values on the stack", opNames[op])
		}
		defer func() { d.stack = d.stack[:m] }()
		return d.extend(op, at, d.stack[m-1], m)
	case pickle.Appends, pickle.SetItems, pickle.AddItems:
		m, err := d.popMark(at, opNames[op])
		if err != nil {
			return err
		}
		if m-1 < d.floor() {
			return d.fail(at, "%s with nothing to add to", opNames[op])
		}
		err = d.extend(op, at, d.stack[m-1], m)
		d.stack = d.stack[:m]
		return err
	}
	return nil
}

var opNames = map[byte]string{pickle.Append: "APPEND", pickle.Appends: "APPENDS", pickle.SetItem: "SETITEM",
	pickle.SetItems: "SETITEMS", pickle.AddItems: "ADDITEMS"}

// build makes a list or dictionary of the values that protocol 0 puts on the
// stack first.
func (d *decoder) build(op byte, at int, items []value) error {
	items = append([]value(nil), items...)
	push, fill := d.pushDict, byte(pickle.SetItems)
	if op == pickle.List {
		push, fill = func() error { return d.pushList(kList, nil) }, pickle.Appends
	}
	err := push()
	if err != nil || len(items) == 0 {
		return err
	}
	m := len(d.stack)
	d.stack = append(d.stack, items...)
	err = d.extend(fill, at, d.stack[m-1], m)
	d.stack = d.stack[:m]
	return err
}

// takeRow accounts for a row of a table. One that grows, by a quarter, is there twice meanwhile.
func (o *objects) takeRow(row, more int64, filled, room int) error {
	err := o.take(row + more)
	if err == nil && filled == room {
		err = o.roomFor(row * int64(filled) / 4 * 5)
	}
	return err
}

func (o *objects) pushList(kind value, items []value) error {
	if err := o.takeRow(listBytes, 8*int64(len(items)), len(o.lists), cap(o.lists)); err != nil {
		return err
	}
	o.lists = append(o.lists, list{items: items})
	o.push(newValue(kind, uint64(len(o.lists)-1)))
	return nil
}

func (o *objects) pushDict() error {
	err := o.takeRow(dictBytes, 0, len(o.dicts), cap(o.dicts))
	if err == nil {
		o.dicts = append(o.dicts, dict{memo: -1})
		o.push(newValue(kDict, uint64(len(o.dicts)-1)))
	}
	return err
}

// tuple makes one of the values from m on; two small integers are a pool id.
func (d *decoder) tuple(m int) error {
	items := d.stack[m:]
	if len(items) == 2 && items[0].kind() == kInt && items[1].kind() == kInt {
		d.stack = append(d.stack[:m], newValue(kPool, uint64(d.pool(Pool{items[0].int(), items[1].int()}))))
		return nil
	}
	d.stack = d.stack[:m]
	return d.pushList(kTuple, append([]value(nil), items...))
}

// extend adds the values from m on to a list, a dictionary or a set.
func (d *decoder) extend(op byte, at int, target value, m int) error {
	switch op {
	case pickle.Append, pickle.Appends:
		return d.extendList(op, at, target, m)
	case pickle.SetItem, pickle.SetItems:
		return d.extendDict(op, at, target, m)
	}
	if target.kind() != kOpaque {
		return d.fail(at, "ADDITEMS to something that is no set")
	}
	return nil
}

func (d *decoder) extendList(op byte, at int, target value, m int) error {
	switch target.kind() {
	case kList:
	case kStack:
		return d.shape(at, "a list of frames is changed after it was read")
	default:
		return d.fail(at, "%s to something that is no list", opNames[op])
	}
	l := &d.lists[target.index()]
	if l.isStack || l.expanded {
		return d.shape(at, "a list is changed after it was read")
	}
	values := d.stack[m:]
	if op == pickle.Appends && l.length() == 0 && d.allFrames(values) {
		var err error
		l.stack, err = d.internStack(d.scratch)
		l.isStack = true
		return err
	}
	for _, v := range values[l.extendRun(values):] {
		if err := d.appendTo(l, d.closed(v)); err != nil {
			return err
		}
		l = &d.lists[target.index()]
	}
	return nil
}

func (d *decoder) extendDict(op byte, at int, target value, m int) error {
	if target.kind() != kDict {
		if target.kind() >= kFrame && target.kind() <= kHistory {
			return d.shape(at, "a dictionary is changed after it was read")
		}
		return d.fail(at, "%s to something that is no dictionary", opNames[op])
	}
	items := d.stack[m:]
	if len(items)%2 != 0 {
		return d.fail(at, "%s with an odd number of values", opNames[op])
	}
	e := &d.dicts[target.index()]
	if e.done {
		return d.shape(at, "a dictionary is changed after it was read")
	}
	if op == pickle.SetItems && e.items == nil {
		if v, ok, err := d.close(items, keysOf(items)); err != nil {
			return err
		} else if ok {
			i := target.index()
			d.finish(i, v)
			d.stack[m-1] = v
			if i == len(d.dicts)-1 && !d.aliased { // nobody knows it any more
				d.dicts = d.dicts[:i]
				d.used -= dictBytes
			}
			return nil
		}
	}
	if err := d.take(8 * int64(len(items))); err != nil {
		return err
	}
	d.kept += len(items)
	e = &d.dicts[target.index()]
	e.items, e.mask = append(e.items, items...), e.mask|keysOf(items)
	return nil
}

// batched is how many elements CPython adds to a list with one APPENDS; more
// of them may follow.
const batched = 1000

// allFrames reports whether values are all there is of a stack, whose frames are
// then in decoder.scratch.
func (d *decoder) allFrames(values []value) bool {
	if len(values) >= batched {
		return false
	}
	d.scratch = d.scratch[:0]
	for _, v := range values {
		if v.kind() != kFrame {
			return false
		}
		d.scratch = append(d.scratch, FrameID(v.index()))
	}
	return len(values) > 0
}

// extendRun adds those first values that are events, blocks, segments or annotations
// one after the other, and gives their number.
func (l *list) extendRun(values []value) (n int) {
	if len(values) == 0 || l.items != nil {
		return 0
	}
	if k := values[0].kind(); k != kEvent && k != kBlock && k != kSegment && k != kNote {
		return 0
	}
	if l.count == 0 {
		l.run = values[0]
	}
	next := l.run + newValue(0, uint64(l.count))
	for n < len(values) && values[n] == next {
		n, next = n+1, next+newValue(0, 1)
	}
	l.count += n
	return n
}

// appendTo adds one element; rows of a table that follow each other stay a run.
func (d *decoder) appendTo(l *list, v value) error {
	k := v.kind()
	isRow := k == kEvent || k == kBlock || k == kSegment || k == kNote || k == kHistory
	if isRow && l.items == nil && (l.count == 0 || l.run+newValue(0, uint64(l.count)) == v) {
		if l.count == 0 {
			l.run = v
		}
		l.count++
		return nil
	}
	if l.count > 0 { // the run ends: spell it out
		if err := d.take(8 * int64(l.count)); err != nil {
			return err
		}
		items := make([]value, 0, l.count+1)
		for i := range l.count {
			items = append(items, l.run+newValue(0, uint64(i)))
		}
		l.items, l.count = items, 0
	}
	d.kept++
	if len(l.items) == cap(l.items) {
		more := len(l.items) + 4
		if err := d.take(8 * int64(more)); err != nil {
			return err
		}
		l.items = slices.Grow(l.items, more)
	}
	l.items = append(l.items, v)
	return nil
}

// closed is what a dictionary turned out to be, or v itself.
func (d *decoder) closed(v value) value {
	if v.kind() != kDict {
		return v
	}
	e := &d.dicts[v.index()]
	if e.done {
		return e.closed
	}
	row, ok, err := d.close(e.items, e.mask)
	if err != nil || !ok {
		return v
	}
	d.finish(v.index(), row)
	return row
}

// finish says what dictionary i is, also to those who will get it from the memo.
func (d *decoder) finish(i int, v value) {
	e := &d.dicts[i]
	e.closed, e.done, e.items = v, true, nil
	if e.memo >= 0 && int(e.memo) < len(d.memo) && d.memo[e.memo] == newValue(kDict, uint64(i)).ref() {
		d.memo[e.memo] = v.ref()
	}
}

// each calls f with every element of a list or tuple.
func (d *decoder) each(v value, f func(value) error) error {
	if v.kind() != kList && v.kind() != kTuple {
		return nil
	}
	l := &d.lists[v.index()]
	for i := range l.count {
		if err := f(l.run + newValue(0, uint64(i))); err != nil {
			return err
		}
	}
	for _, x := range l.items {
		if err := f(d.closed(x)); err != nil {
			return err
		}
	}
	return nil
}

// length is the number of elements of a list.
func (l *list) length() int { return l.count + len(l.items) }
