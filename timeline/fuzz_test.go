package timeline_test

import (
	"encoding/binary"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// arbitrary makes a recording of any bytes: five for each event, block or
// segment, on few addresses so that they meet.
func arbitrary(b []byte) (*snapshot.Snapshot, *snapshot.Device) {
	s := &snapshot.Snapshot{Strings: []string{""}, Streams: []uint64{0}, Pools: []snapshot.Pool{{}}, HasTraces: true, Cut: -1}
	d := &snapshot.Device{}
	e := &d.Events
	sizes := []int64{0, 1, 512, 1 << 20, 1<<20 + 1, 2 << 20, 20 << 20, 1 << 46}
	for ; len(b) >= 5; b = b[5:] {
		kind, size := b[0]%20, sizes[b[1]%8]+int64(b[2])<<9
		address := uint64(binary.LittleEndian.Uint16(b[3:])%64) << 19
		if b[1]&8 != 0 {
			address = ^address // near the end of the address space
		}
		switch {
		case kind < 11:
			e.Action = append(e.Action, snapshot.Action(kind))
			e.Address = append(e.Address, address)
			e.Size = append(e.Size, size)
			if kind == byte(snapshot.OOM) {
				d.OOMs = append(d.OOMs, snapshot.OutOfMemory{Event: e.Len() - 1, DeviceFree: size - 512})
			}
		case kind < 13:
			d.Segments = append(d.Segments, snapshot.Segment{Address: address, TotalSize: size, Small: b[2]&1 != 0, Expandable: b[2]&2 != 0})
		case kind < 18 && len(d.Segments) > 0:
			g := &d.Segments[len(d.Segments)-1]
			g.Blocks = append(g.Blocks, snapshot.Block{Address: address, Size: size, Requested: size - 100, State: snapshot.BlockState(kind % 3)})
		case kind == 18:
			s.Settings = snapshot.Settings{{Key: "expandable_segments", Value: "True"}}
		case kind == 19 && b[1] == 255:
			s.Cut = 5
		}
	}
	return s, d
}

func FuzzTimeline(f *testing.F) {
	f.Add([]byte{3, 6, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 2, 2, 0, 0, 0})
	f.Add([]byte{4, 7, 0, 0, 0, 3, 7, 0, 1, 0, 11, 6, 0, 0, 0, 13, 6, 0, 0, 0})
	for seed := range uint64(8) {
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 60, Skip: int(seed) * 10, Expandable: seed%2 == 1, Streams: 1, Capacity: 96 << 20})
		var b []byte
		for _, e := range run.Recording.Traces[0] {
			kind := byte(actions[e.Action])
			address, _ := e.Address.(uint64)
			b = append(b, kind, byte(seed%8), byte(e.Size.(int64)>>9), byte(address>>19), 0)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 5000 {
			return
		}
		s, d := arbitrary(b)
		checkAny(t, timeline.New(s, d))
	})
}

// checkAny checks what holds of every timeline, however little its recording
// makes sense.
func checkAny(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	e := &tl.Device.Events
	for i, id := range tl.Of {
		switch {
		case id == timeline.NoAllocation:
		case int(id) >= tl.Len():
			t.Fatalf("event %d concerns allocation %d of %d", i, id, tl.Len())
		case tl.Address(id) != e.Address[i]:
			t.Fatalf("event %d at %#x concerns allocation %d at %#x", i, e.Address[i], id, tl.Address(id))
		case (e.Action[i] == snapshot.Alloc) != (tl.Born[id] == uint32(i)):
			t.Fatalf("event %d: %v, its allocation %d was born at %d", i, e.Action[i], id, tl.Born[id])
		}
	}
	peaks := timeline.Peaks{Requested: timeline.Peak{Bytes: tl.Start.Requested}, Allocated: timeline.Peak{Bytes: tl.Start.Allocated}, Active: timeline.Peak{Bytes: tl.Start.Active}, Reserved: timeline.Peak{Bytes: tl.Start.Reserved}}
	last := tl.Start
	allocated := make([]int64, tl.Device.Events.Len())
	tl.WalkAllocated(func(event int, bytes int64) { allocated[event] = bytes })
	checkStretches(t, tl, allocated)
	tl.Walk(func(event int, now timeline.Levels) {
		if now.Allocated != allocated[event] {
			t.Fatalf("event %d: %d bytes allocated, alone %d", event, now.Allocated, allocated[event])
		}
		if min(now.Requested, now.Allocated, now.Active, now.Reserved) < 0 {
			t.Fatalf("event %d: %+v", event, now)
		}
		peaks.Requested.Bytes, peaks.Allocated.Bytes = max(peaks.Requested.Bytes, now.Requested), max(peaks.Allocated.Bytes, now.Allocated)
		peaks.Active.Bytes, peaks.Reserved.Bytes = max(peaks.Active.Bytes, now.Active), max(peaks.Reserved.Bytes, now.Reserved)
		last = now
	})
	if last != tl.End {
		t.Fatalf("the last levels are %+v, End is %+v", last, tl.End)
	}
	if peaks.Requested.Bytes != tl.Peaks.Requested.Bytes || peaks.Allocated.Bytes != tl.Peaks.Allocated.Bytes || peaks.Active.Bytes != tl.Peaks.Active.Bytes || peaks.Reserved.Bytes != tl.Peaks.Reserved.Bytes {
		t.Fatalf("peaks %+v, want %+v", tl.Peaks, peaks)
	}
	for i, id := range tl.Of {
		concerns := e.Action[i] == snapshot.Alloc || e.Action[i] == snapshot.FreeRequested || e.Action[i] == snapshot.FreeCompleted
		if concerns != (id != timeline.NoAllocation) || concerns && int(id) >= tl.Len() {
			t.Fatalf("event %d concerns allocation %d of %d", i, id, tl.Len())
		}
	}
	for id := range tl.Len() {
		a := timeline.AllocationID(id)
		if tl.Allocated[id] < 0 || tl.Requested(a) < 0 && tl.Born[id] != timeline.Never {
			t.Fatalf("allocation %d: %d of %d bytes", id, tl.Requested(a), tl.Allocated[id])
		}
		if (tl.Born[id] == timeline.Never) != (id < tl.Older()) {
			t.Fatalf("allocation %d born %d, %d are older", id, tl.Born[id], tl.Older())
		}
	}
	for _, event := range []int{timeline.NoEvent, 0, e.Len() / 2, e.Len() - 1} {
		l := tl.LayoutAt(event)
		for _, s := range l.Segments {
			at := s.Address
			for _, b := range s.Blocks {
				if b.Address != at || b.Bytes <= 0 {
					t.Fatalf("event %d: block %+v at %#x", event, b, at)
				}
				at += uint64(b.Bytes)
			}
			if at != s.Address+uint64(s.Bytes) {
				t.Fatalf("event %d: the blocks of %#x end at %#x", event, s.Address, at)
			}
		}
	}
}

// checkStretches compares the stretches with the walk over all events.
func checkStretches(t *testing.T, tl *timeline.Timeline, allocated []int64) {
	t.Helper()
	all := make([]timeline.Levels, len(allocated))
	tl.Walk(func(event int, now timeline.Levels) { all[event] = now })
	next := 0
	for k, s := range tl.Stretches {
		want := timeline.Stretch{First: timeline.Instant{Event: next, Levels: all[next]}}
		want.High, want.Wide = want.First, want.First
		tl.WalkStretch(k, func(event int, bytes int64) {
			if event != next || bytes != allocated[event] {
				t.Fatalf("stretch %d has %d bytes after event %d, want event %d with %d", k, bytes, event, next, allocated[next])
			}
			if bytes > want.High.Allocated {
				want.High = timeline.Instant{Event: event, Levels: all[event]}
			}
			if all[event].Reserved > want.Wide.Reserved {
				want.Wide = timeline.Instant{Event: event, Levels: all[event]}
			}
			next++
		})
		want.End = next
		if s != want {
			t.Fatalf("stretch %d: %+v, want %+v", k, s, want)
		}
	}
	if next != len(allocated) {
		t.Fatalf("the stretches have %d of %d events", next, len(allocated))
	}
}
