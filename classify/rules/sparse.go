package rules

import "github.com/vramscope/vramscope/timeline"

// set is some of the allocations, a bit for each.
type set []uint64

func (s set) Has(id timeline.AllocationID) bool {
	i := int(id >> 6)
	return i < len(s) && s[i]>>(id&63)&1 != 0
}

func (s *set) Add(id timeline.AllocationID) {
	if more := int(id>>6) + 1 - len(*s); more > 0 {
		*s = append(*s, make(set, more)...)
	}
	(*s)[id>>6] |= 1 << (id & 63)
}

// Sparse is something of a few allocations. Every allocation is asked for it, so
// what has none is told by a bit.
type Sparse[V any] struct {
	here set
	Of   map[timeline.AllocationID]V
}

func (s *Sparse[V]) Get(id timeline.AllocationID) (v V, ok bool) {
	if !s.here.Has(id) {
		return v, false
	}
	return s.Of[id], true
}

func (s *Sparse[V]) Put(id timeline.AllocationID, v V) {
	if s.Of == nil {
		s.Of = map[timeline.AllocationID]V{}
	}
	s.here.Add(id)
	s.Of[id] = v
}
