// Package hashes finds what was seen before by its hash, for tables that are too hot for maps.
package hashes

import (
	"hash/maphash"
	"unsafe"

	"github.com/vramscope/vramscope/internal/pages"
)

// Index is an open-addressing table from a 64-bit hash to a non-zero id;
// the owner of the ids compares contents.
type Index struct {
	seed   maphash.Seed
	hashes []uint64
	ids    []uint32
	used   int
}

// New is an empty index.
func New() Index {
	return Index{seed: maphash.MakeSeed(), hashes: make([]uint64, 1024), ids: make([]uint32, 1024)}
}

// Hash is that of some bytes.
func (x *Index) Hash(b []byte) uint64 { return maphash.Bytes(x.seed, b) }

// First and Next are the slots in which an id of a hash may be.
func (x *Index) First(h uint64) uint64 { return h & uint64(len(x.ids)-1) }
func (x *Index) Next(slot uint64) uint64 {
	return (slot + 1) & uint64(len(x.ids)-1)
}

// At is the id in a slot, 0 when empty, and whether its hash is h.
func (x *Index) At(slot, h uint64) (id uint32, same bool) {
	return x.ids[slot], x.hashes[slot] == h
}

// Insert adds an id that isn't there yet.
func (x *Index) Insert(h uint64, id uint32) {
	if x.used*2 >= len(x.ids) {
		hashes, ids := x.hashes, x.ids
		x.hashes, x.ids, x.used = pages.Make[uint64](2*len(ids)), pages.Make[uint32](2*len(ids)), 0
		for i, id := range ids {
			if id != 0 {
				x.place(hashes[i], id)
			}
		}
	}
	x.place(h, id)
}

func (x *Index) place(h uint64, id uint32) {
	slot := x.First(h)
	for x.ids[slot] != 0 {
		slot = x.Next(slot)
	}
	x.hashes[slot], x.ids[slot] = h, id
	x.used++
}

// Bytes are those of numbers in memory, to be hashed.
func Bytes[T ~uint32](numbers []T) []byte {
	if len(numbers) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), len(numbers)*int(unsafe.Sizeof(numbers[0])))
}
