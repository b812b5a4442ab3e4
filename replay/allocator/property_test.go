package allocator

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever is asked for: blocks tile their segments and overlap nowhere, what
// is reserved is what the blocks cover, free neighbours are joined, and when
// all is freed and the cache emptied nothing is left.
func TestNothingOverlapsAndNothingIsLost(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
		"expandable_segments:True,max_split_size_mb:64", "per_process_memory_fraction:0.6,garbage_collection_threshold:0.5",
		"expandable_segments:True,per_process_memory_fraction:0.6,garbage_collection_threshold:0.5", "large_segment_size_mb:13"} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", conf, seed), func(t *testing.T) { strain(t, conf, seed) })
		}
	}
}

func strain(t *testing.T, conf string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	a := machine(t, conf, 2*gib)
	var live []BlockID
	for i := range 6000 {
		switch n := r.IntN(100); {
		case n < 55 || len(live) == 0:
			bytes := 1 + r.Int64N([]int64{2048, 1 << 20, 12 << 20, 200 << 20}[r.IntN(4)])
			q := a.Request(bytes, uint16(r.IntN(2)))
			size, id := q.Bytes, a.Malloc(q)
			if id == 0 {
				continue
			}
			if b := &a.blocks[id]; b.state != used || b.size < size {
				t.Fatalf("request %d for %d: %+v", i, size, b)
			}
			live = append(live, id)
		case n < 99:
			k := r.IntN(len(live))
			a.Free(live[k])
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		default:
			a.EmptyCache()
		}
		if i%50 == 0 {
			sound(t, a, len(live))
		}
	}
	for _, id := range live {
		a.Free(id)
	}
	a.EmptyCache()
	sound(t, a, 0)
	if a.Reserved != 0 || a.Segments != 0 {
		t.Errorf("%d bytes in %d segments are left", a.Reserved, a.Segments)
	}
}

// sound checks what must always be true of an allocator.
func sound(t *testing.T, a *Allocator, live int) {
	t.Helper()
	cached := map[BlockID]bool{}
	for i := range a.arenas {
		for _, tr := range []*tree{&a.arenas[i].free, &a.arenas[i].holes} {
			tr.each(func(k key) {
				if b := &a.blocks[k.block]; b.address != k.address || int(b.arena) != i || tr == &a.arenas[i].free && (b.size != k.size || b.state != free) {
					t.Fatalf("the tree of arena %d holds %+v for %+v", i, k, b)
				}
				cached[k.block] = true
			})
		}
	}
	var reserved int64
	inUse := 0
	type span struct{ from, to uint64 }
	seen := map[span]bool{}
	for id := range a.blocks {
		b := &a.blocks[id]
		if b.state == unused {
			continue
		}
		if b.state != unmapped {
			reserved += b.size
		}
		if b.state == used {
			inUse++
		} else if !cached[BlockID(id)] {
			t.Fatalf("block %d is in no tree: %+v", id, b)
		}
		if b.size <= 0 || b.size%minBlock != 0 {
			t.Fatalf("a block of %d bytes", b.size)
		}
		if n := b.next; n != 0 {
			x := &a.blocks[n]
			if x.address != b.address+uint64(b.size) || x.prev != BlockID(id) || x.arena != b.arena {
				t.Fatalf("%+v is followed by %+v", b, x)
			}
			if b.state == free && x.state == free || b.state == unmapped && x.state == unmapped {
				t.Fatalf("%+v and %+v are not joined", b, x)
			}
		}
		if b.prev == 0 && b.range_ == 0 {
			end := b.address
			for x := BlockID(id); x != 0; x = a.blocks[x].next {
				end += uint64(a.blocks[x].size)
			}
			for other := range seen {
				if b.address < other.to && other.from < end {
					t.Fatalf("segments %#x to %#x and %#x to %#x overlap", b.address, end, other.from, other.to)
				}
			}
			seen[span{b.address, end}] = true
		}
	}
	if reserved != a.Reserved || inUse != live {
		t.Fatalf("%d bytes reserved and %d blocks in use, counted %d and %d", a.Reserved, live, reserved, inUse)
	}
	if len(seen) != a.Segments {
		t.Fatalf("%d segments, counted %d", a.Segments, len(seen))
	}
}
