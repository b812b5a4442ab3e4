package leaks_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// TestHeld: a variable that grew from look to look, in a program of passes in which no steps were recognised.
func TestHeld(t *testing.T) {
	const passes, look = 24, 12
	for _, x := range []struct {
		name   string
		holder names.Holder
		until  int // the pass after which nothing is added
		window int // of the newest, 0: all stay
		end    bool
		bytes  int64
		want   []string
	}{
		{"goes on to the end", names.Holder{Grew: true}, passes, 0, false, mib, []string{"growing_list! 0*0=25165824"}},
		{"is let go by the program's end", names.Holder{Grew: true}, passes, 0, true, mib, []string{"growing_list! 0*0=25165824"}},
		{"grew between no looks", names.Holder{}, passes, 0, false, mib, nil},
		{"has stopped", names.Holder{Grew: true}, look, 0, false, mib, nil},
		{"is full", names.Holder{Grew: true, Bound: 24, Elements: 24}, passes, 0, false, mib, nil},
		{"is to be filled", names.Holder{Grew: true, Bound: 240, Elements: 24}, passes, 0, false, mib, []string{"growing_list! 0*0=25165824"}},
		{"holds the newest", names.Holder{Grew: true}, passes, 6, false, mib, nil},
		{"holds little", names.Holder{Grew: true}, passes, 0, false, 8 * kib, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStory(t, false)
			s.alloc(meaning.Weights, 16*mib)
			var kept []int
			for pass := range passes {
				s.in(meaning.Forward)
				s.work(2 * mib)
				if pass < x.until {
					kept = append(kept, s.alloc(meaning.Temporary, x.bytes))
				}
				if n := len(kept); x.window > 0 && n > x.window {
					s.free(kept[n-x.window-1])
				}
				if pass < look {
					x.holder.Tensors = append(x.holder.Tensors, timeline.AllocationID(kept[pass]))
				}
			}
			if x.end {
				s.free(kept...)
			}
			c := s.result()
			var got []string
			for _, l := range leaks.Find(c, frames.New(c.Timeline.Snapshot), x.holder) {
				got = append(got, wordOf(&l))
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// TestLetGo: what a variable is known to let go is no leak of blocks without stacks.
func TestLetGo(t *testing.T) {
	const steps, size = 12, 64 * mib
	for _, gone := range []bool{false, true} {
		s := newStory(t, false)
		tr := newTrainer(s)
		var h names.Holder
		s.loop(steps, func(k int) {
			tr.train()
			s.in(meaning.OtherPhase)
			id := s.alloc(meaning.Temporary, size)
			other := s.alloc(meaning.Temporary, size/4)
			s.free(other)
			if k < steps/3 {
				h.Tensors = append(h.Tensors, timeline.AllocationID(id))
			}
			if gone {
				h.Tensors = append(h.Tensors, timeline.AllocationID(other))
			}
		})
		c := s.result()
		found := slices.ContainsFunc(leaks.Find(c, frames.New(c.Timeline.Snapshot), h), func(l leaks.Leak) bool {
			return l.Kind == leaks.GrowingList
		})
		if found == gone {
			t.Errorf("found %v", found)
		}
	}
}
