package classify

import (
	"encoding/binary"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// FuzzNew classifies traces that make no sense: whatever the events are, nothing
// may panic and every allocation gets an answer.
func FuzzNew(f *testing.F) {
	f.Add([]byte("\x00\x01\x04\x00\x02\x04\x01\x01\x04\x02\x01\x04\x00\x03\x00\x01\x03\x00\x02\x03\x00"), uint8(1))
	f.Add([]byte("\x00\x01\x09\x00\x02\x00\x00\x03\x09\x01\x03\x09\x01\x02\x00\x07\x00\x00\x00\x01\x09"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, windows uint8) {
		const record, most = 3, 600
		s := &snapshot.Snapshot{Strings: []string{"", "Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad", "FSDP::all_gather (0)"},
			Streams: []uint64{0}, Pools: []snapshot.Pool{{}}, HasTraces: true}
		var e snapshot.Events
		for i := 0; i+record <= len(b) && i < record*most; i += record {
			e.Action = append(e.Action, snapshot.Action(b[i]%10))
			e.Address = append(e.Address, uint64(b[i+1])<<9)
			e.Size = append(e.Size, int64(1)<<(b[i+2]%30))
			e.TimeUS = append(e.TimeUS, int64(i))
		}
		for k := range windows % 16 {
			at := int64(binary.LittleEndian.Uint16([]byte{k * 37, k}))
			s.Annotations = append(s.Annotations,
				snapshot.Annotation{Start: true, Name: snapshot.StringID(1 + k%3), TimeUS: at},
				snapshot.Annotation{Name: snapshot.StringID(1 + k%3), TimeUS: at + int64(k)})
		}
		s.Devices = []snapshot.Device{{Events: e}}
		tl := timeline.New(s, &s.Devices[0])
		c := New(tl, Options{})
		if len(c.Category) != tl.Len() || len(c.Phase) != tl.Len() {
			t.Fatalf("%d categories for %d allocations", len(c.Category), tl.Len())
		}
	})
}
