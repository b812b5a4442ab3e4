package allocator

// key orders free blocks as the allocator does: by size, then by the age of
// their segment where the version of PyTorch looks at it, then by address.
// Unmapped ranges have size 0 and so lie by address alone.
type key struct {
	size    int64
	address uint64
	block   BlockID
	age     uint32
}

func (a key) less(b key) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	if a.age != b.age {
		return a.age < b.age
	}
	return a.address < b.address
}

// fanout is how many keys a node holds: few free blocks, as most programs
// have, are one sorted array.
const fanout = 64

// tree is an ordered set of keys: a B+ tree whose nodes are given up when they
// are empty. Every operation is logarithmic in the keys it has held.
type tree struct {
	root  *treeNode
	count int
}

// treeNode is a leaf with keys, or an inner node with children; then each key
// bounds its child from below.
type treeNode struct {
	n    int
	keys [fanout]key
	kids *[fanout]*treeNode
}

// place is the first position whose key is not less than k.
func (x *treeNode) place(k key) int {
	lo, hi := 0, x.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if x.keys[mid].less(k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// child is the position of the child that k belongs to.
func (x *treeNode) child(k key) int {
	i := x.place(k)
	if i < x.n && !k.less(x.keys[i]) {
		return i
	}
	return max(i-1, 0)
}

func (x *treeNode) put(i int, k key, kid *treeNode) {
	copy(x.keys[i+1:x.n+1], x.keys[i:x.n])
	x.keys[i] = k
	if x.kids != nil {
		copy(x.kids[i+1:x.n+1], x.kids[i:x.n])
		x.kids[i] = kid
	}
	x.n++
}

func (x *treeNode) cut(i int) {
	copy(x.keys[i:x.n-1], x.keys[i+1:x.n])
	if x.kids != nil {
		copy(x.kids[i:x.n-1], x.kids[i+1:x.n])
		x.kids[x.n-1] = nil
	}
	x.n--
}

// split moves the upper half into a new node.
func (x *treeNode) split() *treeNode {
	const half = fanout / 2
	right := &treeNode{n: fanout - half}
	copy(right.keys[:], x.keys[half:])
	if x.kids != nil {
		right.kids = new([fanout]*treeNode)
		copy(right.kids[:], x.kids[half:])
		clear(x.kids[half:])
	}
	x.n = half
	return right
}

func (t *tree) insert(k key) {
	t.count++
	if t.root == nil {
		t.root = &treeNode{}
	}
	if t.root.n == fanout {
		old := t.root
		t.root = &treeNode{n: 1, kids: new([fanout]*treeNode)}
		t.root.keys[0], t.root.kids[0] = old.keys[0], old
	}
	x := t.root
	for x.kids != nil {
		i := x.child(k)
		if c := x.kids[i]; c.n == fanout {
			right := c.split()
			x.put(i+1, right.keys[0], right)
			if !k.less(right.keys[0]) {
				i++
			}
		}
		if k.less(x.keys[i]) { // only possible in the first child
			x.keys[i] = k
		}
		x = x.kids[i]
	}
	x.put(x.place(k), k, nil)
}

// remove takes a key out; it reports whether it was there.
func (t *tree) remove(k key) bool {
	type step struct {
		x *treeNode
		i int
	}
	var path [16]step
	depth := 0
	x := t.root
	if x == nil {
		return false
	}
	for x.kids != nil {
		i := x.child(k)
		path[depth] = step{x, i}
		depth++
		x = x.kids[i]
	}
	i := x.place(k)
	if i == x.n || k.less(x.keys[i]) {
		return false
	}
	x.cut(i)
	t.count--
	for ; x.n == 0 && depth > 0; depth-- {
		x = path[depth-1].x
		x.cut(path[depth-1].i)
	}
	for t.root.n == 1 && t.root.kids != nil {
		t.root = t.root.kids[0]
	}
	if t.root.n == 0 {
		t.root.kids = nil
	}
	return true
}

// move puts a key in another one's place. Within one node, which is all that
// most programs need, the keys between the two places shift by one.
func (t *tree) move(from, to key) {
	x := t.root
	for x.kids != nil {
		i := x.child(from)
		if x.child(to) != i {
			t.remove(from)
			t.insert(to)
			return
		}
		if to.less(x.keys[i]) { // only possible in the first child
			x.keys[i] = to
		}
		x = x.kids[i]
	}
	i, j := x.place(from), x.place(to)
	if j > i {
		j--
		copy(x.keys[i:j], x.keys[i+1:j+1])
	} else {
		copy(x.keys[j+1:i+1], x.keys[j:i])
	}
	x.keys[j] = to
}

// from is the first key that is not less than k.
func (t *tree) from(k key) (key, bool) {
	x := t.root
	if x == nil || t.count == 0 {
		return key{}, false
	}
	var next *treeNode // begins right behind the subtree that k belongs to
	for x.kids != nil {
		i := x.child(k)
		if i+1 < x.n {
			next = x.kids[i+1]
		}
		x = x.kids[i]
	}
	if i := x.place(k); i < x.n {
		return x.keys[i], true
	}
	if next == nil {
		return key{}, false
	}
	for next.kids != nil {
		next = next.kids[0]
	}
	return next.keys[0], true
}

// after is the first key that is greater than k.
func (t *tree) after(k key) (key, bool) {
	k.address++
	return t.from(k)
}

// before is the last key that is less than k.
func (t *tree) before(k key) (key, bool) {
	x := t.root
	if x == nil || t.count == 0 {
		return key{}, false
	}
	var previous *treeNode
	for x.kids != nil {
		i := x.child(k)
		if i > 0 {
			previous = x.kids[i-1]
		}
		x = x.kids[i]
	}
	if i := x.place(k); i > 0 {
		return x.keys[i-1], true
	}
	if previous == nil {
		return key{}, false
	}
	for previous.kids != nil {
		previous = previous.kids[previous.n-1]
	}
	return previous.keys[previous.n-1], true
}

// each calls f with every key in order; f must not change the tree.
func (t *tree) each(f func(key)) {
	var walk func(*treeNode)
	walk = func(x *treeNode) {
		for i := range x.n {
			if x.kids != nil {
				walk(x.kids[i])
			} else {
				f(x.keys[i])
			}
		}
	}
	if t.root != nil {
		walk(t.root)
	}
}
