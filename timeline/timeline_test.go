package timeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

const m = 1 << 20

// How large a block really is: in the large pool a rest of up to 1 MiB stays with it.
func TestTrueSizes(t *testing.T) {
	const begin, end = "segment_alloc 0 20M\n", "\n---\nsegment 0 20M large\nblock 0 20M 0 free"
	for name, test := range map[string]struct {
		events string
		want   []int64
	}{
		"rounded to 512":                     {begin + "alloc 0 3M+1\nfree_requested 0 3M+1\nfree_completed 0 3M+1" + end, []int64{3*m + 512}},
		"a rest of 1 MiB stays":              {begin + "alloc 0 19M\nfree_requested 0 19M\nfree_completed 0 19M" + end, []int64{20 * m}},
		"a rest of 1 MiB and 512 B does not": {begin + "alloc 0 19M-512\nfree_requested 0 19M-512\nfree_completed 0 19M-512" + end, []int64{19*m - 512}},
		"the piece behind a block in use": {begin + "alloc 0 10M\nalloc 10M 9M+512\nfree_requested 0 10M\nfree_completed 0 10M\nfree_requested 10M 9M+512\nfree_completed 10M 9M+512" + end,
			[]int64{10 * m, 10 * m}},
		"a hole that was joined": {begin + "alloc 0 5M\nalloc 5M 5M\nalloc 10M 5M\nfree_requested 0 5M\nfree_completed 0 5M\nfree_requested 5M 5M\nfree_completed 5M 5M\nalloc 0 9M+100\n" +
			"free_requested 0 9M+100\nfree_completed 0 9M+100\nfree_requested 10M 5M\nfree_completed 10M 5M" + end, []int64{5 * m, 5 * m, 5 * m, 10 * m}},
		"a block older than the trace": {"free_requested 4M 2M\nfree_completed 4M 2M\nfree_requested 7M 4M\nfree_completed 7M 4M" + end, []int64{3 * m, 4 * m}},
		"small blocks have no rest":    {"segment_alloc 0 2M\nalloc 0 1M-512\nfree_requested 0 1M-512\nfree_completed 0 1M-512\n---\nsegment 0 2M small\nblock 0 2M 0 free", []int64{m - 512}},
		"nothing is 512 B":             {"segment_alloc 0 2M\nalloc 0 1\nfree_requested 0 1\nfree_completed 0 1\n---\nsegment 0 2M small\nblock 0 2M 0 free", []int64{512}},
		"expandable segments split all": {"expandable_segments=True\nsegment_map 0 20M\nalloc 0 19M\nfree_requested 0 19M\nfree_completed 0 19M\n---\nsegment 0 20M expandable\nblock 0 20M 0 free",
			[]int64{19 * m}},
		"blocks of max_split_size are left whole": {"max_split_size=" + fmt.Sprint(8*m) + "\n" + begin + "alloc 0 8M\nfree_requested 0 8M\nfree_completed 0 8M\nalloc 0 8M-512\nfree_requested 0 8M-512\nfree_completed 0 8M-512" + end,
			[]int64{20 * m, 8*m - 512}},
		"rounded up to quarters": {"roundup_power2_divisions.4=4\n" + begin + "alloc 0 5M+1\nfree_requested 0 5M+1\nfree_completed 0 5M+1" + end, []int64{6 * m}},
		"the final state knows best": {begin + "alloc 0 9M\n---\nsegment 0 20M large\nblock 0 9M+1024 9M used\nblock 9M+1024 11M-1024 0 free",
			[]int64{9*m + 1024}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := script(t, test.events)
			if !slices.Equal(tl.Allocated, test.want) {
				t.Errorf("%v, want %v", tl.Allocated, test.want)
			}
			if len(tl.Damage) > 0 {
				t.Errorf("damage %q", tl.Damage)
			}
		})
	}
}

// When an allocation begins and ends, whatever the recorder was told to leave out.
func TestLives(t *testing.T) {
	const never, before = timeline.Never, timeline.Before
	type life struct{ born, requested, freed uint32 }
	const gone = "\n---\nsegment 0 2M small\nblock 0 2M 0 free"
	for name, test := range map[string]struct {
		events string
		want   []life
		damage string
	}{
		"the usual":                {"segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512" + gone, []life{{1, 2, 3}}, ""},
		"pending":                  {"segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nsnapshot 0 0\nfree_completed 0 512" + gone, []life{{1, 2, 4}}, ""},
		"pending at the end":       {"segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\n---\nsegment 0 2M small\nblock 0 512 512 pending\nblock 512 2M-512 0 free", []life{{1, 2, never}}, ""},
		"still alive":              {"segment_alloc 0 2M\nalloc 0 512\n---\nsegment 0 2M small\nblock 0 512 512 used\nblock 512 2M-512 0 free", []life{{1, never, never}}, ""},
		"older":                    {"free_requested 0 512\nfree_completed 0 512" + gone, []life{{never, 0, 1}}, ""},
		"older, pending":           {"free_completed 0 512\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512" + gone, []life{{never, before, 0}, {1, 2, 3}}, ""},
		"older, untouched":         {"snapshot 0 0\n---\nsegment 0 2M small\nblock 0 512 100 used\nblock 512 512 99 pending\nblock 1024 2M-1024 0 free", []life{{never, never, never}, {never, before, never}}, ""},
		"older, by address":        {"free_requested 1024 10\nfree_completed 1024 10\nfree_requested 0 10\nfree_completed 0 10" + gone, []life{{never, 2, 3}, {never, 0, 1}}, ""},
		"no requests":              {"segment_alloc 0 2M\nalloc 0 512\nfree_completed 0 512\nfree_completed 512 512" + gone, []life{{never, 3, 3}, {1, 2, 2}}, ""},
		"no completions":           {"segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nalloc 0 1024\nfree_requested 0 1024" + gone, []life{{1, 2, 2}, {3, 4, 4}}, ""},
		"no frees at all":          {"segment_alloc 0 2M\nalloc 0 512\nalloc 0 1024\n---\nsegment 0 2M small\nblock 0 1024 1024 used\nblock 1024 2M-1024 0 free", []life{{1, 2, 2}, {2, never, never}}, "1 allocations at an address that is still in use"},
		"a free is missing":        {"segment_alloc 0 2M\nalloc 0 512\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512" + gone, []life{{1, 2, 2}, {2, 3, 4}}, "still in use"},
		"lost":                     {"segment_alloc 0 2M\nalloc 0 512\nalloc 512 512\nfree_requested 512 512\nfree_completed 512 512" + gone, []life{{1, never, never}, {2, 3, 4}}, "not among the final blocks"},
		"another size":             {"segment_alloc 0 2M\nalloc 0 512\n---\nsegment 0 2M small\nblock 0 512 400 used\nblock 512 2M-512 0 free", []life{{1, never, never}}, "another requested size"},
		"segments that don't tile": {"segment_alloc 0 2M\nalloc 0 512\n---\nsegment 0 2M small\nblock 0 512 512 used\nblock 1024 2M-1024 0 free", []life{{1, never, never}}, "don't tile"},
		"many that don't tile":     {"segment_alloc 0 2M\nsegment_alloc 2M 2M\n---\nsegment 0 2M small\nblock 512 2M-512 0 free\nsegment 2M 2M small\nblock 2M 512 0 free", nil, "of 2 segments don't tile"},
		"more freed than reserved": {"segment_free 0 4M\nsegment_alloc 0 2M\nsegment_alloc 8M 2M\nsegment_free 8M 2M\nsegment_free 16M 20M\n---\n", nil, ""},
		"more reserved than there": {"segment_alloc 0 2M\nsegment_alloc 4M 20M\n---\nsegment 0 2M small\nblock 0 2M 0 free", nil, "less than nothing reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			tl := script(t, test.events)
			var got []life
			for id := range tl.Len() {
				got = append(got, life{tl.Born[id], tl.FreeRequested[id], tl.Freed[id]})
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
			if (test.damage == "") != (len(tl.Damage) == 0) || !strings.Contains(strings.Join(tl.Damage, "\n"), test.damage) {
				t.Errorf("damage %q, want %q", tl.Damage, test.damage)
			}
			tl.Walk(func(event int, now timeline.Levels) {
				if min(now.Requested, now.Allocated, now.Active, now.Reserved) < 0 {
					t.Errorf("event %d: %+v", event, now)
				}
			})
		})
	}
}

// Lives as plain numbers: what lies outside the trace sorts before and behind it.
func TestLife(t *testing.T) {
	const end = "\n---\nsegment 0 2M small\nblock 0 2M 0 free"
	for name, test := range map[string]struct {
		events string
		want   []timeline.Life
	}{
		"within":           {"segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nsnapshot 0 0\nfree_completed 0 512" + end, []timeline.Life{{1, 2}}},
		"not freed":        {"segment_alloc 0 2M\nalloc 0 512\n---\nsegment 0 2M small\nblock 0 512 512 used\nblock 512 2M-512 0 free", []timeline.Life{{1, 2}}},
		"older":            {"free_requested 0 512\nfree_completed 0 512" + end, []timeline.Life{{-1, 0}}},
		"requested before": {"free_completed 0 512\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512" + end, []timeline.Life{{-1, -1}, {1, 2}}},
		"throughout":       {"snapshot 0 0\n---\nsegment 0 2M small\nblock 0 2M 2M used", []timeline.Life{{-1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := script(t, test.events)
			for i := range tl.Len() {
				id, events := timeline.AllocationID(i), tl.Device.Events.Len()
				l := tl.Life(id)
				if l != test.want[i] || tl.BornAt(id) != l.Born || tl.FreedAt(id) != l.Freed || tl.Outlives(id) != (l.Freed == events) {
					t.Errorf("%d: %v, want %v", i, l, test.want[i])
				}
				for event := timeline.NoEvent; event < events; event++ {
					if got := id >= tl.BornSince(event); got != (l.Born >= event) {
						t.Errorf("%d is born since event %d: %t with %v", i, event, got, l)
					}
					if got := tl.AliveAt(id, event); got != (l.Born <= event && event < l.Freed) {
						t.Errorf("%d at event %d: alive is %t with %v", i, event, got, l)
					}
				}
			}
		})
	}
}

// The curves differ in when a free counts.
func TestLevels(t *testing.T) {
	tl := script(t, "segment_alloc 0 20M\nalloc 0 3M-100\nfree_requested 0 3M-100\nalloc 3M 2M\nfree_completed 0 3M-100\nfree_requested 3M 2M\nfree_completed 3M 2M\nsegment_free 0 20M")
	var got []timeline.Levels
	tl.Walk(func(_ int, now timeline.Levels) { got = append(got, now) })
	want := []timeline.Levels{{Reserved: 20 * m}, {3*m - 100, 3 * m, 3 * m, 20 * m}, {3*m - 100, 0, 3 * m, 20 * m}, {5*m - 100, 2 * m, 5 * m, 20 * m},
		{2 * m, 2 * m, 2 * m, 20 * m}, {2 * m, 0, 2 * m, 20 * m}, {Reserved: 20 * m}, {}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	if p := (timeline.Peaks{Requested: timeline.Peak{Bytes: 5*m - 100, Event: 3}, Allocated: timeline.Peak{Bytes: 3 * m, Event: 1}, Active: timeline.Peak{Bytes: 5 * m, Event: 3}, Reserved: timeline.Peak{Bytes: 20 * m, Event: 0}}); tl.Peaks != p {
		t.Errorf("%+v, want %+v", tl.Peaks, p)
	}
	if !tl.AliveAt(0, 1) || tl.AliveAt(0, 2) || tl.AliveAt(0, 0) {
		t.Error("the first allocation is alive after event 1 alone")
	}
}

func TestOutOfMemory(t *testing.T) {
	tl := script(t, "segment_alloc 0 20M\nalloc 0 8M\nalloc 8M 4M\nfree_requested 0 8M\nfree_completed 0 8M\noom 0 16M left=3M\noom 0 17M\n---\n"+
		"segment 0 20M large\nblock 0 8M 0 free\nblock 8M 4M 4M used\nblock 12M 8M 0 free")
	if len(tl.OOMs) != 2 {
		t.Fatalf("%+v", tl.OOMs)
	}
	o := tl.OOMs[0]
	if o.Event != 5 || o.Requested != 16*m || o.Reserved != 20*m || o.Allocated != 4*m || o.Largest != 8*m || o.Capacity() != 23*m {
		t.Errorf("%+v", o)
	}
	if tl.OOMs[1].Capacity() != -1 || tl.Capacity() != 23*m {
		t.Errorf("capacity %d and %d", tl.OOMs[1].Capacity(), tl.Capacity())
	}
}

// Expandable segments: what is mapped side by side is one segment.
func TestMappedRanges(t *testing.T) {
	tl := script(t, "expandable_segments=True\nsegment_map 0 20M\nsegment_map 20M 20M\nalloc 0 30M\nfree_requested 0 30M\nfree_completed 0 30M\nalloc 30M 1M+512\nsegment_unmap 0 20M\n---\n"+
		"segment 20M 20M expandable\nblock 20M 10M 0 free\nblock 30M 1M+512 1M+512 used\nblock 31M+512 9M-512 0 free")
	for event, want := range map[int]string{timeline.NoEvent: "", 0: "0+20", 1: "0+40", 2: "0+40", 6: "20+20"} {
		l := tl.LayoutAt(event)
		got := ""
		for _, s := range l.Segments {
			got += fmt.Sprintf("%d+%d", s.Address/m, s.Bytes/m)
		}
		if got != want || l.Misfits > 0 {
			t.Errorf("event %d: %q, want %q; %d misfits", event, got, want, l.Misfits)
		}
	}
	if len(tl.Damage) > 0 {
		t.Errorf("damage %q", tl.Damage)
	}
}

func TestHistory(t *testing.T) {
	const all = "segment_alloc 0 2M\nalloc 0 512\nfree_requested 0 512\nfree_completed 0 512\n---\nsegment 0 2M small\nblock 0 2M 0 free"
	const old = "alloc 1024 512\n---\nsegment 0 2M small\nblock 0 512 512 used\nblock 512 512 0 free\nblock 1024 512 512 used\nblock 1536 2M-1536 0 free"
	recorded := "alloc 2048 512\n---\nsegment 0 2M small\nblock 0 512 1 used stack=x\nblock 512 512 1 used stack=x\nblock 1024 512 1 used stack=x\nblock 1536 512 0 free\nblock 2048 512 512 used\nblock 2560 2M-2560 0 free"
	for name, test := range map[string]struct {
		text   string
		change func(*snapshot.Snapshot, *snapshot.Device)
		want   timeline.History
		reason string
	}{
		"complete":                 {all, nil, timeline.Complete, "nothing was reserved"},
		"blocks before":            {old, nil, timeline.Late, "one block was allocated before"},
		"only reserved before":     {"alloc 0 512\nfree_requested 0 512\nfree_completed 0 512\n---\nsegment 0 2M small\nblock 0 2M 0 free", nil, timeline.Late, "memory was reserved before"},
		"the recorder says so":     {old, func(_ *snapshot.Snapshot, d *snapshot.Device) { d.Overflowed = snapshot.Yes }, timeline.Overflowed, "the recorder says so"},
		"the recorder denies it":   {recorded, func(_ *snapshot.Snapshot, d *snapshot.Device) { d.Overflowed = snapshot.No }, timeline.Late, "blocks were allocated before"},
		"as full as it may be":     {old, func(_ *snapshot.Snapshot, d *snapshot.Device) { d.TraceMax = 1 }, timeline.Overflowed, "max_entries = 1 events"},
		"full from the beginning":  {all, func(_ *snapshot.Snapshot, d *snapshot.Device) { d.TraceMax = 4 }, timeline.Complete, ""},
		"stacks without events":    {recorded, nil, timeline.Overflowed, "3 blocks have a recorded stack but no event"},
		"in the middle of a free":  {"free_completed 0 512\nfree_requested 512 512\nfree_completed 512 512\n---\nsegment 0 2M small\nblock 0 2M 0 free", nil, timeline.Overflowed, "in the middle of a free"},
		"a round number of events": {strings.Repeat("alloc 0 512\nfree_completed 0 512\n", 500) + "---\nsegment 0 2M small\nblock 0 2M 0 free", nil, timeline.Overflowed, "exactly 1000 events"},
		"steps before the first event": {old, func(s *snapshot.Snapshot, d *snapshot.Device) {
			s.Strings = append(s.Strings, "step")
			s.Annotations = []snapshot.Annotation{{Start: true, Name: 1, TimeUS: 1}, {Name: 1, TimeUS: 2}, {Start: true, Name: 1, TimeUS: 3}}
			d.Events.TimeUS = []int64{10}
		}, timeline.Overflowed, `"step" was run more than once`},
		"cut":                  {old, func(s *snapshot.Snapshot, _ *snapshot.Device) { s.Cut = 77 }, timeline.Late, "the file ends at offset 77"},
		"no events":            {"---\nsegment 0 2M small\nblock 0 2M 0 free", nil, timeline.None, "never switched on"},
		"no events but stacks": {"---\nsegment 0 2M small\nblock 0 512 512 used stack=x\nblock 512 2M-512 0 free", nil, timeline.None, "switched off before the dump"},
		"no traces":            {"---\nsegment 0 2M small\nblock 0 2M 0 free", func(s *snapshot.Snapshot, _ *snapshot.Device) { s.HasTraces = false }, timeline.None, "no traces"},
		"a list of segments":   {"---\nsegment 0 2M small\nblock 0 2M 0 free", func(s *snapshot.Snapshot, _ *snapshot.Device) { s.BareSegments = true }, timeline.None, "memory_snapshot()"},
		"one event":            {"free_completed 0 512\n---\nsegment 0 2M small\nblock 0 2M 0 free", nil, timeline.None, "only the very last event"},
		"one event of old": {"free_completed 0 512\n---\nsegment 0 2M small\nblock 0 2M 0 free", func(s *snapshot.Snapshot, _ *snapshot.Device) { s.Histories = make([]snapshot.History, 1) },
			timeline.None, "unless trace_alloc_max_entries was raised"},
		"of before 2.0": {"---\nsegment 0 2M small\nblock 0 2M 0 free", func(s *snapshot.Snapshot, _ *snapshot.Device) {
			s.HasTraces, s.Histories = false, make([]snapshot.History, 1)
		}, timeline.None, "PyTorch before 2.0 recorded no events"},
		"only segments": {"segment_alloc 0 2M\nsegment_free 0 2M", nil, timeline.None, "kept no allocation and no free"},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := parseScript(t, test.text)
			if test.change != nil {
				test.change(s, d)
			}
			tl := timeline.New(s, d)
			if tl.History != test.want || !strings.Contains(tl.Reason, test.reason) {
				t.Errorf("%s: %s, want %s: %s", tl.History, tl.Reason, test.want, test.reason)
			}
		})
	}
}
