package timeline_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// programs are recordings of every kind that the allocator can make.
func programs() map[string]recorder.Program {
	return map[string]recorder.Program{
		"plain":               {Seed: 1, Events: 1500},
		"from a crowded heap": {Seed: 2, Events: 900, Skip: 1101},
		"ring buffer":         {Seed: 3, Events: 900, Skip: 2001, Ring: true},
		"expandable":          {Seed: 4, Events: 1500, Expandable: true},
		"expandable, late":    {Seed: 5, Events: 900, Skip: 1101, Expandable: true, Streams: 2},
		"streams":             {Seed: 6, Events: 1500, Streams: 3},
		"streams, late":       {Seed: 7, Events: 900, Skip: 900, Streams: 3},
		"private pools":       {Seed: 8, Events: 1500, Pools: 2},
		"out of memory":       {Seed: 9, Events: 1500, Capacity: 256 << 20, Streams: 1},
		"expandable, full":    {Seed: 10, Events: 1500, Capacity: 256 << 20, Expandable: true},
		"rounded up":          {Seed: 11, Events: 1500, RoundUp: 4},
		"large left whole":    {Seed: 12, Events: 1500, MaxSplit: 40 << 20, Skip: 300},
		"many devices":        {Seed: 13, Events: 400, Devices: 8},
	}
}

func decode(t testing.TB, file []byte) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Damage) > 0 {
		t.Fatalf("damage: %q", s.Damage)
	}
	return s
}

// What is true of a recording is found out from its file alone: sizes, curves,
// peaks, and the place of every block at any event.
func TestTruthOfSimulatedRecordings(t *testing.T) {
	for name, p := range programs() {
		for variant := range uint64(4) {
			p.Seed += 100 * variant
			t.Run(fmt.Sprintf("%s/%d", name, p.Seed), func(t *testing.T) {
				run := recorder.Simulate(p)
				s := decode(t, run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15}))
				if len(s.Devices) != len(run.Truth) {
					t.Fatalf("%d devices, want %d", len(s.Devices), len(run.Truth))
				}
				for i := range s.Devices {
					checkTruth(t, timeline.New(s, &s.Devices[i]), &run.Truth[i])
				}
			})
		}
	}
}

func checkTruth(t *testing.T, tl *timeline.Timeline, truth *recorder.Truth) {
	t.Helper()
	if len(tl.Damage) > 0 {
		t.Fatalf("damage: %q", tl.Damage)
	}
	if got := timeline.Levels(truth.Start); got != tl.Start {
		t.Fatalf("start %+v, want %+v", tl.Start, got)
	}
	sizes := tl.Allocated[tl.Older():]
	if !slices.Equal(sizes, truth.Sizes) {
		for i := range sizes {
			if sizes[i] != truth.Sizes[i] {
				t.Fatalf("allocation %d of %d bytes has a block of %d, want %d", i, tl.Requested(timeline.AllocationID(i+tl.Older())), sizes[i], truth.Sizes[i])
			}
		}
	}
	older := map[uint64]int64{}
	for id := range tl.Older() {
		older[tl.Address(timeline.AllocationID(id))] = tl.Allocated[id]
	}
	if fmt.Sprint(older) != fmt.Sprint(truth.Older) {
		t.Fatalf("older blocks %v, want %v", older, truth.Older)
	}
	tl.Walk(func(event int, now timeline.Levels) {
		if want := timeline.Levels(truth.Levels[event]); now != want {
			t.Fatalf("event %d: %+v, want %+v", event, now, want)
		}
	})
	allocated := make([]int64, len(truth.Levels))
	tl.WalkAllocated(func(event int, bytes int64) {
		if allocated[event] = truth.Levels[event].Allocated; bytes != allocated[event] {
			t.Fatalf("event %d: %d bytes allocated, want %d", event, bytes, allocated[event])
		}
	})
	checkStretches(t, tl, allocated)
	peaks := timeline.Peaks{Requested: timeline.Peak(truth.Peaks.Requested), Allocated: timeline.Peak(truth.Peaks.Allocated),
		Active: timeline.Peak(truth.Peaks.Active), Reserved: timeline.Peak(truth.Peaks.Reserved)}
	if tl.Peaks != peaks {
		t.Errorf("peaks %+v, want %+v", tl.Peaks, peaks)
	}
	if len(tl.OOMs) != truth.OOMs {
		t.Errorf("%d moments out of memory, want %d", len(tl.OOMs), truth.OOMs)
	}
	for event, want := range truth.Layouts {
		checkLayout(t, tl, event, want)
	}
}

// checkLayout compares the layout after an event with the true one.
func checkLayout(t *testing.T, tl *timeline.Timeline, event int, want [][]recorder.Piece) {
	t.Helper()
	l := tl.LayoutAt(event)
	if l.Misfits > 0 {
		t.Errorf("event %d: %d misfits", event, l.Misfits)
	}
	var got [][]recorder.Piece
	for _, s := range l.Segments {
		var pieces []recorder.Piece
		for _, b := range s.Blocks {
			pieces = append(pieces, recorder.Piece{Address: b.Address, Bytes: b.Bytes, Used: b.Allocation != timeline.NoAllocation, Pending: b.Pending})
		}
		got = append(got, pieces)
	}
	if len(got) != len(want) {
		t.Fatalf("event %d: %d segments, want %d", event, len(got), len(want))
	}
	for i := range got {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("event %d: segment %d is\n%+v, want\n%+v", event, i, got[i], want[i])
		}
	}
}
