package replay

import (
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/timeline"
)

// TestEveryAddressComesOutAsRecorded replays every recording under its own
// settings, those with other settings included.
func TestEveryAddressComesOutAsRecorded(t *testing.T) {
	for _, dir := range runs(t) {
		files, _ := filepath.Glob(filepath.Join(dir, "snapshot_*.pickle.gz"))
		for _, file := range files {
			t.Run(filepath.Base(dir)+"/"+filepath.Base(file), func(t *testing.T) {
				s := open(t, file)
				for i := range s.Devices {
					tl := timeline.New(s, &s.Devices[i])
					if tl.History == timeline.None {
						continue
					}
					checkRecorded(t, tl)
				}
			})
		}
	}
}

func checkRecorded(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	p, err := NewProgram(tl)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Verify()
	if c.Addresses == 0 && tl.Len() > 0 {
		t.Error("no address was compared")
	}
	if c.AddressesRight != c.Addresses || c.CallsRight != c.Calls || c.FailuresRight != c.Failures {
		t.Errorf("%s: %d of %d addresses, %d of %d segment calls, %d of %d failures; %s; %s", tl.History,
			c.AddressesRight, c.Addresses, c.CallsRight, c.Calls, c.FailuresRight, c.Failures, c.First, c.Cause)
	}
	r := p.Run(p.Recorded())
	if r.PeakReserved != tl.Peaks.Reserved.Bytes || r.PeakAllocated != tl.Peaks.Allocated.Bytes {
		t.Errorf("%s: runs freely to %d allocated and %d reserved at most, recorded %d and %d", tl.History,
			r.PeakAllocated, r.PeakReserved, tl.Peaks.Allocated.Bytes, tl.Peaks.Reserved.Bytes)
	}
	if r.OOM != (len(tl.OOMs) > 0) {
		t.Errorf("out of memory: %v, recorded %d times", r.OOM, len(tl.OOMs))
	}
	if r.FinalReserved != tl.End.Reserved || r.FinalAllocated != tl.End.Allocated {
		t.Errorf("ends with %d reserved and %d allocated, recorded %d and %d", r.FinalReserved, r.FinalAllocated, tl.End.Reserved, tl.End.Allocated)
	}
	if n := len(tl.Device.Segments); r.Segments+r.Mapped != n {
		t.Errorf("ends with %d segments and %d expandable ones, recorded %d", r.Segments, r.Mapped, n)
	}
}
