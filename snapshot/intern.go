package snapshot

import (
	"hash/maphash"
	"unsafe"

	"github.com/vramscope/vramscope/internal/pages"
)

// stackTable interns lists of frames by content. Ids are given in order of
// first appearance, so they don't depend on the hash seed.
type stackTable struct {
	arena []FrameID
	ends  []int // ends[i] is where stack i ends in arena
	index hashIndex
}

func newStackTable() stackTable { return stackTable{ends: []int{0}, index: newHashIndex()} }

func (t *stackTable) len() int { return len(t.ends) }

func (t *stackTable) frames(id StackID) []FrameID {
	if id == 0 {
		return nil
	}
	return t.arena[t.ends[id-1]:t.ends[id]:t.ends[id]]
}

// intern gives the id of a stack; the frames are copied when it is new.
func (t *stackTable) intern(frames []FrameID) StackID {
	if len(frames) == 0 {
		return 0
	}
	h := t.index.hash(bytesOf(frames))
	for slot := t.index.first(h); ; slot = t.index.next(slot) {
		id, found := t.index.at(slot, h)
		if id == 0 {
			t.arena = append(pages.Grown(t.arena, len(frames)), frames...)
			t.ends = append(pages.Grown(t.ends, 1), len(t.arena))
			id := uint32(len(t.ends) - 1)
			t.index.insert(h, id)
			return StackID(id)
		}
		if found && equalFrames(t.frames(StackID(id)), frames) {
			return StackID(id)
		}
	}
}

func equalFrames(a, b []FrameID) bool {
	return len(a) == len(b) && string(bytesOf(a)) == string(bytesOf(b))
}

func bytesOf(frames []FrameID) []byte {
	if len(frames) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&frames[0])), len(frames)*int(unsafe.Sizeof(frames[0])))
}

// hashIndex is an open-addressing table from a 64-bit hash to a non-zero id;
// the owner of the ids compares contents.
type hashIndex struct {
	seed   maphash.Seed
	hashes []uint64
	ids    []uint32
	used   int
}

func newHashIndex() hashIndex {
	return hashIndex{seed: maphash.MakeSeed(), hashes: make([]uint64, 1024), ids: make([]uint32, 1024)}
}

func (x *hashIndex) hash(b []byte) uint64  { return maphash.Bytes(x.seed, b) }
func (x *hashIndex) first(h uint64) uint64 { return h & uint64(len(x.ids)-1) }
func (x *hashIndex) next(slot uint64) uint64 {
	return (slot + 1) & uint64(len(x.ids)-1)
}

// at is the id in a slot, 0 when empty, and whether its hash is h.
func (x *hashIndex) at(slot, h uint64) (id uint32, same bool) {
	return x.ids[slot], x.hashes[slot] == h
}

// insert adds an id that isn't there yet.
func (x *hashIndex) insert(h uint64, id uint32) {
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

func (x *hashIndex) place(h uint64, id uint32) {
	slot := x.first(h)
	for x.ids[slot] != 0 {
		slot = x.next(slot)
	}
	x.hashes[slot], x.ids[slot] = h, id
	x.used++
}
