package classify

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
)

// TestOpenRanges: ranges that begin together and are never left come in one order.
func TestOpenRanges(t *testing.T) {
	s := newStory(t, false)
	for range 64 {
		s.alloc(Unknown, 512)
	}
	for _, name := range []string{"forward", "backward", "zero_grad", "optimizer"} {
		s.ranges = append(s.ranges, recorder.Annotation{Stage: "START", Name: name, TimeUS: 5})
	}
	tl := s.timeline()
	a := &Program{t: tl, events: &tl.Device.Events, last: tl.Device.Events.Len()}
	want := a.annotated()
	for range 50 {
		if got := a.annotated(); len(got) != 4 || !slices.Equal(got, want) {
			t.Fatalf("%+v, then %+v", want, got)
		}
	}
}
