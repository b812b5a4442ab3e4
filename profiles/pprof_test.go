package profiles

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func pprofOf(t *testing.T, r Recording, at Moment) *profile.Profile {
	t.Helper()
	var b bytes.Buffer
	if err := WritePprof(&b, r, at); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// allocatedAt is what is allocated on a device after an event.
func allocatedAt(d Device, event int) (bytes int64) {
	bytes = d.Timeline.Start.Allocated
	d.Timeline.Walk(func(i int, now timeline.Levels) {
		if i <= event {
			bytes = now.Allocated
		}
	})
	return bytes
}

// TestPprofSums checks every recording: what is in use sums to what is
// allocated at the moment, on each device, and nothing is in use that wasn't
// allocated.
func TestPprofSums(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r Recording) {
		for _, at := range []Moment{Peak, End, Moment(max(0, r.Devices[0].Timeline.Device.Events.Len()/3))} {
			if r.Devices[0].Timeline.Device.Events.Len() == 0 && at >= 0 {
				continue
			}
			p := pprofOf(t, r, at)
			sums := map[string]int64{}
			for _, s := range p.Sample {
				sums[s.Label["device"][0]] += s.Value[inuseSpace]
				if s.Value[inuseSpace] > s.Value[allocSpace] || s.Value[inuseObjects] > s.Value[allocObjects] || s.Value[allocObjects] < 1 {
					t.Errorf("%v: values %v", at, s.Value)
				}
				if s.Value[inuseObjects] > 0 && s.Value[inuseSpace] != s.Value[inuseObjects]*s.NumLabel["bytes"][0] {
					t.Errorf("%v: %d blocks of %d bytes are not %d", at, s.Value[inuseObjects], s.NumLabel["bytes"][0], s.Value[inuseSpace])
				}
				if len(s.Location) == 0 || len(s.Label["category"]) != 1 || len(s.Label["phase"]) != 1 {
					t.Errorf("%v: labels %v, %d locations", at, s.Label, len(s.Location))
				}
			}
			for _, d := range r.Devices {
				event, err := at.event(d.Timeline)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := sums[strconv.Itoa(d.Timeline.Device.Ordinal)], allocatedAt(d, event); got != want {
					t.Errorf("%v: %d bytes in use, allocated are %d", at, got, want)
				}
			}
		}
	})
}

// TestPprofGolden shows one profile in full.
func TestPprofGolden(t *testing.T) {
	p := pprofOf(t, recording(t, small), Peak)
	text := regexp.MustCompile(`(?m)^Time: .*$`).ReplaceAllString(p.String(), "Time: "+fmt.Sprint(p.TimeNanos)) // whatever the zone
	golden(t, "pprof.txt", text)
}

// TestPprofSharesLabels: samples of many stacks have one set of labels.
func TestPprofSharesLabels(t *testing.T) {
	r := recording(t, small)
	b := newBuilder(r)
	var samples []*profile.Sample
	for id := range 2 {
		samples = append(samples, b.sample(r.Devices[0], sampleKey{stack: stackKey{id: snapshot.StackID(id + 1)}, inUse: true, bytes: 512}))
	}
	if maps := func(s *profile.Sample) [3]uintptr {
		return [3]uintptr{reflect.ValueOf(s.Label).Pointer(), reflect.ValueOf(s.NumLabel).Pointer(), reflect.ValueOf(s.NumUnit).Pointer()}
	}; maps(samples[0]) != maps(samples[1]) {
		t.Error("each sample has labels of its own")
	}
	if &samples[0].Location[0] == &samples[1].Location[0] {
		t.Error("two stacks have the same locations")
	}
}
