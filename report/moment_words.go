package report

import (
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// lacks says that more is allocated than reserved, which only a file that
// contradicts itself holds; "" for all others.
func (m Moment) lacks() string {
	if m.CacheBytes >= 0 {
		return ""
	}
	return units.Bytes(-m.CacheBytes) + " more is allocated than reserved"
}

// free is the part of what is reserved that isn't allocated, in words.
func (m Moment) free() string {
	if lacks := m.lacks(); lacks != "" {
		return "but " + lacks
	}
	return units.Bytes(m.CacheBytes) + " of it free"
}

// cacheCell is the same as a number in a table.
func cacheCell(m Moment) string {
	if lacks := m.lacks(); lacks != "" {
		return "none: " + lacks
	}
	return units.Bytes(m.CacheBytes)
}

// capacityNote says where the size of the GPU is from, in words by source.
func (d *Device) capacityNote(words map[string]string) string {
	var parts []string
	if d.CapacitySource != nil {
		parts = append(parts, words[*d.CapacitySource])
	}
	if d.CapacityDisproved != nil {
		parts = append(parts, "more than the "+units.Bytes(*d.CapacityDisproved)+" given")
	}
	return strings.Join(parts, ", ")
}
