package snapshot

// fold closes every container that a truncated file left open, innermost
// first, so that what was read up to the cut can be used.
func (d *decoder) fold() (value, error) {
	for len(d.marks) > 0 {
		m := d.marks[len(d.marks)-1]
		d.marks = d.marks[:len(d.marks)-1]
		if m == 0 {
			break
		}
		op := byte(opAppends)
		switch d.stack[m-1].kind() {
		case kDict:
			op = opSetItems
			if (len(d.stack)-m)%2 != 0 { // a key whose value was still being read
				d.stack = d.stack[:len(d.stack)-1]
			}
		case kList:
		default:
			d.stack = d.stack[:m]
			continue
		}
		if err := d.extend(op, d.p, d.stack[m-1], m); err != nil {
			return 0, err
		}
		d.stack = d.stack[:m]
	}
	// Containers that were being filled without a mark: each is the value of
	// the key, or the element of the list, below it.
	for n := len(d.stack); n > 1; n = len(d.stack) {
		switch {
		case n >= 3 && d.stack[n-3].kind() == kDict && d.stack[n-2].kind() == kString:
			if err := d.extend(opSetItem, d.p, d.stack[n-3], n-2); err != nil {
				return 0, err
			}
			d.stack = d.stack[:n-2]
		case d.stack[n-2].kind() == kList:
			if err := d.extend(opAppend, d.p, d.stack[n-2], n-1); err != nil {
				return 0, err
			}
			d.stack = d.stack[:n-1]
		default:
			d.stack = d.stack[:n-1]
		}
	}
	if len(d.stack) == 0 {
		return 0, d.cut()
	}
	return d.stack[0], nil
}
