package replay

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestCaptureEmptiesCache: where the cache goes back and a request of another stream
// follows, the GPU was full, unless the request is the first of a pool of its own: a
// CUDA graph is captured, which empties the cache before.
func TestCaptureEmptiesCache(t *testing.T) {
	const mib = 1 << 20
	for name, pool := range map[string][2]int64{"another stream": {}, "a capture": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			const before, after = uint64(0x7f0000000000), uint64(0x7f1000000000)
			var events []recorder.Event
			add := func(action string, address uint64, size int64, stream uint64, pool [2]int64) {
				events = append(events, recorder.Event{Action: action, Address: address, Size: size, Stream: stream, Pool: pool, TimeUS: int64(len(events))})
			}
			add("segment_alloc", before, 20*mib, 0, [2]int64{})
			add("alloc", before, 16*mib, 0, [2]int64{})
			add("free_requested", before, 16*mib, 0, [2]int64{})
			add("free_completed", before, 16*mib, 0, [2]int64{})
			add("segment_free", before, 20*mib, 0, [2]int64{})
			add("segment_alloc", after, 20*mib, 7, pool)
			add("alloc", after, 20*mib, 7, pool)
			segment := recorder.Segment{Address: after, Total: 20 * mib, Stream: 7, Pool: pool, Allocated: 20 * mib, Active: 20 * mib, Requested: 20 * mib,
				Blocks: []recorder.Block{{Address: after, Size: 20 * mib, Requested: int64(20 * mib), State: "active_allocated"}}}
			r := recorder.Recording{Segments: []recorder.Segment{segment}, Traces: [][]recorder.Event{events}}
			s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})), snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			line := timeline.New(s, &s.Devices[0])
			flushes, emptied := len(Flushes(line)), len(EmptiedCaches(line))
			if full := pool == [2]int64{}; flushes+emptied != 1 || (flushes == 1) != full {
				t.Errorf("the GPU was full %d times, and the cache emptied %d times", flushes, emptied)
			}
		})
	}
}
