package allocator

import "github.com/vramscope/vramscope/timeline"

// LayOut takes over segments with their blocks as a recording had them, by address.
// It calls give with the blocks in use, in their order.
func (a *Allocator) LayOut(segments []timeline.Segment, pairOf func(*timeline.Segment) uint16, give func(BlockID)) {
	for i := range segments {
		if s := &segments[i]; !s.Expandable {
			a.device.occupy(s.Address, s.Bytes)
		}
	}
	ranges := map[uint32]BlockID{} // by arena: the last block of its expandable segment
	for i := range segments {
		s := &segments[i]
		where := 2 * uint32(pairOf(s))
		if !s.Small {
			where++
		}
		last := BlockID(0)
		index, age := uint32(0), uint32(0)
		if s.Expandable {
			index, last = a.resume(ranges[where], s.Address)
		} else {
			a.Segments++
		}
		if age = a.blocks[last].age; last == 0 {
			age = a.nextAge()
		}
		a.Reserved += s.Bytes
		for _, b := range s.Blocks {
			last = a.append(last, block{address: b.Address, size: b.Bytes, range_: index, age: age, arena: uint16(where),
				state: used})
			if b.Allocation == timeline.NoAllocation {
				a.cache(last)
			} else {
				give(last)
			}
		}
		if s.Expandable {
			ranges[where] = last
		}
	}
	for _, last := range ranges {
		a.endRange(last)
	}
	a.PeakReserved = a.Reserved
}

// append adds a block behind the last one of its segment.
func (a *Allocator) append(last BlockID, b block) BlockID {
	b.prev = last
	id := a.newBlock(b)
	if last != 0 {
		a.blocks[last].next = id
	}
	return id
}

// resume continues an expandable segment behind its last block, or begins one at an
// address: what lies between its mapped parts is unmapped.
func (a *Allocator) resume(last BlockID, address uint64) (index uint32, _ BlockID) {
	if last == 0 {
		a.ranges = append(a.ranges, address)
		return uint32(len(a.ranges) - 1), 0
	}
	index = a.blocks[last].range_
	if end := a.end(last); address > end {
		last = a.appendHole(last, int64(address-end))
	}
	return index, last
}

// endRange adds the unmapped rest behind an expandable segment's last block.
func (a *Allocator) endRange(last BlockID) {
	b := &a.blocks[last]
	page := a.page(a.arenas[b.arena].small)
	start, bytes := a.device.addressRange(page)
	a.device.dropRange(start)
	if rest := bytes - int64(a.end(last)-a.ranges[b.range_]); rest > 0 {
		a.appendHole(last, rest/page*page)
	}
}

// end is the address behind a block.
func (a *Allocator) end(id BlockID) uint64 { return a.blocks[id].address + uint64(a.blocks[id].size) }

func (a *Allocator) appendHole(last BlockID, bytes int64) BlockID {
	b := &a.blocks[last]
	id := a.append(last, block{address: a.end(last), size: bytes, range_: b.range_, age: b.age, arena: b.arena})
	a.addHole(id)
	return id
}
