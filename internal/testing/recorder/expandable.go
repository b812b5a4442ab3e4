package recorder

// pageSize is what expandable segments are mapped in.
func pageSize(small bool) int64 {
	if small {
		return smallBuffer
	}
	return largeBuffer
}

// mapMore maps memory behind, or between, what is mapped, and gives a free
// block of at least r bytes (try_allocate_expandable_block). What was mapped
// before the device is full stays.
func (d *device) mapMore(r int64, stream uint64, pool [2]int64, small bool, stack *Stack) *block {
	page := pageSize(small)
	for _, s := range d.segments {
		if s.stream != stream || s.pool != pool || s.small != small {
			continue
		}
		for i, b := range s.blocks {
			if b.state != unmapped {
				continue
			}
			if i > 0 && s.blocks[i-1].state == free {
				i--
			}
			room := int64(0)
			for j := i; j < len(s.blocks) && (s.blocks[j].state == unmapped || s.blocks[j].state == free); j++ {
				room += s.blocks[j].size
			}
			if room >= r {
				return d.mapFrom(s, s.blocks[i], r, page, stack)
			}
		}
	}
	size := (d.program.Capacity*9/8 + page - 1) / page * page
	d.next = (d.next + largeBuffer - 1) / largeBuffer * largeBuffer
	s := &segment{address: d.next, stream: stream, pool: pool, small: small, expandable: true, stack: stack}
	d.next += uint64(size) + largeBuffer
	s.blocks = []*block{{address: s.address, size: size, state: unmapped, segment: s}}
	d.segments = append(d.segments, s)
	return d.mapFrom(s, s.blocks[0], r, page, stack)
}

// mapFrom maps from a block on until it has r bytes.
func (d *device) mapFrom(s *segment, b *block, r, page int64, stack *Stack) *block {
	start := b.address
	for {
		b = s.at(start)
		if b.state == free && b.size >= r {
			return b
		}
		hole := b
		need := r
		if b.state == free {
			hole = s.at(b.address + uint64(b.size))
			need = r - b.size
		}
		bytes := min((need+page-1)/page*page, hole.size)
		if d.now.Reserved+bytes > d.program.Capacity {
			return nil
		}
		if bytes < hole.size {
			d.cut(hole, bytes)
		}
		hole.state = free
		address := hole.address
		d.join(hole)
		d.now.Reserved += bytes
		d.emit("segment_map", address, bytes, s.stream, s.pool, stack, nil)
	}
}

// at is the block that begins at an address.
func (s *segment) at(address uint64) *block {
	for _, b := range s.blocks {
		if b.address == address {
			return b
		}
	}
	return nil
}

// unmap gives the whole pages in a segment's free blocks back.
func (d *device) unmap(s *segment) {
	page := uint64(pageSize(s.small))
	for i := 0; i < len(s.blocks); i++ {
		b := s.blocks[i]
		if b.state != free {
			continue
		}
		begin := (b.address - s.address + page - 1) / page * page
		end := (b.address - s.address + uint64(b.size)) / page * page
		if begin >= end {
			continue
		}
		if begin += s.address; begin > b.address {
			d.cut(b, int64(begin-b.address))
			i++
			b = s.blocks[i]
		}
		bytes := int64(end + s.address - begin)
		if bytes < b.size {
			d.cut(b, bytes)
		}
		b.state = unmapped
		d.now.Reserved -= bytes
		address := b.address
		s.joinUnmapped()
		d.emit("segment_unmap", address, bytes, s.stream, s.pool, s.stack, nil)
		i = -1 // neighbours have moved
	}
}

// joinUnmapped makes one hole of a hole and its neighbours.
func (s *segment) joinUnmapped() {
	for i := 0; i+1 < len(s.blocks); {
		if s.blocks[i].state == unmapped && s.blocks[i+1].state == unmapped {
			s.blocks[i].size += s.blocks[i+1].size
			s.blocks = append(s.blocks[:i+1], s.blocks[i+2:]...)
			continue
		}
		i++
	}
}
