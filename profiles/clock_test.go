package profiles

import (
	"math"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// timedBy is a recording with one device whose events have these times.
func timedBy(us []int64) Recording {
	d := &snapshot.Device{Events: snapshot.Events{Action: make([]snapshot.Action, len(us)), TimeUS: us}}
	return Recording{Devices: []Device{{Timeline: &timeline.Timeline{Device: d}}}}
}

func TestClock(t *testing.T) {
	rising := make([]int64, 1000)
	for i := range rising {
		rising[i] = 1_700_000_000_000_000 + int64(i)
	}
	with := func(i int, us int64) []int64 {
		out := append([]int64(nil), rising...)
		out[i] = us
		return out
	}
	for _, c := range []struct {
		name  string
		us    []int64
		timed bool
	}{
		{"rising", rising, true},
		{"one a little late", with(500, rising[498]), true},
		{"one in the far future, so that all others are late", with(1, rising[999]*2), false},
		{"the last one in the future", with(999, rising[999]*2), true},
		{"one without a time", with(3, 0), false},
		{"one before the epoch", with(3, -5), false},
		{"one beyond nanoseconds", with(999, math.MaxInt64), false},
		{"no events", nil, false},
	} {
		r := timedBy(c.us)
		if got := timed(r); got != c.timed {
			t.Errorf("%s: recorded times are taken: %v", c.name, got)
			continue
		}
		if !c.timed {
			continue
		}
		x := timesOf(&r.Devices[0].Timeline.Device.Events)
		for i := -1; i < len(c.us); i++ {
			if x.at(i) > x.at(i+1) {
				t.Errorf("%s: event %d is at %d, the next at %d", c.name, i, x.at(i), x.at(i+1))
			}
		}
	}
	if at := times(nil).at(12); at != 12_000 {
		t.Errorf("without times event 12 is at %d", at)
	}
}
