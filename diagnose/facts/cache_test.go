package facts

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/timeline"
)

// TestCacheGrows: keys and values that are more at the beginning of each step grow, by as much as comes with a step.
func TestCacheGrows(t *testing.T) {
	p := passOf(t, recorder.Program{Seed: 3, Events: 900})
	const steps = 6
	n := p.T.Device.Events.Len()
	p.Classes.Steps = nil
	for k := range steps {
		p.Classes.Steps = append(p.Classes.Steps, classify.Step{Number: k, FirstEvent: k * n / steps, LastEvent: (k+1)*n/steps - 1})
	}
	failed := &timeline.OOM{Event: n - 1}
	tell := func(cache func(id timeline.AllocationID) bool) (grows int64, held []int64) {
		held = make([]int64, steps)
		for i := range p.Classes.Category {
			id := timeline.AllocationID(i)
			if p.Classes.Category[i] = classify.Temporary; !cache(id) {
				continue
			}
			p.Classes.Category[i] = classify.KVCache
			for k := range held {
				if p.T.AliveAt(id, p.Classes.Steps[k].FirstEvent) {
					held[k] += p.T.Requested(id)
				}
			}
		}
		if n := CacheGrows(New(p.T, p.Classes, p.View, p.Dev), failed); n != nil {
			grows = *n
		}
		return grows, held
	}
	kept := func(id timeline.AllocationID) bool { return p.T.FreedAt(id) >= n }
	grows, held := tell(func(id timeline.AllocationID) bool { return kept(id) && p.T.BornAt(id) > 0 })
	if want := (held[5] - held[1]) / 4; grows != want || grows == 0 {
		t.Errorf("grows by %d, want %d of %v", grows, want, held)
	}
	failed.Active = 11 * held[5]
	if grows, _ := tell(kept); grows != 0 {
		t.Errorf("a cache of less than a tenth grows by %d", grows)
	}
	failed.Active = 0
	if grows, _ := tell(func(id timeline.AllocationID) bool { return kept(id) && p.T.BornAt(id) < p.Classes.Steps[3].FirstEvent }); grows != 0 {
		t.Errorf("a cache that doesn't grow any more grows by %d", grows)
	}
}
