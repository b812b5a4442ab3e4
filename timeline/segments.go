package timeline

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/snapshot"
)

// span is a piece of device memory that the allocator held at some instant.
type span struct {
	start, end   uint64
	stream, pool uint32
	small        bool
	expandable   bool
	owner        int // equal for pieces of one segment
}

// spansAt is what the allocator held right after an event, by address: the
// final segments with all later segment events taken back. Each piece of
// memory was then as the first later event that touches it says (it frees or
// unmaps what was there), or as it is at the end.
func (t *Timeline) spansAt(event int) []span {
	var later []int
	e := &t.Device.Events
	first, _ := slices.BinarySearch(t.segments, uint32(event+1))
	for _, i := range t.segments[first:] {
		if e.Size[i] > 0 {
			later = append(later, int(i))
		}
	}
	final := t.finalSpans()
	if len(later) == 0 {
		return merge(final)
	}
	var bounds []uint64
	for _, i := range later {
		bounds = append(bounds, e.Address[i], e.Address[i]+uint64(e.Size[i]))
	}
	for _, s := range final {
		bounds = append(bounds, s.start, s.end)
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	p := painting{bounds: bounds, painter: make([]int32, len(bounds)), next: make([]int32, len(bounds))}
	for i := range p.next {
		p.next[i] = int32(i)
	}
	for n, i := range later {
		p.paint(e.Address[i], e.Address[i]+uint64(e.Size[i]), int32(n)+1)
	}
	for n, s := range final {
		p.paint(s.start, s.end, -int32(n)-1)
	}
	var spans []span
	for k := 0; k+1 < len(bounds); k++ {
		var s span
		switch n := p.painter[k]; {
		case n == 0:
			continue
		case n < 0:
			s = final[-n-1]
		default:
			i := later[n-1]
			a := e.Action[i]
			if a == snapshot.SegmentAlloc || a == snapshot.SegmentMap {
				continue // not there yet
			}
			s = span{stream: e.StreamOf(i), pool: e.PoolOf(i), small: a == snapshot.SegmentFree && e.Size[i] == smallBuffer,
				expandable: a == snapshot.SegmentUnmap, owner: i + 1}
		}
		s.start, s.end = bounds[k], bounds[k+1]
		spans = append(spans, s)
	}
	return merge(spans)
}

// ReservedAt calls f with what is reserved after each event that changes it, in
// order.
func (t *Timeline) ReservedAt(f func(event int, bytes int64)) {
	now := t.Start.Reserved
	e := &t.Device.Events
	for _, i := range t.segments {
		now = max(add(now, reservedBy(e.Action[i], e.Size[i])), 0)
		f(int(i), now)
	}
}

func isSegment(a snapshot.Action) bool {
	return a >= snapshot.SegmentAlloc && a <= snapshot.SegmentUnmap
}

// FinalSegments are the segments at the dump, in the file's order and without
// blocks; none where the file ends before them.
func (t *Timeline) FinalSegments() []Segment {
	spans := t.finalSpans()
	out := make([]Segment, 0, len(spans))
	for _, s := range spans {
		out = append(out, Segment{Address: s.start, Bytes: int64(s.end - s.start), Stream: s.stream, Pool: s.pool, Small: s.small,
			Expandable: s.expandable})
	}
	return out
}

// finalSpans are the segments at the dump, unsorted.
func (t *Timeline) finalSpans() []span {
	if t.unended() {
		return nil
	}
	spans := make([]span, 0, len(t.Device.Segments))
	for i := range t.Device.Segments {
		s := &t.Device.Segments[i]
		if s.TotalSize > 0 && s.Address+uint64(s.TotalSize) > s.Address {
			spans = append(spans, span{s.Address, s.Address + uint64(s.TotalSize), s.Stream, s.Pool, s.Small, s.Expandable,
				-i - 1})
		}
	}
	return spans
}

// painting gives each piece between two bounds to the first who claims it.
type painting struct {
	bounds  []uint64
	painter []int32
	next    []int32 // the first unclaimed piece from here on, with shortcuts
}

func (p *painting) paint(start, end uint64, painter int32) {
	first := sort.Search(len(p.bounds), func(k int) bool { return p.bounds[k] >= start })
	for k := p.find(int32(first)); int(k)+1 < len(p.bounds) && p.bounds[k] < end; k = p.find(k) {
		p.painter[k] = painter
		p.next[k] = k + 1
	}
}

func (p *painting) find(k int32) int32 {
	root := k
	for p.next[root] != root {
		root = p.next[root]
	}
	for p.next[k] != root {
		p.next[k], k = root, p.next[k]
	}
	return root
}

// merge sorts the pieces by address and joins those of one segment; adjacent
// mapped ranges of expandable segments are one, as in torch's own snapshots.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].end == s.start &&
			(out[n-1].owner == s.owner || out[n-1].expandable && s.expandable && out[n-1].stream == s.stream &&
				out[n-1].pool == s.pool) {
			out[n-1].end = s.end
			out[n-1].small = out[n-1].small || s.small
			continue
		}
		out = append(out, s)
	}
	return out
}

// Expandable reports whether the device's segments grow: by the settings, or,
// where those weren't recorded, by the segments themselves.
func (t *Timeline) Expandable() bool {
	return t.rounding.expandable || slices.ContainsFunc(t.Device.Segments, func(s snapshot.Segment) bool { return s.Expandable })
}
