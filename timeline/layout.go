package timeline

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/snapshot"
)

// Segment is a piece of device memory that the allocator holds at some instant.
type Segment struct {
	Address      uint64
	Bytes        int64
	Stream, Pool uint32
	Small        bool
	Expandable   bool
	Blocks       []Block // by address; they tile the segment
}

// Block is a piece of a segment at some instant.
type Block struct {
	Address    uint64
	Bytes      int64
	Allocation AllocationID // NoAllocation: free
	Pending    bool         // its free was requested but isn't completed
}

// Layout is where everything lies at some instant.
type Layout struct {
	Segments []Segment // by address
	// Misfits counts blocks that overlap others or lie in no segment: in a
	// recording that is whole there are none.
	Misfits int
}

// LayoutAt is the layout right after an event; NoEvent asks for the instant
// before the first. It takes one pass over the allocations.
func (t *Timeline) LayoutAt(event int) Layout {
	var live []AllocationID
	for id := range t.Born {
		if t.Occupies(AllocationID(id), event) {
			live = append(live, AllocationID(id))
		}
	}
	slices.SortFunc(live, func(a, b AllocationID) int { return cmp.Compare(t.Address(a), t.Address(b)) })
	var l Layout
	next := 0
	for _, s := range t.spansAt(event) {
		for next < len(live) && t.Address(live[next]) < s.start {
			l.Misfits++
			next++
		}
		seg := Segment{Address: s.start, Bytes: int64(s.end - s.start), Stream: s.stream, Pool: s.pool, Small: s.small,
			Expandable: s.expandable}
		at := s.start
		for ; next < len(live) && t.Address(live[next]) < s.end; next++ {
			id := live[next]
			address, size := t.Address(id), uint64(t.Allocated[id])
			if address < at || size > s.end-address {
				l.Misfits++
				continue
			}
			if address > at {
				seg.Blocks = append(seg.Blocks, Block{at, int64(address - at), NoAllocation, false})
			}
			seg.Blocks = append(seg.Blocks, Block{address, int64(size), id, t.FreedAt(id) <= event})
			at = address + size
		}
		if at < s.end {
			seg.Blocks = append(seg.Blocks, Block{at, int64(s.end - at), NoAllocation, false})
		}
		l.Segments = append(l.Segments, seg)
	}
	l.Misfits += len(live) - next
	return l
}

// Free sums up the free memory of a layout, in bytes.
func (l *Layout) Free() (total, largest int64) {
	for _, s := range l.Segments {
		for _, b := range s.Blocks {
			if b.Allocation == NoAllocation {
				total += b.Bytes
				largest = max(largest, b.Bytes)
			}
		}
	}
	return total, largest
}

// OOM is a moment at which a request could not be met.
type OOM struct {
	Event      int
	Requested  int64 // bytes, rounded by the allocator
	DeviceFree int64 // what the driver had left after the cache was released; -1: not recorded
	Levels           // at that moment
	Largest    int64 // bytes of the largest free block
	Stack      snapshot.StackID
}

// Capacity is what PyTorch could have had at that moment: what it had
// reserved, and what the driver had left; -1 when the latter isn't recorded.
func (o *OOM) Capacity() int64 {
	if o.DeviceFree < 0 {
		return -1
	}
	return o.Reserved + o.DeviceFree
}

// maxOOMLayouts bounds the layouts that are worked out: a program that retries
// for ever fails in the same way every time.
const maxOOMLayouts = 16

// failed notes an oom entry; the file's own record of what was left on the
// device has the same order.
func (t *Timeline) failed(event int, now Levels) {
	o := OOM{Event: event, Requested: t.Device.Events.Size[event], DeviceFree: -1, Levels: now,
		Stack: t.Device.Events.StackOf(event), Largest: -1}
	if n := len(t.OOMs); n < len(t.Device.OOMs) && t.Device.OOMs[n].Event == event {
		o.DeviceFree = t.Device.OOMs[n].DeviceFree
	}
	t.OOMs = append(t.OOMs, o)
}

// layOutOOMs finds the largest free block at each failed request.
func (t *Timeline) layOutOOMs() {
	for i := range t.OOMs[:min(len(t.OOMs), maxOOMLayouts)] {
		l := t.LayoutAt(t.OOMs[i].Event)
		_, t.OOMs[i].Largest = l.Free()
	}
}
