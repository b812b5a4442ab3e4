package classify

import "github.com/vramscope/vramscope/timeline"

// set is some of the allocations, a bit for each.
type set []uint64

func (s set) has(id timeline.AllocationID) bool {
	i := int(id >> 6)
	return i < len(s) && s[i]>>(id&63)&1 != 0
}

func (s *set) add(id timeline.AllocationID) {
	if more := int(id>>6) + 1 - len(*s); more > 0 {
		*s = append(*s, make(set, more)...)
	}
	(*s)[id>>6] |= 1 << (id & 63)
}

// sparse is something of a few allocations. Every allocation is asked for it, so
// what has none is told by a bit.
type sparse[V any] struct {
	here set
	of   map[timeline.AllocationID]V
}

func (s *sparse[V]) get(id timeline.AllocationID) (v V, ok bool) {
	if !s.here.has(id) {
		return v, false
	}
	return s.of[id], true
}

func (s *sparse[V]) put(id timeline.AllocationID, v V) {
	if s.of == nil {
		s.of = map[timeline.AllocationID]V{}
	}
	s.here.add(id)
	s.of[id] = v
}
