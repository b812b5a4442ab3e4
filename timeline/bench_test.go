package timeline_test

import (
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/timeline"
)

func BenchmarkTimeline(b *testing.B) {
	for _, bench := range []struct {
		name string
		p    recorder.Program
	}{
		{"ordinary", recorder.Program{}},
		{"expandable", recorder.Program{Expandable: true}},
		{"late", recorder.Program{Skip: 5000}},
	} {
		bench.p.Events, bench.p.Capacity = 30_000, 1<<30
		run := recorder.Simulate(bench.p)
		s := decode(b, run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4}))
		d := &s.Devices[0]
		const eventBytes = 29 // of an event's columns
		b.Run(bench.name+"/New", func(b *testing.B) {
			b.SetBytes(int64(d.Events.Len()) * eventBytes)
			b.ReportAllocs()
			for b.Loop() {
				timeline.New(s, d)
			}
		})
		t := timeline.New(s, d)
		b.Run(bench.name+"/LayoutAt", func(b *testing.B) {
			b.SetBytes(int64(d.Events.Len()) * eventBytes)
			b.ReportAllocs()
			for b.Loop() {
				t.LayoutAt(d.Events.Len() / 2)
			}
		})
	}
}
