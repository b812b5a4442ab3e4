package recorder

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Program is a random program on a machine with a caching allocator. What is
// zero is off.
type Program struct {
	Seed       uint64
	Events     int // to record on each device, about
	Devices    int // 0 is 1
	Skip       int // events that happen before recording begins
	Ring       bool
	Capacity   int64 // bytes of a device; 0 is 4 GiB
	Expandable bool
	RoundUp    int64 // roundup_power2_divisions
	MaxSplit   int64 // bytes
	Streams    int   // besides the default one; frees then wait for other streams now and then
	Pools      int   // private ones
	Depth      int   // frames of a stack
	Native     bool  // stacks of C++ frames, of which there are many more
}

// Levels are the four quantities of "memory used", in bytes.
type Levels struct{ Requested, Allocated, Active, Reserved int64 }

// Peak is the first instant of a largest value; event -1 is before the first.
type Peak struct {
	Bytes int64
	Event int
}

// Piece is a block at some instant: of an allocation, or free.
type Piece struct {
	Address uint64
	Bytes   int64
	Used    bool
	Pending bool // its free was requested but isn't completed
}

// Truth is what a reader must find out about one device.
type Truth struct {
	Start   Levels
	Levels  []Levels // after every event
	Peaks   struct{ Requested, Allocated, Active, Reserved Peak }
	Sizes   []int64           // of the blocks of the recorded allocations, in order
	Older   map[uint64]int64  // size of each block in use before the first event, by address
	Layouts map[int][][]Piece // by event, the pieces of every segment by address
	OOMs    int
}

// Run is a program's recording with the truth about every device.
type Run struct {
	Recording Recording
	Truth     []Truth
}

// Simulate runs a program.
func Simulate(p Program) Run {
	p.Devices, p.Depth = max(p.Devices, 1), max(p.Depth, 1)
	p.Capacity = cmp.Or(p.Capacity, 4<<30)
	run := Run{Recording: Recording{Settings: settings(p)}}
	for ordinal := range p.Devices {
		d := newDevice(p, ordinal)
		for len(d.levels) < p.Skip+p.Events {
			d.act()
		}
		d.keep(len(d.levels) - 1)
		run.Recording.Segments = append(run.Recording.Segments, d.segmentsNow()...)
		run.Recording.Traces = append(run.Recording.Traces, d.events)
		run.Truth = append(run.Truth, d.truth)
		if ordinal == 0 {
			run.Recording.Annotations = d.annotations
		}
	}
	return run
}

// settings are allocator_settings in torch's order.
func settings(p Program) []Item {
	divisions := []Item{}
	for i := range 16 {
		divisions = append(divisions, Item{fmt.Sprint(1 << i), p.RoundUp})
	}
	split := int64(-1)
	if p.MaxSplit > 0 {
		split = p.MaxSplit
	}
	return []Item{{"PYTORCH_CUDA_ALLOC_CONF", ""}, {"max_split_size", split}, {"garbage_collection_threshold", 0.0},
		{"expandable_segments", p.Expandable}, {"pinned_num_register_threads", 1}, {"release_lock_on_cudamalloc", false},
		{"pinned_use_cuda_host_register", false}, {"roundup_power2_divisions", divisions}}
}

// act does one thing that programs do: ask for memory, give some back, or
// empty the cache.
func (d *device) act() {
	r := d.rand
	if len(d.levels) >= d.program.Skip && len(d.annotations) < 40 && r.IntN(50) == 0 {
		d.annotations = append(d.annotations, Annotation{[]string{"START", "END"}[len(d.annotations)%2],
			"Optimizer.step#AdamW.step", d.ordinal, d.time})
	}
	live := d.live
	want := 60
	if d.now.Allocated > d.program.Capacity*2/3 {
		want = 40
	}
	switch n := r.IntN(100); {
	case n < want || len(live) == 0:
		d.malloc(d.someSize(), uint64(r.IntN(d.program.Streams+1))*0x55d0, d.somePool(), d.someStack())
	case n < 99:
		// The youngest go first, mostly, as activations do.
		i := len(live) - 1 - r.IntN(min(len(live), 8))
		if r.IntN(10) == 0 {
			i = r.IntN(len(live))
		}
		b := live[i]
		d.live = slices.Delete(live, i, i+1)
		d.free(b, d.program.Streams > 0 && r.IntN(4) == 0)
	default:
		d.finishPending(len(d.pending))
		d.releaseCached()
	}
}

// someSize is a request in bytes: of every pool and rounding, often one that
// was made before or a little less, so that blocks are cut with small rests.
func (d *device) someSize() int64 {
	r := d.rand
	if r.IntN(8) == 0 && len(d.segments) > 0 { // leaves a rest that is just kept, or just split off
		s := d.segments[r.IntN(len(d.segments))]
		b := s.blocks[r.IntN(len(s.blocks))]
		if n := b.size - smallSize - []int64{-minBlock, 0, minBlock}[r.IntN(3)]; b.state == free && n > 0 {
			return n
		}
	}
	if len(d.sizes) > 0 && r.IntN(2) == 0 {
		n := d.sizes[r.IntN(len(d.sizes))]
		if r.IntN(2) == 0 {
			n = max(1, n-r.Int64N(3<<20))
		}
		return n
	}
	limit := []int64{2048, 1 << 20, 10 << 20, 200 << 20}[r.IntN(4)]
	n := 1 + r.Int64N(min(limit, d.program.Capacity/8))
	if r.IntN(3) == 0 {
		n = (n + 511) &^ 511
	}
	d.sizes = append(d.sizes, n)
	return n
}

func (d *device) somePool() [2]int64 {
	if d.program.Pools == 0 || d.rand.IntN(3) > 0 {
		return [2]int64{}
	}
	return [2]int64{0, 1 + d.rand.Int64N(int64(d.program.Pools))}
}

// sites is how many different stacks a program has.
const sites = 200

// stacks makes a program's call sites: all begin alike at the outer end.
func stacks(r *rand.Rand, p Program) []*Stack {
	frames := map[string]*Frame{}
	frame := func(depth, branch int) *Frame {
		f := Frame{File: fmt.Sprintf("/home/user/project/module_%d.py", branch%7), Name: fmt.Sprintf("forward_%d_%d", depth,
			branch), Line: 10 + depth*branch%400}
		if p.Native && depth > 2 {
			f = Frame{File: "??", Name: fmt.Sprintf("at::native::kernel_%d<std::vector<int, std::allocator<int> > "+
				">(at::Tensor const&, %d)", depth, branch), Line: 0}
		}
		key := f.Name + f.File
		if frames[key] == nil {
			frames[key] = &f
		}
		return frames[key]
	}
	all := make([]*Stack, sites)
	for i := range all {
		s := &Stack{}
		branch := r.IntN(3)
		for depth := range p.Depth {
			if r.IntN(4) == 0 {
				branch = r.IntN(5)
			}
			s.Frames = append(s.Frames, frame(depth, branch))
		}
		s.Frames = append(s.Frames, &Frame{File: "/home/user/project/train.py", Name: "step", Line: 100 + i})
		slices.Reverse(s.Frames)
		all[i] = s
	}
	return all
}

func (d *device) someStack() *Stack {
	if d.program.Depth == 1 && d.rand.IntN(20) == 0 {
		return nil // as of backward allocations when only Python is recorded
	}
	return d.stacks[d.rand.IntN(len(d.stacks))]
}
