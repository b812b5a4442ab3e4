package snapshot

import (
	"github.com/vramscope/vramscope/internal/hashes"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// rawStacks remembers what lists of frames look like in the file: the bytes of
// the references between MARK and APPENDS. Memo entries don't change, so equal
// bytes are equal stacks, and neither need be looked at frame by frame.
// Training repeats itself, so the list that followed the last few lists the
// last time is tried before any other.
type rawStacks struct {
	arena   []byte
	list    []rawStack // index 0 is unused
	index   hashes.Index
	guesses [1 << 14]uint32 // by context, the list that followed
	context uint64          // hash of the last four lists
}

type rawStack struct {
	start, end int // in arena
	id         StackID
}

func newRawStacks() *rawStacks { return &rawStacks{list: make([]rawStack, 1), index: hashes.New()} }

// slot is where the guess for the present context stands.
func (r *rawStacks) slot() *uint32 {
	return &r.guesses[r.context*0x9E3779B97F4A7C15>>(64-14)]
}

// saw moves the context on.
func (r *rawStacks) saw(i uint32) { r.context = r.context<<16 ^ uint64(i) }

// guess is the stack that begins at b when it is the one that followed here
// the last time; n is its length in bytes.
func (r *rawStacks) guess(b []byte) (id StackID, n int) {
	i := *r.slot()
	s := &r.list[i]
	n = s.end - s.start
	if i == 0 || len(b) <= n+8 || b[n] != pickle.Appends || string(b[:n]) != string(r.arena[s.start:s.end]) {
		return 0, 0
	}
	r.saw(i)
	return s.id, n
}

// find is the stack whose list looks like raw, 0 when it was not seen yet.
func (r *rawStacks) find(raw []byte) (id StackID, h uint64) {
	h = r.index.Hash(raw)
	for slot := r.index.First(h); ; slot = r.index.Next(slot) {
		i, same := r.index.At(slot, h)
		if i == 0 {
			return 0, h
		}
		if s := &r.list[i]; same && string(r.arena[s.start:s.end]) == string(raw) {
			*r.slot() = i
			r.saw(i)
			return s.id, h
		}
	}
}

func (r *rawStacks) add(raw []byte, h uint64, id StackID) {
	start := len(r.arena)
	r.arena = append(pages.Grown(r.arena, len(raw)), raw...)
	r.list = append(pages.Grown(r.list, 1), rawStack{start: start, end: len(r.arena), id: id})
	i := uint32(len(r.list) - 1)
	r.index.Insert(h, i)
	*r.slot() = i
	r.saw(i)
}
