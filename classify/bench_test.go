package classify

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// grow repeats a recording's events until it has so many allocations.
func grow(b *testing.B, name string, allocations int) *timeline.Timeline {
	b.Helper()
	s, err := snapshot.Open(filepath.Join(own, name), snapshot.Options{})
	if err != nil {
		b.Fatal(err)
	}
	d := longest(s)
	e := &d.Events
	n := 0
	for _, a := range e.Action {
		if a == snapshot.Alloc {
			n++
		}
	}
	times := allocations/n + 1
	e.Action, e.Address, e.Size = slices.Repeat(e.Action, times), slices.Repeat(e.Address, times), slices.Repeat(e.Size, times)
	e.Stack, e.Stream, e.Pool = slices.Repeat(e.Stack, times), slices.Repeat(e.Stream, times), slices.Repeat(e.Pool, times)
	e.Metadata, e.Internal, e.CompileContext = nil, nil, nil
	if e.TimeUS != nil {
		span := e.TimeUS[len(e.TimeUS)-1] - e.TimeUS[0] + 1
		one := e.TimeUS
		e.TimeUS = make([]int64, 0, times*len(one))
		for k := range times {
			for _, t := range one {
				e.TimeUS = append(e.TimeUS, t+int64(k)*span)
			}
		}
	}
	return timeline.New(s, d)
}

// BenchmarkMillion classifies a million allocations, with all stacks and with none.
func BenchmarkMillion(b *testing.B) {
	for name, file := range map[string]string{
		"native": "device_map__two_gpus/snapshot_named.pickle.gz",
		"none":   "retained_graph__trainer_entropy/snapshot_none.pickle.gz",
	} {
		b.Run(name, func(b *testing.B) {
			tl := grow(b, file, 1_000_000)
			b.ReportAllocs()
			for b.Loop() {
				New(tl, Options{})
			}
			b.ReportMetric(float64(tl.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mallocs/s")
		})
	}
}
