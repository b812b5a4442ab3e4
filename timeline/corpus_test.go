package timeline_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// recordings are the real files at hand, without those that are trimmed or made up.
func recordings(t *testing.T) []string {
	var files []string
	for _, pattern := range []string{"../testdata/recordings/*/*.pickle.gz", "../testdata/scenarios/*.pickle.gz"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	files = append(files, corpus.Glob(t, "labelled/*/snapshot_*.pickle.gz")...)
	for _, f := range corpus.Glob(t, "snapshots/*") {
		if !strings.Contains(f, "mini_snapshot") && !strings.Contains(f, "mosaic__output") {
			files = append(files, f)
		}
	}
	return files
}

// A real recording agrees with itself: nothing is damaged, and the layout after
// the last event is the final segments.
func TestRecordings(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			s, err := snapshot.Open(name, snapshot.Options{})
			if err != nil {
				if st, e := os.Stat(name); e == nil && st.Size() == 0 {
					return
				}
				t.Fatal(err)
			}
			for i := range s.Devices {
				d := &s.Devices[i]
				tl := timeline.New(s, d)
				if len(s.Damage)+len(tl.Damage) > 0 {
					t.Errorf("damage %q %q", s.Damage, tl.Damage)
				}
				l := tl.LayoutAt(d.Events.Len() - 1)
				if l.Misfits > 0 {
					t.Errorf("%d misfits", l.Misfits)
				}
				compareFinal(t, d, &l)
				requested, reserved := plainPeaks(d)
				if requested >= 0 && (requested != tl.Peaks.Requested.Bytes || reserved != tl.Peaks.Reserved.Bytes) {
					t.Errorf("device %d: peaks %d and %d, by plain sums %d and %d", d.Ordinal, tl.Peaks.Requested.Bytes, tl.Peaks.Reserved.Bytes, requested, reserved)
				}
			}
		})
	}
}

// compareFinal compares a layout with the segments at the dump. Neighbouring
// expandable ranges are one in the layout.
func compareFinal(t *testing.T, d *snapshot.Device, l *timeline.Layout) {
	t.Helper()
	type used struct {
		address uint64
		bytes   int64
		pending bool
	}
	var got, want []used
	var gotBytes, wantBytes int64
	for _, s := range l.Segments {
		gotBytes += s.Bytes
		for _, b := range s.Blocks {
			if b.Allocation != timeline.NoAllocation {
				got = append(got, used{b.Address, b.Bytes, b.Pending})
			}
		}
	}
	for i := range d.Segments {
		wantBytes += d.Segments[i].TotalSize
		for _, b := range d.Segments[i].Blocks {
			if b.State != snapshot.Inactive {
				want = append(want, used{b.Address, b.Size, b.State == snapshot.ActivePendingFree})
			}
		}
	}
	slices.SortFunc(want, func(a, b used) int { return int(int64(a.address) - int64(b.address)) })
	if gotBytes != wantBytes || !slices.Equal(got, want) {
		t.Errorf("device %d: %d bytes in segments with %d blocks, at the dump %d with %d", d.Ordinal, gotBytes, len(got), wantBytes, len(want))
	}
}

// plainPeaks are the peaks of requested and reserved bytes by going backwards
// from the final state: a few lines that know nothing of sizes and pairs; -1
// where the blocks don't say what was requested.
func plainPeaks(d *snapshot.Device) (requested, reserved int64) {
	for i := range d.Segments {
		reserved += d.Segments[i].TotalSize
		for _, b := range d.Segments[i].Blocks {
			if b.Requested < 0 {
				return -1, -1
			}
			if b.State != snapshot.Inactive {
				requested += b.Requested
			}
		}
	}
	now, held := requested, reserved
	for i := d.Events.Len() - 1; i >= 0; i-- {
		size := d.Events.Size[i]
		switch d.Events.Action[i] {
		case snapshot.Alloc:
			now -= size
		case snapshot.FreeCompleted:
			now += size
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			held -= size
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			held += size
		}
		requested, reserved = max(requested, now), max(reserved, held)
	}
	if now < 0 || held < 0 { // the recorder left frees out
		return -1, -1
	}
	return requested, reserved
}

// figures are what torch itself measured in a labelled run.
type figures struct {
	Allocated int64 `json:"max_memory_allocated"`
	Reserved  int64 `json:"max_memory_reserved"`
	Active    int64 `json:"peak_active"`
	Requested int64 `json:"peak_requested"`
}

// The peaks are torch's own, to the byte.
func TestLabelledPeaks(t *testing.T) {
	least := 100
	runs := corpus.Glob(t, "labelled/*/run.json")
	if len(runs) == 0 {
		least = 20
		var err error
		if runs, err = filepath.Glob("../testdata/recordings/*/run.json"); err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for _, run := range runs {
		var truth struct {
			figures
			PeakOrdinal int  `json:"peak_ordinal"`
			Device      *int `json:"device"`
			Variants    map[string]struct {
				figures
				Addresses    string `json:"addresses"`
				FirstOrdinal int    `json:"first_ordinal"`
				FirstEvent   int    `json:"first_event"`
			} `json:"variants"`
		}
		b, err := os.ReadFile(run)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(&truth); err != nil {
			t.Fatal(run, err)
		}
		for name, v := range truth.Variants {
			if name == "stopped" || name == "state" {
				continue // no history
			}
			file := filepath.Join(filepath.Dir(run), "snapshot_"+name+".pickle.gz")
			if _, err := os.Stat(file); os.IsNotExist(err) {
				continue // some variants of each run are shipped
			}
			t.Run(filepath.Base(filepath.Dir(run))+"/"+name, func(t *testing.T) {
				s, err := snapshot.Open(file, snapshot.Options{})
				if err != nil {
					t.Fatal(err)
				}
				d := busiest(s)
				if truth.Device != nil {
					d = s.Device(*truth.Device)
				}
				tl := timeline.New(s, d)
				got := figures{tl.Peaks.Allocated.Bytes, tl.Peaks.Reserved.Bytes, tl.Peaks.Active.Bytes, tl.Peaks.Requested.Bytes}
				want := truth.figures
				if v.Addresses == "own" {
					want = v.figures
				}
				whole := v.FirstOrdinal == 0 && v.FirstEvent == 0
				checked++
				switch {
				case whole && got != want:
					t.Errorf("%+v, want %+v", got, want)
				case !whole && truth.PeakOrdinal >= v.FirstOrdinal && (float64(got.Allocated) < 0.999*float64(want.Allocated) || got.Allocated > want.Allocated+want.Allocated/1000):
					t.Errorf("allocated %d, want %d", got.Allocated, want.Allocated)
				}
			})
		}
	}
	if checked < least {
		t.Errorf("only %d recordings", checked)
	}
}

// busiest is the device with the most events.
func busiest(s *snapshot.Snapshot) *snapshot.Device {
	return &s.Devices[slices.IndexFunc(s.Devices, func(d snapshot.Device) bool {
		return !slices.ContainsFunc(s.Devices, func(x snapshot.Device) bool { return x.Events.Len() > d.Events.Len() })
	})]
}
