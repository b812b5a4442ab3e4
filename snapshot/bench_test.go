package snapshot_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

func BenchmarkDecode(b *testing.B) {
	for _, bench := range []struct {
		name  string
		p     recorder.Program
		style recorder.Style
	}{
		{"python stacks", recorder.Program{Depth: 15}, recorder.Style{Era: recorder.V2_8, Protocol: 4, OwnLists: true}},
		{"native stacks", recorder.Program{Depth: 60, Native: true}, recorder.Style{Era: recorder.V2_8, Protocol: 4, OwnLists: true}},
		{"shared stacks", recorder.Program{Depth: 60, Native: true}, recorder.Style{Era: recorder.V2_15, Protocol: 5}},
		{"no stacks", recorder.Program{}, recorder.Style{Era: recorder.V2_15, Protocol: 4}},
		{"text form", recorder.Program{Depth: 15}, recorder.Style{Era: recorder.V2_8, OwnLists: true}},
		{"torch's pickler", recorder.Program{Depth: 15}, recorder.Style{Era: recorder.V2_15, JIT: true, OwnLists: true}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			bench.p.Events, bench.p.Capacity = 30_000, 1<<30
			run := recorder.Simulate(bench.p)
			if bench.name == "no stacks" {
				for i := range run.Recording.Traces[0] {
					run.Recording.Traces[0][i].Stack = nil
				}
			}
			file := run.Recording.Dump(bench.style)
			name := filepath.Join(b.TempDir(), "s.pickle")
			if err := os.WriteFile(name, file, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := snapshot.Open(name, snapshot.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(run.Recording.Traces[0]))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
