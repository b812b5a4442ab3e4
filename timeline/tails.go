package timeline

// layout follows the blocks of the large pool in ordinary segments, as linked
// lists in address order, to know which free piece each block is cut from.
type layout struct {
	t      *Timeline
	nodes  []node
	spare  []uint32
	starts *addresses // of nodes
	on     bool
}

// node is a block, in use or free; index 0 is unused.
type node struct {
	start      uint64
	size       int64
	prev, next uint32
	free       bool
}

func newLayout(t *Timeline) *layout {
	return &layout{t: t, nodes: make([]node, 1), starts: newAddresses(), on: !t.rounding.expandable}
}

// begin lays out what the trace starts with, and settles the sizes of blocks
// that were there before: one that leaves up to 1 MiB to its neighbour has
// that as its tail.
func (l *layout) begin(spans []span) {
	t := l.t
	id := 0
	for _, s := range spans {
		for id < len(t.older) && t.older[id].address < s.start {
			id++
		}
		if s.expandable || s.small {
			continue
		}
		at, last := s.start, uint32(0)
		for id < len(t.older) && t.older[id].address < s.end {
			o := &t.older[id]
			if t.Allocated[id] == 0 {
				t.Allocated[id] = l.sizeOfOlder(id, at, s.end)
			}
			size := t.Allocated[id]
			if o.address >= at && l.on {
				if o.address > at {
					last = l.link(at, int64(o.address-at), last, true)
				}
				last = l.link(o.address, size, last, false)
				at = o.address + uint64(size)
			}
			id++
		}
		if at < s.end && l.on {
			l.link(at, int64(s.end-at), last, true)
		}
	}
}

// sizeOfOlder is the size of a block that was there before, in memory that ends at an
// address and is known up to another one.
func (l *layout) sizeOfOlder(id int, known, end uint64) int64 {
	t := l.t
	o := &t.older[id]
	size := t.rounding.round(o.requested)
	if o.address < known || !l.on {
		return size
	}
	if id+1 < len(t.older) {
		end = min(end, t.older[id+1].address)
	}
	if room := int64(end - o.address); room > size && !t.rounding.splits(size, room-size) {
		return room
	}
	return size
}

// link adds a node behind another one.
func (l *layout) link(start uint64, size int64, prev uint32, free bool) uint32 {
	var n uint32
	if k := len(l.spare); k > 0 {
		n, l.spare = l.spare[k-1], l.spare[:k-1]
	} else {
		n = uint32(len(l.nodes))
		l.nodes = append(l.nodes, node{})
	}
	l.nodes[n] = node{start: start, size: size, prev: prev, free: free}
	if prev != 0 {
		next := l.nodes[prev].next
		l.nodes[n].next = next
		l.nodes[prev].next = n
		if next != 0 {
			l.nodes[next].prev = n
		}
	}
	l.starts.set(start, n)
	return n
}

// drop takes a node out.
func (l *layout) drop(n uint32) {
	x := l.nodes[n]
	if x.prev != 0 {
		l.nodes[x.prev].next = x.next
	}
	if x.next != 0 {
		l.nodes[x.next].prev = x.prev
	}
	l.starts.remove(x.start)
	l.spare = append(l.spare, n)
}

func (l *layout) addSegment(address uint64, size int64) {
	if l.on && size != smallBuffer && size > 0 {
		l.dropSegment(address)
		l.link(address, size, 0, true)
	}
}

// dropSegment forgets the segment that begins at an address.
func (l *layout) dropSegment(address uint64) {
	n := l.starts.get(address)
	if n == 0 || l.nodes[n].prev != 0 {
		return
	}
	for n != 0 {
		next := l.nodes[n].next
		l.drop(n)
		n = next
	}
}

// alloc cuts a block of the rounded size r off the free piece at an address
// and gives the block's true size; known is that size when the final state
// tells it, else 0. Where the layout isn't known the block gets no tail.
func (l *layout) alloc(address uint64, r, known int64) int64 {
	n := l.starts.get(address)
	if n == 0 || !l.nodes[n].free || l.nodes[n].size < r {
		return r
	}
	x := &l.nodes[n]
	size := x.size
	if l.t.rounding.splits(r, size-r) {
		size = r
	}
	if known > 0 && known <= x.size {
		size = known
	}
	rest := x.size - size
	x.size, x.free = size, false
	if rest > 0 {
		l.link(address+uint64(size), rest, n, true)
	}
	return size
}

// free gives the block at an address back and joins it with free neighbours.
func (l *layout) free(address uint64) {
	n := l.starts.get(address)
	if n == 0 || l.nodes[n].free {
		return
	}
	l.nodes[n].free = true
	if p := l.nodes[n].prev; p != 0 && l.nodes[p].free {
		l.nodes[p].size += l.nodes[n].size
		l.drop(n)
		n = p
	}
	if next := l.nodes[n].next; next != 0 && l.nodes[next].free {
		l.nodes[n].size += l.nodes[next].size
		l.drop(next)
	}
}
