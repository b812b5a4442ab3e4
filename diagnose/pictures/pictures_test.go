package pictures

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// lookAt is a look at the devices of a program; each with the curve that a report has of it.
func lookAt(t *testing.T, program recorder.Program) (out []*facts.Pass) {
	t.Helper()
	run := recorder.Simulate(program)
	s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})),
		snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Devices {
		line := timeline.New(s, &s.Devices[i])
		dev := &report.Device{Device: s.Devices[i].Ordinal, Events: s.Devices[i].Events.Len(), Curve: facts.CurveOf(line)}
		dev.AtPeak.Event = &line.Peaks.Allocated.Event
		out = append(out, facts.New(line, classify.New(line, classify.Options{}), frames.New(s), dev))
	}
	return out
}

var picturePrograms = map[string]recorder.Program{
	"plain":    {Seed: 1, Events: 1500, Depth: 6},
	"late":     {Seed: 2, Events: 1500, Skip: 400, Depth: 6, Streams: 2},
	"ring":     {Seed: 3, Events: 1500, Skip: 400, Ring: true, Pools: 2},
	"native":   {Seed: 4, Events: 800, Native: true, Depth: 20, Expandable: true},
	"two GPUs": {Seed: 5, Events: 800, Devices: 2},
}

// bandsAt sums up the bands right after an event.
func bandsAt(b *report.Bands, event int) (bytes int64) {
	for i, n := range b.Bytes {
		if b.Alive(i, event) {
			bytes += n
		}
	}
	return bytes
}

// TestPicturesSumUp compares what is drawn with the device's own curve.
func TestPicturesSumUp(t *testing.T) {
	for name, program := range picturePrograms {
		t.Run(name, func(t *testing.T) {
			for _, look := range lookAt(t, program) {
				d := look.Dev
				p := Of(look, d, false)
				for k, event := range p.Curve.Events {
					var sum int64
					for _, category := range p.Curve.Bytes {
						sum += category[k]
					}
					if want := d.Curve.Allocated[k]; sum != want || bandsAt(&p.Bands, event) != want {
						t.Fatalf("device %d, event %d: categories %d, bands %d, curve %d", d.Device, event, sum,
							bandsAt(&p.Bands, event), want)
					}
				}
				if len(p.Bands.Born) != look.T.Len() || p.Rest != nil {
					t.Errorf("%d bands of %d allocations", len(p.Bands.Born), look.T.Len())
				}
			}
		})
	}
}

// TestPicturesThinnedOut draws few allocations one by one and the rest summed
// up; both together are still everything.
func TestPicturesThinnedOut(t *testing.T) {
	look := lookAt(t, recorder.Program{Seed: 6, Events: 3000, Depth: 4})[0]
	full := Of(look, look.Dev, false)
	for _, keep := range []int{0, 1, 100, len(full.Bands.Born) / 2} {
		p := newPicture(look, look.Dev)
		p.limit, p.keep = keep, keep
		p.draw(look.Dev)
		out := p.out
		if n := len(out.Bands.Born); n < keep || out.Rest == nil || out.Rest.Allocations+n != len(full.Bands.Born) || len(out.Moments) == 0 {
			t.Fatalf("keep %d: %d bands, rest %+v", keep, n, out.Rest)
		}
		for k, event := range out.Rest.Events {
			sum := bandsAt(&out.Bands, event)
			for _, category := range out.Rest.Bytes {
				sum += category[k]
			}
			if want := look.Dev.Curve.Allocated[k]; sum != want {
				t.Fatalf("keep %d, event %d: %d instead of %d", keep, event, sum, want)
			}
		}
		for i := 1; i < len(out.Bands.ID); i++ {
			if out.Bands.ID[i] <= out.Bands.ID[i-1] {
				t.Fatalf("keep %d: ids out of order", keep)
			}
		}
	}
}

// TestPicturesKeepTheLargest compares the histogram's choice with the real order.
func TestPicturesKeepTheLargest(t *testing.T) {
	look := lookAt(t, recorder.Program{Seed: 7, Events: 2000})[0]
	p := newPicture(look, look.Dev)
	kept := p.largest(50)
	weight := func(id int) float64 {
		born, died := p.lifetime(id)
		return float64(look.T.Allocated[id]) * float64(died-born)
	}
	least, most, n := 1e30, 0.0, 0
	for id, k := range kept {
		if k {
			least = min(least, weight(id))
			n++
		} else {
			most = max(most, weight(id))
		}
	}
	if n != 50 || most > least*(1+1.0/8) {
		t.Errorf("kept %d; the largest left out is %g, the smallest kept %g", n, most, least)
	}
}

// TestEventsAreTold takes the trace together again from bands and other events, as
// the page does: each event must be what the recording says.
func TestEventsAreTold(t *testing.T) {
	for name, program := range picturePrograms {
		t.Run(name, func(t *testing.T) {
			for _, look := range lookAt(t, program) {
				p := newPicture(look, look.Dev)
				p.draw(look.Dev)
				told, others := p.told(), 0
				for _, o := range p.out.Others {
					told[o.Event] = snapshot.Action(o.Action)
					if a := told[o.Event]; a < snapshot.SegmentAlloc || a > snapshot.SnapshotTaken {
						others++
					}
				}
				for i, a := range look.T.Device.Events.Action {
					if told[i] != a {
						t.Fatalf("event %d is taken for %d instead of %d", i, told[i], a)
					}
				}
				if others*100 > len(told) {
					t.Errorf("%d of %d events had to be told one by one", others, len(told))
				}
			}
		})
	}
}
