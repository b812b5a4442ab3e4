package snapshot

import "github.com/vramscope/vramscope/snapshot/pickle"

// fold closes every container that a truncated file left open, innermost
// first, so that what was read up to the cut can be used. Rows of tables that
// are not whole are left out.
func (d *decoder) fold() (value, error) {
	for {
		from := d.openChain()
		if err := d.collapse(from); err != nil {
			return 0, err
		}
		if len(d.marks) == 0 {
			break
		}
		m := d.marks[len(d.marks)-1]
		d.marks = d.marks[:len(d.marks)-1]
		if m == 0 {
			d.stack = d.stack[:0]
			continue
		}
		op := byte(pickle.Appends)
		switch d.stack[m-1].kind() {
		case kDict:
			op = pickle.SetItems
			if (len(d.stack)-m)%2 != 0 { // a key whose value was still to come
				d.stack = d.stack[:len(d.stack)-1]
			}
			if shapeOf(keysOf(d.stack[m:])) != kDict {
				d.stack = d.stack[:m]
				continue
			}
		case kList:
			d.dropOpenRow(m)
		default: // what was to become a tuple
			d.stack = d.stack[:m]
			continue
		}
		if err := d.extend(op, d.p, d.stack[m-1], m); err != nil {
			return 0, err
		}
		d.stack = d.stack[:m]
	}
	if len(d.stack) == 0 {
		return 0, d.cut()
	}
	return d.stack[0], nil
}

// dropOpenRow takes the last value above m away when it is a dictionary that
// was still being read.
func (d *decoder) dropOpenRow(m int) {
	if n := len(d.stack); n > m && d.stack[n-1].kind() == kDict {
		d.stack = d.stack[:n-1]
	}
}

// openChain is where, above the last mark, a container begins that was being
// filled without a mark of its own, as those with a single element are: what
// follows it on the stack is its contents.
func (d *decoder) openChain() int {
	m := d.floor()
	if len(d.marks) == 0 {
		return 0
	}
	filled := kNone // what the values above the mark are for
	if m > 0 {
		filled = d.stack[m-1].kind()
	}
	for i := m; i < len(d.stack); i++ {
		if filled == kDict {
			i++ // the value of a key
		}
		if i+1 >= len(d.stack) {
			break
		}
		v, next := d.stack[i].kind(), d.stack[i+1].kind()
		switch {
		case v == kList && filled == kDict && next != kString: // else it is the next key
			return i
		case v == kList && filled != kDict && next != kList: // else it is the next element
			return i
		case v == kDict && next == kString && filled != kDict:
			return i
		}
	}
	return len(d.stack)
}

// collapse puts the values from an open container on into each other, from the
// last one backwards.
func (d *decoder) collapse(from int) error {
	for n := len(d.stack); n > from+1; n = len(d.stack) {
		var err error
		left := n - 1
		switch {
		case n >= from+3 && d.stack[n-3].kind() == kDict && d.stack[n-2].kind() == kString:
			left = n - 2
			err = d.extend(pickle.SetItem, d.p, d.stack[n-3], left)
		case d.stack[n-2].kind() == kList && d.stack[n-1].kind() != kDict:
			err = d.extend(pickle.Append, d.p, d.stack[n-2], left)
		}
		if err != nil {
			return err
		}
		d.stack = d.stack[:left]
	}
	return nil
}
