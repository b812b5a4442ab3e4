package allocator

import (
	"strings"
	"testing"
)

const gib = int64(1) << 30

// machine is an allocator on a GPU with one stream.
func machine(t *testing.T, conf string, capacity int64) *Allocator {
	t.Helper()
	set, _, err := ParseConf(conf)
	if err != nil {
		t.Fatal(err)
	}
	gpu := GPU{Total: capacity, Usable: capacity}
	if set.Fraction > 0 {
		gpu.Allowed = AllowedOf(set.Fraction, capacity)
	}
	return New(set, []Pair{{}, {Stream: 1}}, gpu, true)
}

func (a *Allocator) ask(bytes int64) BlockID { return a.Malloc(a.Request(bytes, 0)) }

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		name        string
		conf        string
		bytes, want int64
	}{
		{"nothing is smaller than a block", "", 1, 512},
		{"up to a multiple of a block", "", 513, 1024},
		{"a multiple stays", "", 1 << 20, 1 << 20},
		{"to a quarter between powers of two", "roundup_power2_divisions:4", 65536000, 64 << 20},
		{"a power of two stays", "roundup_power2_divisions:4", 64 << 20, 64 << 20},
		{"too small for divisions", "roundup_power2_divisions:4", 2048, 2048},
		{"just large enough for divisions", "roundup_power2_divisions:4", 2049, 2560},
		{"by size: below the first key", "roundup_power2_divisions:[256:1,512:2,>:8]", 100<<20 + 1, 100<<20 + 512},
		{"by size: at a key", "roundup_power2_divisions:[256:1,512:2,>:8]", 513 << 20, 768 << 20},
		{"by size: beyond the last key", "roundup_power2_divisions:[256:1,512:2,>:8]", 1025 << 20, 1152 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, _, err := ParseConf(c.conf)
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Round(c.bytes); got != c.want {
				t.Errorf("%d bytes become %d, want %d", c.bytes, got, c.want)
			}
		})
	}
}

// What the driver must have left for a request: one that fails with as much left
// as it asks for, but less than that, was refused by no limit.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		conf          string
		request, want int64
	}{
		{"", 1 << 20, 2 << 20}, {"", 9 << 20, 20 << 20}, {"", 32 << 20, 32 << 20}, {"", 33<<20 + 512, 34 << 20},
		{"expandable_segments:True", 1 << 20, 2 << 20}, {"expandable_segments:True", 9 << 20, 20 << 20}, {"expandable_segments:True", 32 << 20, 40 << 20}, {"expandable_segments:True", 40 << 20, 40 << 20},
		{"large_segment_size_mb:12", 9 << 20, 12 << 20},
	} {
		set, _, err := ParseConf(c.conf)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Needs(c.request); got != c.want {
			t.Errorf("%q: %d bytes for a request of %d, want %d", c.conf, got, c.request, c.want)
		}
	}
}

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		name           string
		conf           string
		ask            []int64
		reserved       int64
		segments       int
		block          int64 // of the last request
		free, freeSize int64 // cached afterwards: number and bytes
	}{
		{"small requests share 2 MiB", "", []int64{512, 1 << 20}, 2 << 20, 1, 1 << 20, 1, 1<<20 - 512},
		{"up to 10 MiB comes from 20 MiB", "", []int64{5 << 20}, 20 << 20, 1, 5 << 20, 1, 15 << 20},
		{"10 MiB and more gets its own", "", []int64{10 << 20}, 10 << 20, 1, 10 << 20, 0, 0},
		{"rounded to 2 MiB, the rest stays inside", "", []int64{11 << 20}, 12 << 20, 1, 12 << 20, 0, 0},
		{"with a larger large segment", "large_segment_size_mb:40", []int64{5 << 20}, 40 << 20, 1, 5 << 20, 1, 35 << 20},
		{"expandable maps whole pages", "expandable_segments:True", []int64{5 << 20}, 20 << 20, 0, 5 << 20, 1, 15 << 20},
		{"expandable leaves no tail", "expandable_segments:True", []int64{20<<20 - 512}, 20 << 20, 0, 20<<20 - 512, 1, 512},
		{"expandable grows where it ends", "expandable_segments:True", []int64{15 << 20, 10 << 20}, 40 << 20, 0, 10 << 20, 1, 15 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := machine(t, c.conf, 4*gib)
			var last BlockID
			for _, n := range c.ask {
				last = a.ask(n)
			}
			free, size := int64(0), int64(0)
			for i := range a.arenas {
				a.arenas[i].free.each(func(k key) { free++; size += k.size })
			}
			if a.Reserved != c.reserved || a.Segments != c.segments || a.blocks[last].size != c.block || free != c.free ||
				size != c.freeSize {
				t.Errorf("%d reserved in %d segments, block of %d, %d free with %d; want %d, %d, %d, %d, %d",
					a.Reserved, a.Segments, a.blocks[last].size, free, size, c.reserved, c.segments, c.block, c.free, c.freeSize)
			}
		})
	}
}

// Freed neighbours become one block, and the same request gets the same place.
func TestFreedMeansReusable(t *testing.T) {
	a := machine(t, "", 4*gib)
	var ids []BlockID
	for range 4 {
		ids = append(ids, a.ask(4<<20))
	}
	first := a.blocks[ids[0]].address
	for _, i := range []int{1, 3, 0, 2} {
		a.Free(ids[i])
	}
	if k, ok := a.arenas[1].free.from(key{}); !ok || k.size != 20<<20 || a.arenas[1].free.count != 1 {
		t.Errorf("left is %+v of %d", k, a.arenas[1].free.count)
	}
	if again := a.ask(4 << 20); a.blocks[again].address != first || a.Reserved != 20<<20 {
		t.Errorf("again at %#x, was at %#x", a.blocks[again].address, first)
	}
}

func TestStreamsDontShare(t *testing.T) {
	a := machine(t, "", 4*gib)
	a.Free(a.Malloc(a.Request(30<<20, 0)))
	if a.Malloc(a.Request(30<<20, 1)); a.Reserved != 60<<20 {
		t.Errorf("%d reserved: a stream took another one's block", a.Reserved)
	}
}

func TestOfEqualBlocksThatOfTheOldestSegment(t *testing.T) {
	for _, byAge := range []bool{true, false} {
		a := machine(t, "", 4*gib)
		a.byAge = byAge
		low := a.ask(64 << 20)
		keep := a.ask(32 << 20)
		a.Free(low)
		a.EmptyCache() // its place is given out again, to a younger segment
		other := a.ask(32 << 20)
		oldest := a.blocks[keep].address
		a.Free(other)
		a.Free(keep)
		got := a.blocks[a.ask(32<<20)].address
		if (got == oldest) != byAge {
			t.Errorf("by age %v: at %#x, the oldest segment is at %#x", byAge, got, oldest)
		}
	}
}

func TestLargeBlocksStayWhole(t *testing.T) {
	a := machine(t, "max_split_size_mb:128", 4*gib)
	a.Free(a.ask(200 << 20))
	a.ask(100 << 20)
	if a.Reserved != 300<<20 {
		t.Errorf("%d reserved: a block beyond max_split_size was split", a.Reserved)
	}
	a.ask(190 << 20) // within max_non_split_rounding of 200 MiB
	if a.Reserved != 300<<20 {
		t.Errorf("%d reserved: a block of nearly that size was not used", a.Reserved)
	}
}

func TestOversizeIsReleasedFirst(t *testing.T) {
	a := machine(t, "max_split_size_mb:128", gib)
	a.Free(a.ask(400 << 20))
	a.Free(a.ask(20 << 20))
	a.ask(350 << 20) // the 400 are too many for it
	a.ask(380 << 20) // and for this, but without them there is room
	if a.Retries != 0 || a.Reserved != (20+350+380)<<20 {
		t.Errorf("%d retries, %d MiB reserved", a.Retries, a.Reserved>>20)
	}
}

func TestPressureFreesTheCache(t *testing.T) {
	a := machine(t, "", gib)
	a.Free(a.ask(600 << 20))
	if a.ask(700<<20) == 0 || a.Retries != 1 || a.Reserved != 700<<20 {
		t.Errorf("%d retries, %d reserved", a.Retries, a.Reserved)
	}
	if a.ask(400<<20) != 0 || a.Retries != 2 {
		t.Errorf("more than the device has was given out; %d retries", a.Retries)
	}
}

// Under pressure expandable segments give back the whole pages that are free.
func TestExpandableGivesPagesBack(t *testing.T) {
	a := machine(t, "expandable_segments:True", 100<<20)
	x := a.ask(50 << 20)
	y := a.ask(40 << 20)
	a.Free(x)
	if a.ask(70<<20) != 0 {
		t.Fatal("70 MiB of 100 with 40 in use")
	}
	// 50 MiB were free from the start: whole pages up to 40 MiB went back.
	if a.Reserved != 60<<20 {
		t.Errorf("%d MiB reserved, want 60", a.Reserved>>20)
	}
	a.Free(y)
	if a.ask(100<<20) == 0 || a.Reserved != 100<<20 {
		t.Errorf("the whole device can't be had in one piece: %d", a.Reserved)
	}
}

func TestFractionCapsAndCollects(t *testing.T) {
	a := machine(t, "per_process_memory_fraction:0.5", 2*gib)
	if a.ask(gib) == 0 || a.ask(2<<20) != 0 {
		t.Error("half of the device is what may be had")
	}
	a = machine(t, "per_process_memory_fraction:0.5,garbage_collection_threshold:0.5", 2*gib)
	old, young := a.ask(300<<20), a.ask(300<<20)
	a.Free(old)
	for range 10 {
		a.Free(a.ask(200 << 20)) // cut from what was freed: it ages the pool
	}
	a.Free(young)
	a.ask(310 << 20) // a miss above half of the limit
	if a.Reserved >= 910<<20 {
		t.Errorf("%d MiB reserved: nothing was collected", a.Reserved>>20)
	}
	plain := machine(t, "garbage_collection_threshold:0.5", 2*gib)
	plain.Free(plain.ask(1500 << 20))
	plain.ask(400 << 20)
	if plain.ask(400 << 20); plain.Reserved != 1500<<20 {
		t.Errorf("collected without a memory fraction: %d", plain.Reserved)
	}
}

func TestConf(t *testing.T) {
	for _, c := range []struct {
		text, want, fails string
	}{
		{"", "", ""},
		{" expandable_segments:True , max_split_size_mb:128 ", "expandable_segments:True,max_split_size_mb:128", ""},
		{"backend:native,pinned_num_register_threads:4", "", ""},
		{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[1:1,2:1,4:1,8:1,16:1,32:1,64:1,128:1,256:1,512:2,1024:4,2048:8,4096:8,8192:8,16384:8,32768:8]", ""},
		{"garbage_collection_threshold:0.8", "garbage_collection_threshold:0.8", ""},
		{"max_split_size_mb:5", "", "at least 20"},
		{"max_split_size_mb:many", "", "number of MiB"},
		{"roundup_power2_divisions:3", "", "power of two"},
		{"roundup_power2_divisions:[256:1", "", "brackets"},
		{"expandable_segments", "", "option:value"},
		{"expandable_segment:True", "", `"expandable_segment"`},
		{"backend:cudaMallocAsync", "", "another allocator"},
		{"garbage_collection_threshold:1.5", "", "between 0 and 1"},
		{"large_segment_size_mb:10", "", "more than 10"},
	} {
		t.Run(c.text, func(t *testing.T) {
			s, _, err := ParseConf(c.text)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.text = ""
			if got := s.String(); got != c.want {
				t.Errorf("reads as %q, want %q", got, c.want)
			}
			if again, _, err := ParseConf(s.String()); err != nil || !again.Same(s) {
				t.Errorf("%q doesn't read back as itself: %v", s.String(), err)
			}
		})
	}
}

func FuzzParseConf(f *testing.F) {
	for _, text := range []string{"", "expandable_segments:True", "roundup_power2_divisions:[256:1,>:8]", "a:[[", "x:]", ",,:"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := ParseConf(text)
		if err != nil {
			return
		}
		s.text = ""
		if again, _, err := ParseConf(s.String()); err != nil || !again.Same(s) {
			t.Errorf("%q reads as %q, and that not as itself: %v", text, s.String(), err)
		}
	})
}

// What a refused request lacks is never nothing: whole pages are mapped.
func TestShortage(t *testing.T) {
	for _, c := range []struct {
		name, conf  string
		bytes, want int64
	}{
		{"a segment", "", 31 << 20, 2 << 20},
		{"pages", "expandable_segments:True", 25 << 20, 10 << 20},
		{"small pages", "expandable_segments:True", 512, 0},
	} {
		a := machine(t, c.conf, 30<<20)
		if got := a.Short(a.Request(c.bytes, 0)); got != c.want {
			t.Errorf("%s: lacks %d bytes, want %d", c.name, got, c.want)
		}
	}
}
