package classify

import "github.com/vramscope/vramscope/timeline"

// sparse is something of a few allocations. Every allocation is asked for it, so
// what has none is told by a bit.
type sparse[V any] struct {
	here []uint64
	of   map[timeline.AllocationID]V
}

func (s *sparse[V]) get(id timeline.AllocationID) (v V, ok bool) {
	if i := int(id >> 6); i >= len(s.here) || s.here[i]>>(id&63)&1 == 0 {
		return v, false
	}
	v, ok = s.of[id]
	return v, ok
}

func (s *sparse[V]) put(id timeline.AllocationID, v V) {
	if s.of == nil {
		s.of = map[timeline.AllocationID]V{}
	}
	if more := int(id>>6) + 1 - len(s.here); more > 0 {
		s.here = append(s.here, make([]uint64, more)...)
	}
	s.here[id>>6] |= 1 << (id & 63)
	s.of[id] = v
}
