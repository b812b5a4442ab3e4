package snapshot

import (
	"slices"

	"github.com/vramscope/vramscope/internal/hashes"
	"github.com/vramscope/vramscope/internal/pages"
)

// stackTable interns lists of frames by content. Ids are given in order of
// first appearance, so they don't depend on the hash seed.
type stackTable struct {
	arena []FrameID
	ends  []int // ends[i] is where stack i ends in arena
	index hashes.Index
}

func newStackTable() stackTable { return stackTable{ends: []int{0}, index: hashes.New()} }

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
	h := t.index.Hash(hashes.Bytes(frames))
	for slot := t.index.First(h); ; slot = t.index.Next(slot) {
		id, found := t.index.At(slot, h)
		if id == 0 {
			t.arena = append(pages.Grown(t.arena, len(frames)), frames...)
			t.ends = append(pages.Grown(t.ends, 1), len(t.arena))
			id := uint32(len(t.ends) - 1)
			t.index.Insert(h, id)
			return StackID(id)
		}
		if found && slices.Equal(t.frames(StackID(id)), frames) {
			return StackID(id)
		}
	}
}
