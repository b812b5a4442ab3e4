package phases

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestOpenRanges: ranges that begin together and are never left come in one order.
func TestOpenRanges(t *testing.T) {
	s := &snapshot.Snapshot{Strings: []string{"", "forward", "backward", "zero_grad", "optimizer"}, HasTraces: true}
	var e snapshot.Events
	for i := range 64 {
		e.Action = append(e.Action, snapshot.Alloc)
		e.Address = append(e.Address, uint64(1+i)<<9)
		e.Size = append(e.Size, 512)
		e.TimeUS = append(e.TimeUS, int64(i))
	}
	for name := range 4 {
		s.Annotations = append(s.Annotations, snapshot.Annotation{Start: true, Name: snapshot.StringID(1 + name), TimeUS: 5})
	}
	s.Devices = []snapshot.Device{{Events: e}}
	tl := timeline.New(s, &s.Devices[0])
	a := &Program{Timeline: tl, Events: &tl.Device.Events, Last: tl.Device.Events.Len()}
	want := annotated(a)
	for range 50 {
		if got := annotated(a); len(got) != 4 || !slices.Equal(got, want) {
			t.Fatalf("%+v, then %+v", want, got)
		}
	}
}
