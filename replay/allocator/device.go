package allocator

import "sort"

// where the addresses of replayed segments begin when a recording has none.
const firstAddress = uint64(0x7000_0000_0000)

// rangeStride lies between two expandable segments.
const rangeStride = uint64(1) << 46

// gap is unused address space between segments.
type gap struct {
	start uint64
	bytes int64
}

// device is a GPU of a given capacity that gives out the lowest address at
// which a segment has room, as CUDA mostly does. Where it puts a segment matters
// only between free blocks of equal size, of which the lowest may be taken.
type device struct {
	capacity int64  // bytes that PyTorch may have in all
	total    int64  // bytes of the GPU, which decide the size of expandable segments; 0: not known
	end      uint64 // behind the last segment
	gaps     []gap  // by address
	ranges   []uint64
}

func newDevice(capacity, total int64) device {
	return device{capacity: capacity, total: total, end: firstAddress}
}

// malloc gives an address for a segment; false when the device is full.
func (d *device) malloc(bytes, reserved int64) (uint64, bool) {
	if reserved+bytes > d.capacity {
		return 0, false
	}
	bytes = roundUp(bytes, roundLarge)
	for i := range d.gaps {
		g := &d.gaps[i]
		if g.bytes < bytes {
			continue
		}
		address := g.start
		g.start += uint64(bytes)
		if g.bytes -= bytes; g.bytes == 0 {
			d.gaps = append(d.gaps[:i], d.gaps[i+1:]...)
		}
		return address, true
	}
	address := d.end
	d.end += uint64(bytes)
	return address, true
}

func (d *device) free(address uint64, bytes int64) {
	bytes = roundUp(bytes, roundLarge)
	i := sort.Search(len(d.gaps), func(i int) bool { return d.gaps[i].start >= address })
	if i > 0 && d.gaps[i-1].start+uint64(d.gaps[i-1].bytes) == address {
		i--
		d.gaps[i].bytes += bytes
	} else {
		d.gaps = append(d.gaps, gap{})
		copy(d.gaps[i+1:], d.gaps[i:])
		d.gaps[i] = gap{address, bytes}
	}
	if i+1 < len(d.gaps) && d.gaps[i].start+uint64(d.gaps[i].bytes) == d.gaps[i+1].start {
		d.gaps[i].bytes += d.gaps[i+1].bytes
		d.gaps = append(d.gaps[:i+1], d.gaps[i+2:]...)
	}
	if last := len(d.gaps) - 1; last >= 0 && d.gaps[last].start+uint64(d.gaps[last].bytes) == d.end {
		d.end = d.gaps[last].start
		d.gaps = d.gaps[:last]
	}
}

// occupy notes a segment of a recording's first state; they come in the order
// of their addresses.
func (d *device) occupy(address uint64, bytes int64) {
	if d.end == firstAddress && len(d.gaps) == 0 {
		d.end = address
	}
	if address > d.end {
		d.gaps = append(d.gaps, gap{d.end, int64(address - d.end)})
	}
	d.end = max(d.end, address+uint64(bytes))
}

// mapPages gives memory to a part of an expandable segment.
func (d *device) mapPages(bytes, reserved int64) bool { return reserved+bytes <= d.capacity }

// rangeBytes is the address space of each expandable segment.
func (d *device) rangeBytes() int64 {
	if d.total > 0 {
		return min(1<<45, d.total+d.total/8)
	}
	return 1 << 45
}

// addressRange is address space for one expandable segment.
func (d *device) addressRange(page int64) (uint64, int64) {
	start := uint64(page) // the lowest stride that is free
	for _, taken := range d.ranges {
		if taken == start {
			start += rangeStride / uint64(page) * uint64(page)
		}
	}
	i := sort.Search(len(d.ranges), func(i int) bool { return d.ranges[i] >= start })
	d.ranges = append(d.ranges, 0)
	copy(d.ranges[i+1:], d.ranges[i:])
	d.ranges[i] = start
	return start, roundUp(d.rangeBytes(), page)
}

func (d *device) dropRange(start uint64) {
	for i, r := range d.ranges {
		if r == start {
			d.ranges = append(d.ranges[:i], d.ranges[i+1:]...)
			return
		}
	}
}
