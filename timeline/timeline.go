// Package timeline turns one device's recorded events into its history: the
// birth, death and true size of every allocation, the four curves with their
// peaks, the out-of-memory moments, and the layout of segments and blocks at
// any event.
//
//	t := timeline.New(s, &s.Devices[0])
//	fmt.Println(t.Peaks.Allocated.Bytes) // what torch.cuda.max_memory_allocated() reports
//	layout := t.LayoutAt(t.Peaks.Allocated.Event)
//
// The trace says nothing about what happened before it, so the state at its
// start is found by going back from the final one. How the allocator rounds,
// splits and merges is that of c10/cuda/CUDACachingAllocator.cpp.
package timeline

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/snapshot"
)

// AllocationID is an allocation's ordinal on its device: blocks older than the
// trace first, by address, then in the order of the trace.
type AllocationID uint32

// NoAllocation is the allocation of events that concern none.
const NoAllocation = AllocationID(math.MaxUint32)

// Event indices that stand outside the trace.
const (
	Never  = uint32(math.MaxUint32)     // not freed within the recording, or older than it
	Before = uint32(math.MaxUint32 - 1) // requested free before the first event
)

// NoEvent is the event of an instant before the first one.
const NoEvent = -1

// Levels are the four quantities that circulate as "memory used", in bytes.
type Levels struct {
	Requested int64 // asked for by the program, until the block is really free
	Allocated int64 // blocks given out, rounding and unsplit tails included, until free is requested
	Active    int64 // the same until the block is really free
	Reserved  int64 // held from the driver
}

// Peak is the first instant of a quantity's largest value.
type Peak struct {
	Bytes int64
	Event int // NoEvent: before the first event
}

// Peaks are the largest values of the four quantities within the recording.
type Peaks struct{ Requested, Allocated, Active, Reserved Peak }

// Timeline is the history of one device. Its slices must not be changed.
type Timeline struct {
	Snapshot *snapshot.Snapshot
	Device   *snapshot.Device

	// Of is the allocation that each event concerns.
	Of []AllocationID
	// By allocation: the events of its birth and death, and its block's bytes.
	Born          []uint32 // Never: older than the trace
	FreeRequested []uint32 // Never, Before
	Freed         []uint32 // free_completed; Never
	Allocated     []int64

	Start, End Levels
	AtPeak     Levels // all four at the allocated peak
	Peaks      Peaks
	Stretches  []Stretch // the recording in about 500 parts
	OOMs       []OOM
	History    History
	Reason     string       // of History, in words
	Damage     []string     // where the trace contradicts itself or the final state
	Unseen     []UnseenFree // by event

	older    []older
	segments []uint32 // events that change what is reserved
	rounding rounding
	counts   [snapshot.ActionOther + 1]int
}

// older is a block that was allocated before the trace began.
type older struct {
	address      uint64
	requested    int64
	stack        snapshot.StackID
	stream, pool uint32
	sizeKnown    bool // from the final state
}

// UnseenFree is a death that the trace doesn't show: its address is given out
// again at that event.
type UnseenFree struct {
	Event uint32
	ID    AllocationID
}

// New works out the history of a device. It never fails: what doesn't fit
// together is named in Damage.
func New(s *snapshot.Snapshot, d *snapshot.Device) *Timeline {
	t := Begin(s, d)
	t.Finish()
	return t
}

// Begin finds births and deaths. What there is beside them, true sizes and all
// that is summed up from them, only Finish knows.
func Begin(s *snapshot.Snapshot, d *snapshot.Device) *Timeline {
	t := &Timeline{Snapshot: s, Device: d, rounding: newRounding(s.Settings)}
	for i, a := range d.Events.Action {
		t.counts[min(a, snapshot.ActionOther)]++
		if isSegment(a) {
			t.segments = append(t.segments, uint32(i))
		}
	}
	t.pair()
	return t
}

// Finish does the rest of New; births and deaths may be read meanwhile.
func (t *Timeline) Finish() {
	t.size()
	t.layOutOOMs()
	t.judgeHistory()
}

// Len is the number of allocations.
func (t *Timeline) Len() int { return len(t.Born) }

// Older is the number of allocations that are older than the trace: those with
// the smallest ids.
func (t *Timeline) Older() int { return len(t.older) }

// Address is where an allocation's block begins.
func (t *Timeline) Address(id AllocationID) uint64 {
	if int(id) < len(t.older) {
		return t.older[id].address
	}
	return t.Device.Events.Address[t.Born[id]]
}

// Requested is what the program asked for, in bytes.
func (t *Timeline) Requested(id AllocationID) int64 {
	if int(id) < len(t.older) {
		return t.older[id].requested
	}
	return t.Device.Events.Size[t.Born[id]]
}

// Stack is where an allocation was made, 0 when that wasn't recorded.
func (t *Timeline) Stack(id AllocationID) snapshot.StackID {
	if int(id) < len(t.older) {
		return t.older[id].stack
	}
	return t.Device.Events.StackOf(int(t.Born[id]))
}

// Stream is the index of an allocation's stream in the snapshot's Streams.
func (t *Timeline) Stream(id AllocationID) uint32 {
	if int(id) < len(t.older) {
		return t.older[id].stream
	}
	return t.Device.Events.StreamOf(int(t.Born[id]))
}

// Pool is the index of an allocation's pool in the snapshot's Pools.
func (t *Timeline) Pool(id AllocationID) uint32 {
	if int(id) < len(t.older) {
		return t.older[id].pool
	}
	return t.Device.Events.PoolOf(int(t.Born[id]))
}

// AliveAt reports whether an allocation counts as allocated right after an event;
// NoEvent asks for the instant before the first.
func (t *Timeline) AliveAt(id AllocationID, event int) bool {
	return t.Life(id).Has(event)
}

// damagef names a contradiction.
func (t *Timeline) damagef(format string, args ...any) {
	t.Damage = append(t.Damage, fmt.Sprintf(format, args...))
}

// Capacity is what PyTorch could have had on the device, from its oom entries:
// reserved + what the driver had left; 0 when no entry tells.
func (t *Timeline) Capacity() int64 {
	var capacity int64
	for _, o := range t.OOMs {
		if o.DeviceFree >= 0 {
			capacity = max(capacity, o.Reserved+o.DeviceFree)
		}
	}
	return capacity
}
