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
