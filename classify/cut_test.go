package classify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/ring"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// cutAt makes of a device's recording, in place, what a dump right after its first
// n events would have written.
func cutAt(s *snapshot.Snapshot, d *snapshot.Device, n int) {
	t := timeline.New(s, d)
	var segments []snapshot.Segment
	for _, g := range t.LayoutAt(n - 1).Segments {
		x := snapshot.Segment{Address: g.Address, TotalSize: g.Bytes, Allocated: -1, Active: -1, Requested: -1,
			Stream: g.Stream, Pool: g.Pool, Small: g.Small, Expandable: g.Expandable}
		for _, b := range g.Blocks {
			y := snapshot.Block{Address: b.Address, Size: b.Bytes, Requested: -1}
			if b.Allocation != timeline.NoAllocation {
				y.Requested, y.Stack, y.State = t.Requested(b.Allocation), t.Stack(b.Allocation), snapshot.ActiveAllocated
				if b.Pending {
					y.State = snapshot.ActivePendingFree
				}
			}
			x.Blocks = append(x.Blocks, y)
		}
		segments = append(segments, x)
	}
	d.Segments = segments
	d.Events = d.Events.Slice(0, n)
	d.OOMs = slices.DeleteFunc(d.OOMs, func(o snapshot.OutOfMemory) bool { return o.Event >= n })
	if end := d.Events.TimeOf(n - 1); end > 0 {
		s.Annotations = slices.DeleteFunc(s.Annotations, func(a snapshot.Annotation) bool { return a.TimeUS > end })
	}
}

// TestCutRuns compares with the truth what dumps in the middle of each run would
// have shown, whatever it was at: forward, backward, or an optimizer's step. With
// stacks no leak is claimed that isn't planted, and nothing of one step alone.
func TestCutRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many labelled recordings")
	}
	got := map[string]figures{}
	for _, r := range labelledRuns(t) {
		p := &plan{}
		if err := readJSON(filepath.Join(r.Dir, "run.json"), p); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"python", "none"} {
			v, ok := r.Variants[name]
			if _, err := os.Stat(r.path(name)); err != nil || !ok || v.OK != nil && !*v.OK {
				continue
			}
			for _, part := range []float64{0.2, 0.35, 0.5, 0.65, 0.8, 0.9} {
				s, d := r.device(t, name)
				n := int(part * float64(d.Events.Len()))
				for n > 0 && d.Events.Action[n-1] != snapshot.Alloc {
					n--
				}
				if n == 0 {
					continue
				}
				cutAt(s, d, n)
				v := v
				v.Events, v.Allocs = n, nil
				tl := timeline.New(s, d)
				if len(tl.Damage) > 0 {
					t.Errorf("%s %s cut at %.2f: damage %q", r.Name, name, part, tl.Damage)
				}
				c := New(tl, Options{})
				got[fmt.Sprintf("%s to %.0f %% on %s", r.Name, 100*part, name)] = r.score(tl, c, v)
				sure := slices.DeleteFunc(slices.Clone(c.Leaks()), func(l Leak) bool { return l.Suspected })
				if _, _, wrong := judgeLeaks(sure, p, nil, name != "none"); wrong > 0 && name != "none" {
					t.Errorf("%s %s cut at %.2f: false leaks %v", r.Name, name, part, sure)
				}
				for _, l := range sure {
					if l.Kind == GrowingList && l.Category == Gradients {
						t.Errorf("%s %s cut at %.2f: gradients of one pass are taken for a list", r.Name, name, part)
					}
				}
			}
		}
	}
	for name, f := range got {
		t.Logf("%-60s %s unknown %5.2f %v", name, f, f.unknown, most(f.confusion))
	}
	noWorse(t, got, "testdata/accepted_cut.json")
}

// startAt makes of a device's recording, in place, what one that was switched on
// after n events would hold: no stack of a block that is older.
func startAt(d *snapshot.Device, n int) {
	ring.Drop(d, n)
	made := map[uint64]bool{}
	for i, action := range d.Events.Action {
		if action == snapshot.Alloc {
			made[d.Events.Address[i]] = true
		}
	}
	for i := range d.Segments {
		d.Segments[i].Stack = 0
		for j := range d.Segments[i].Blocks {
			if b := &d.Segments[i].Blocks[j]; !made[b.Address] {
				b.Stack = 0
			}
		}
	}
	d.Overflowed = snapshot.No
}

// TestLateRuns compares with the truth what is told of each run when recording
// begins in the middle of it.
func TestLateRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many labelled recordings")
	}
	got := map[string]figures{}
	for _, r := range labelledRuns(t) {
		v, ok := r.Variants["python"]
		if _, err := os.Stat(r.path("python")); err != nil || !ok || v.OK != nil && !*v.OK {
			continue
		}
		for _, part := range []float64{0.1, 0.35, 0.65} {
			s, d := r.device(t, "python")
			n, v := int(part*float64(d.Events.Len())), v
			for _, action := range d.Events.Action[:n] {
				if action == snapshot.Alloc {
					v.FirstOrdinal++
				}
			}
			v.FirstEvent, v.Events = v.FirstEvent+n, v.Events-n
			startAt(d, n)
			tl := timeline.New(s, d)
			got[fmt.Sprintf("%s from %.0f %%", r.Name, 100*part)] = r.score(tl, New(tl, Options{}), v)
		}
	}
	for name, f := range got {
		t.Logf("%-60s %s unknown %5.2f %v", name, f, f.unknown, most(f.confusion))
	}
	noWorse(t, got, "testdata/accepted_late.json")
}
