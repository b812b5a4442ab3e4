package classify

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/ring"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// defectsOf are a recording's leaks, in words.
func defectsOf(t *testing.T, s *snapshot.Snapshot, d *snapshot.Device) (words []string) {
	t.Helper()
	c := New(timeline.New(s, d), Options{})
	for _, l := range c.Leaks() {
		if l.Defect {
			words = append(words, fmt.Sprintf("%s %s:%d", l.Kind, filepath.Base(l.File), l.Line))
		}
	}
	return words
}

// untold is a recording without stacks in which nothing that lasts goes with the list: its end
// isn't told from a list that is cleared.
const untold = "growing_list__example_gradients none, with the model left"

// TestDumpedAfterTheEnd finds the same leaks where the program has come to its end before the
// dump, whether all is gone then or a model is still there.
func TestDumpedAfterTheEnd(t *testing.T) {
	for _, r := range labelledRuns(t) {
		for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
			if v := r.Variants[name]; v.OK != nil && !*v.OK || name == "ring" { // which knows old blocks by the final state alone
				continue
			}
			for _, model := range []bool{false, true} {
				tl := r.timeline(t, name)
				before := defectsOf(t, tl.Snapshot, tl.Device)
				weights := map[uint64]bool{}
				c := New(tl, Options{})
				for id, category := range c.Category {
					if category == Weights {
						weights[tl.Address(timeline.AllocationID(id))] = model
					}
				}
				ring.End(tl.Device, func(b *snapshot.Block) bool { return weights[b.Address] })
				as := r.Name + " " + name
				if model {
					as += ", with the model left"
				}
				if after := defectsOf(t, tl.Snapshot, tl.Device); !slices.Equal(before, after) && as != untold {
					t.Errorf("%s: %q, and after the end %q", as, before, after)
				}
			}
		}
	}
}

// TestOverflowedList tells of a list of which the ring buffer kept only the last step, and not of a
// training that keeps nothing.
func TestOverflowedList(t *testing.T) {
	for _, x := range []struct {
		recording string
		want      []string
	}{
		{"growing_list__step_cache/snapshot_all", []string{"growing_list replay_buffer.py:9"}},
		{"mlp_regression__script/snapshot_all", nil},
	} {
		c := scenario(t, "../recordings/"+x.recording)
		d := c.Timeline.Device
		ring.Drop(d, d.Events.Len()*9/10)
		d.Overflowed = snapshot.Yes
		if got := defectsOf(t, c.Timeline.Snapshot, d); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.recording, got, x.want)
		}
	}
}
