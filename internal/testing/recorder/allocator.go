package recorder

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// The allocator's constants (c10/cuda/CUDACachingAllocator.cpp), in bytes.
const (
	minBlock    = 512
	smallSize   = 1 << 20
	smallBuffer = 2 << 20
	largeBuffer = 20 << 20
	minLarge    = 10 << 20
)

type state int

const (
	free state = iota
	used
	pending
	unmapped
)

type block struct {
	address   uint64
	size      int64
	requested int64
	state     state
	stack     *Stack
	segment   *segment
	recorded  bool // allocated while recording
}

type segment struct {
	address    uint64
	stream     uint64
	pool       [2]int64
	small      bool
	expandable bool
	stack      *Stack
	blocks     []*block // by address, neighbours that are free are joined
}

// device is a caching allocator with its recorder.
type device struct {
	program  Program
	ordinal  int
	rand     *rand.Rand
	stacks   []*Stack
	segments []*segment
	live     []*block // in use, oldest first
	pending  []*block
	sizes    []int64
	next     uint64 // where the device's addresses begin, or its next expandable segment
	time     int64

	now         Levels
	levels      []Levels // after every event since the process began
	events      []Event
	annotations []Annotation
	truth       Truth
}

func newDevice(p Program, ordinal int) *device {
	r := rand.New(rand.NewPCG(p.Seed, uint64(ordinal)))
	d := &device{program: p, ordinal: ordinal, rand: r, stacks: stacks(r, p), next: 0x7f00_0000_0000 + uint64(ordinal)<<40,
		time: 1_700_000_000_000_000}
	d.truth.Older, d.truth.Layouts = map[uint64]int64{}, map[int][][]Piece{}
	d.begin()
	return d
}

// begin takes down the state in which recording begins.
func (d *device) begin() {
	if len(d.levels) != d.program.Skip {
		return
	}
	d.truth.Start = d.now
	p := &d.truth.Peaks
	p.Requested, p.Allocated, p.Active, p.Reserved = Peak{d.now.Requested, -1}, Peak{d.now.Allocated, -1}, Peak{d.now.Active, -1},
		Peak{d.now.Reserved, -1}
	for _, s := range d.segments {
		for _, b := range s.blocks {
			if b.state == used || b.state == pending {
				d.truth.Older[b.address] = b.size
			}
		}
	}
	d.truth.Layouts[-1] = d.layout()
}

// emit records an event; the state is already the one behind it.
func (d *device) emit(action string, address uint64, size int64, stream uint64, pool [2]int64, stack *Stack, extra func(*Event)) {
	d.time += d.rand.Int64N(50)
	d.levels = append(d.levels, d.now)
	if len(d.levels) <= d.program.Skip {
		d.begin()
		return
	}
	event := len(d.events)
	e := Event{Action: action, Address: address, Size: size, TimeUS: d.time, Stream: stream, Pool: pool, Stack: stack}
	if extra != nil {
		extra(&e)
	}
	d.events = append(d.events, e)
	d.truth.Levels = append(d.truth.Levels, d.now)
	for _, x := range []struct {
		peak *Peak
		now  int64
	}{{&d.truth.Peaks.Requested, d.now.Requested}, {&d.truth.Peaks.Allocated, d.now.Allocated},
		{&d.truth.Peaks.Active, d.now.Active}, {&d.truth.Peaks.Reserved, d.now.Reserved}} {
		if x.now > x.peak.Bytes {
			*x.peak = Peak{x.now, event}
		}
	}
	if d.rand.IntN(40) == 0 {
		d.truth.Layouts[event] = d.layout()
	}
}

// keep takes down the layout after the last event of all.
func (d *device) keep(last int) {
	if n := last - d.program.Skip; n >= 0 {
		d.truth.Layouts[n] = d.layout()
	}
}

// roundSize is the size of the block that a request needs.
func (d *device) roundSize(n int64) int64 {
	if n < minBlock {
		return minBlock
	}
	if k := d.program.RoundUp; k > 1 && n > minBlock*k {
		if n&(n-1) == 0 {
			return n
		}
		step := int64(1) << (bits.Len64(uint64(n)) - 1) / k
		return (n + step - 1) / step * step
	}
	return (n + minBlock - 1) / minBlock * minBlock
}

// malloc is DeviceCachingAllocator::malloc.
func (d *device) malloc(n int64, stream uint64, pool [2]int64, stack *Stack) {
	if len(d.pending) > 0 && d.rand.IntN(3) == 0 {
		d.finishPending(1 + d.rand.IntN(len(d.pending)))
	}
	r := d.roundSize(n)
	small := r <= smallSize
	b := d.bestFit(r, stream, pool, small)
	for try := 0; b == nil && try < 2; try++ {
		if try == 1 {
			d.finishPending(len(d.pending))
			d.releaseCached()
			b = d.bestFit(r, stream, pool, small)
		}
		if b == nil && d.program.Expandable {
			b = d.mapMore(r, stream, pool, small, stack)
		} else if b == nil {
			b = d.cudaMalloc(r, stream, pool, small, stack)
		}
	}
	if b == nil {
		left := d.program.Capacity - d.now.Reserved
		d.emit("oom", 0, r, stream, pool, stack, func(e *Event) { e.DeviceFree = left; d.truth.OOMs++ })
		return
	}
	rest := b.size - r
	split := rest > smallSize && (d.program.MaxSplit == 0 || r < d.program.MaxSplit)
	if small || d.program.Expandable {
		split = rest >= minBlock
	}
	if split {
		d.cut(b, r)
	}
	b.state, b.requested, b.stack = used, n, stack
	d.live = append(d.live, b)
	d.now.Requested += n
	d.now.Allocated += b.size
	d.now.Active += b.size
	b.recorded = len(d.levels) >= d.program.Skip
	if b.recorded {
		d.truth.Sizes = append(d.truth.Sizes, b.size)
	}
	d.emit("alloc", b.address, n, stream, pool, stack, nil)
}

// cut makes a block of its own of what lies behind a block's first bytes.
func (d *device) cut(b *block, size int64) {
	s := b.segment
	rest := &block{address: b.address + uint64(size), size: b.size - size, state: b.state, segment: s}
	b.size = size
	s.blocks = slices.Insert(s.blocks, slices.Index(s.blocks, b)+1, rest)
}

// bestFit is the smallest free block of a pool that is large enough.
func (d *device) bestFit(r int64, stream uint64, pool [2]int64, small bool) *block {
	var best *block
	for _, s := range d.segments {
		if s.stream != stream || s.pool != pool || s.small != small {
			continue
		}
		for _, b := range s.blocks {
			if b.state == free && b.size >= r && (best == nil || b.size < best.size) {
				best = b
			}
		}
	}
	if m := d.program.MaxSplit; best != nil && m > 0 && (r < m && best.size >= m || r >= m && best.size >= r+largeBuffer) {
		return nil
	}
	return best
}

func (d *device) cudaMalloc(r int64, stream uint64, pool [2]int64, small bool, stack *Stack) *block {
	bytes := int64(smallBuffer)
	switch {
	case r >= minLarge:
		bytes = (r + smallBuffer - 1) / smallBuffer * smallBuffer
	case !small:
		bytes = largeBuffer
	}
	if d.now.Reserved+bytes > d.program.Capacity {
		return nil
	}
	s := &segment{address: d.hole(bytes), stream: stream, pool: pool, small: small, stack: stack}
	b := &block{address: s.address, size: bytes, segment: s}
	s.blocks = []*block{b}
	d.segments = append(d.segments, s)
	d.now.Reserved += bytes
	d.emit("segment_alloc", s.address, bytes, stream, pool, stack, nil)
	return b
}

// hole is the lowest address at which the driver has room, now and then one
// that leaves a gap: addresses are given out again, at other places too.
func (d *device) hole(bytes int64) uint64 {
	taken := slices.Clone(d.segments)
	slices.SortFunc(taken, func(a, b *segment) int { return cmp.Compare(a.address, b.address) })
	at := d.next + uint64(d.rand.IntN(3))*smallBuffer
	for _, s := range taken {
		if at+uint64(bytes) <= s.address {
			break
		}
		last := s.blocks[len(s.blocks)-1]
		at = max(at, last.address+uint64(last.size))
	}
	return at
}

// free gives a block back; with wait it stays occupied until other streams are done.
func (d *device) free(b *block, wait bool) {
	d.now.Allocated -= b.size
	b.state = pending
	d.emit("free_requested", b.address, b.requested, b.segment.stream, b.segment.pool, b.stack, nil)
	d.pending = append(d.pending, b)
	if !wait {
		d.pending = d.pending[:len(d.pending)-1]
		d.complete(b)
	}
}

func (d *device) finishPending(n int) {
	for _, b := range d.pending[:n] {
		d.complete(b)
	}
	d.pending = slices.Delete(d.pending, 0, n)
}

func (d *device) complete(b *block) {
	d.now.Active -= b.size
	d.now.Requested -= b.requested
	address := b.address
	b.state = free
	d.join(b)
	d.emit("free_completed", address, b.requested, b.segment.stream, b.segment.pool, b.stack, nil)
}

// join makes one block of a free block and its free neighbours; b stays valid
// as a description of what was freed.
func (d *device) join(b *block) {
	s := b.segment
	i := slices.Index(s.blocks, b)
	if i+1 < len(s.blocks) && s.blocks[i+1].state == free {
		b.size += s.blocks[i+1].size
		s.blocks = slices.Delete(s.blocks, i+1, i+2)
	}
	if i > 0 && s.blocks[i-1].state == free {
		s.blocks[i-1].size += b.size
		s.blocks = slices.Delete(s.blocks, i, i+1)
	}
}

// releaseCached gives all that is free back to the driver.
func (d *device) releaseCached() {
	for _, s := range slices.Clone(d.segments) {
		if s.expandable {
			d.unmap(s)
			continue
		}
		if len(s.blocks) == 1 && s.blocks[0].state == free {
			bytes := s.blocks[0].size
			d.segments = slices.DeleteFunc(d.segments, func(x *segment) bool { return x == s })
			d.now.Reserved -= bytes
			d.emit("segment_free", s.address, bytes, s.stream, s.pool, s.stack, nil)
		}
	}
}

// runs are the contiguous mapped blocks of each segment, by address: what a
// snapshot calls a segment.
func (d *device) runs() [][]*block {
	var runs [][]*block
	for _, s := range d.segments {
		from := 0
		for i := 0; i <= len(s.blocks); i++ {
			if i == len(s.blocks) || s.blocks[i].state == unmapped {
				if i > from {
					runs = append(runs, s.blocks[from:i])
				}
				from = i + 1
			}
		}
	}
	slices.SortFunc(runs, func(a, b []*block) int { return cmp.Compare(a[0].address, b[0].address) })
	return runs
}

func (d *device) layout() [][]Piece {
	var all [][]Piece
	for _, run := range d.runs() {
		var pieces []Piece
		for _, b := range run {
			pieces = append(pieces, Piece{b.address, b.size, b.state == used || b.state == pending, b.state == pending})
		}
		all = append(all, pieces)
	}
	return all
}

// segmentsNow is what the recorder dumps.
func (d *device) segmentsNow() []Segment {
	var all []Segment
	for _, run := range d.runs() {
		s := run[0].segment
		out := Segment{Device: d.ordinal, Address: run[0].address, Stream: s.stream, Pool: s.pool, Small: s.small,
			Expandable: s.expandable, Stack: s.stack}
		total := int64(0)
		for _, b := range run {
			total += b.size
			x := Block{Address: b.address, Size: b.size, Requested: b.requested, State: [...]string{"inactive",
				"active_allocated", "active_pending_free"}[b.state]}
			if b.state != free {
				out.Active += b.size
				out.Requested += b.requested
				if b.recorded || d.program.Ring {
					x.Stack = b.stack
				}
				x.History = []Use{{b.address, b.requested, x.Stack}, {b.address, 1 + b.requested/2, x.Stack}}
			}
			if b.state == used {
				out.Allocated += b.size
			}
			out.Blocks = append(out.Blocks, x)
		}
		out.Total = total
		all = append(all, out)
	}
	return all
}
