package replay

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestOnePool: of graphs that are captured one after the other, each with a temporary, the later ones find room in the first
// one's pool if they share it and aren't larger. Pools of the program's own, which it may share already, stay apart.
func TestOnePool(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		pools [3][2]int64
		sizes [3]int64 // of the temporaries, in MiB
		saves int64    // in MiB
	}{
		{"the largest first", [3][2]int64{{1, 0}, {2, 0}, {3, 0}}, [3]int64{40, 30, 20}, 50},
		{"the smallest first", [3][2]int64{{1, 0}, {2, 0}, {3, 0}}, [3]int64{20, 30, 40}, 0},
		{"one of the program's", [3][2]int64{{1, 0}, {0, 1}, {2, 0}}, [3]int64{40, 30, 20}, 20},
		{"a single graph", [3][2]int64{{1, 0}, {0, 1}, {0, 2}}, [3]int64{40, 30, 20}, 0},
	} {
		var r recorder.Recording
		var events []recorder.Event
		for i, pool := range c.pools {
			address, size := uint64(0x7f0000000000)+uint64(i)<<30, c.sizes[i]*mib
			for _, action := range []string{"segment_alloc", "alloc", "free_requested", "free_completed"} {
				events = append(events, recorder.Event{Action: action, Address: address, Size: size, Stream: 7, Pool: pool,
					TimeUS: int64(len(events))})
			}
			r.Segments = append(r.Segments, recorder.Segment{Address: address, Total: size, Stream: 7, Pool: pool,
				Blocks: []recorder.Block{{Address: address, Size: size, State: "inactive"}}})
		}
		r.Traces = [][]recorder.Event{events}
		s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})), snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewProgram(timeline.New(s, &s.Devices[0]))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.OnePoolSaves(); got != c.saves*mib {
			t.Errorf("%s: %d MiB, not %d", c.name, got/mib, c.saves)
		}
	}
}
