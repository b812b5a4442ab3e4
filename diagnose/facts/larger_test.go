package facts

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/timeline"
)

// TestLarger: a step that needs three times as much as any before is told of with what its inputs say of that.
func TestLarger(t *testing.T) {
	p := passOf(t, recorder.Program{Seed: 1, Events: 900})
	const many = 1 << 40 // bytes: more than all that the program has
	n := p.T.Device.Events.Len()
	began := []int64{p.T.Start.Allocated, 0, 0}
	p.T.WalkAllocated(func(event int, level int64) {
		for k := range began {
			if event < k*n/3 {
				began[k] = level
			}
		}
	})
	p.Classes.Steps = nil
	for k := range 3 {
		first, last := k*n/3, (k+1)*n/3-1
		p.Classes.Steps = append(p.Classes.Steps, classify.Step{Number: k, FirstEvent: first, LastEvent: last,
			PeakAllocated: began[k] + many, Phases: []classify.PhaseSpan{{Phase: classify.Forward, FirstEvent: first, LastEvent: last}}})
	}
	failed := &timeline.OOM{Event: n - 1}
	failed.Active = began[2] + 3*many
	seen := map[Larger]int{}
	tell := func(inputs ...timeline.AllocationID) Larger {
		for i := range p.Classes.Category {
			p.Classes.Category[i] = classify.Temporary
		}
		for _, id := range inputs {
			p.Classes.Category[id], p.Classes.Step[id] = classify.Inputs, int32(p.StepAt(p.T.BornAt(id)))
		}
		return New(p.T, p.Classes, p.View, p.Dev).Larger(failed)
	}
	if got, want := tell(), (Larger{Times: 3, Step: true}); got != want {
		t.Errorf("%+v without inputs, want %+v", got, want)
	}
	for a := p.T.BornSince(n / 3); p.T.BornAt(a) < 2*n/3; a += 7 {
		for b := p.T.BornSince(2 * n / 3); int(b) < p.T.Len(); b += 7 {
			was, is := p.T.Requested(a), p.T.Requested(b)
			want := Larger{Times: 3, Step: true, Longer: true}
			switch times := float64(is) / float64(was); {
			case times >= 1.5:
				want = Larger{Times: times, Inputs: is, Before: was, Longer: true}
			case times < 1.1:
				want = Larger{Times: 3, Step: true, Alike: true}
			}
			if got := tell(a, b); got != want {
				t.Fatalf("inputs of %d bytes after %d: %+v, want %+v", is, was, got, want)
			}
			want.Times, want.Inputs, want.Before = 0, 0, 0
			seen[want]++
		}
	}
	if len(seen) != 3 {
		t.Error(seen)
	}
}
