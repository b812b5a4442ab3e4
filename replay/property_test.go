package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
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
	var live []blockID
	for i := range 6000 {
		switch n := r.IntN(100); {
		case n < 55 || len(live) == 0:
			bytes := 1 + r.Int64N([]int64{2048, 1 << 20, 12 << 20, 200 << 20}[r.IntN(4)])
			size := a.set.round(bytes)
			id := a.malloc(size, uint32(r.IntN(2)))
			if id == 0 {
				continue
			}
			if b := &a.blocks[id]; b.state != used || b.size < size {
				t.Fatalf("request %d for %d: %+v", i, size, b)
			}
			live = append(live, id)
		case n < 99:
			k := r.IntN(len(live))
			a.release(live[k])
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		default:
			a.emptyCache()
		}
		if i%50 == 0 {
			sound(t, a, len(live))
		}
	}
	for _, id := range live {
		a.release(id)
	}
	a.emptyCache()
	sound(t, a, 0)
	if a.reserved != 0 || a.segments != 0 {
		t.Errorf("%d bytes in %d segments are left", a.reserved, a.segments)
	}
}

// sound checks what must always be true of an allocator.
func sound(t *testing.T, a *allocator, live int) {
	t.Helper()
	cached := map[blockID]bool{}
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
		} else if !cached[blockID(id)] {
			t.Fatalf("block %d is in no tree: %+v", id, b)
		}
		if b.size <= 0 || b.size%minBlock != 0 {
			t.Fatalf("a block of %d bytes", b.size)
		}
		if n := b.next; n != 0 {
			x := &a.blocks[n]
			if x.address != b.address+uint64(b.size) || x.prev != blockID(id) || x.arena != b.arena {
				t.Fatalf("%+v is followed by %+v", b, x)
			}
			if b.state == free && x.state == free || b.state == unmapped && x.state == unmapped {
				t.Fatalf("%+v and %+v are not joined", b, x)
			}
		}
		if b.prev == 0 && b.range_ == 0 {
			end := b.address
			for x := blockID(id); x != 0; x = a.blocks[x].next {
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
	if reserved != a.reserved || inUse != live {
		t.Fatalf("%d bytes reserved and %d blocks in use, counted %d and %d", a.reserved, live, reserved, inUse)
	}
	if len(seen) != a.segments {
		t.Fatalf("%d segments, counted %d", a.segments, len(seen))
	}
}

// A simulated allocator, written apart from this one, and a replay of its
// recording agree on every address. Expandable segments are left out: there the
// simulation takes the best fit, where PyTorch looks at what lies behind it.
func TestSimulatedRecordingsComeOutAsRecorded(t *testing.T) {
	for name, program := range map[string]recorder.Program{
		"plain":            {Seed: 1, Events: 3000},
		"late":             {Seed: 2, Events: 1500, Skip: 1001},
		"streams":          {Seed: 4, Events: 3000, Streams: 3},
		"private pools":    {Seed: 5, Events: 3000, Pools: 2},
		"rounded up":       {Seed: 6, Events: 3000, RoundUp: 4},
		"large left whole": {Seed: 7, Events: 3000, MaxSplit: 40 << 20, Capacity: 64 << 30},
		"out of memory":    {Seed: 8, Events: 3000, Capacity: 256 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			run := recorder.Simulate(program)
			file := run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
			s, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewProgram(timeline.New(s, &s.Devices[0]))
			if err != nil {
				t.Fatal(err)
			}
			c := p.Verify()
			if c.Rate() < 1 || c.CallRate() < 1 || c.Addresses == 0 {
				t.Errorf("%d of %d addresses, %d of %d calls: %s; %s", c.AddressesRight, c.Addresses, c.CallsRight, c.Calls, c.First, c.Cause)
			}
		})
	}
}
