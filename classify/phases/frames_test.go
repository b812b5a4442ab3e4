package phases_test

import (
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/frames"
)

// TestBuffers: whether a module that is moved moves a parameter or a buffer shows in how far its line is below the one that moves
// the modules within it.
func TestBuffers(t *testing.T) {
	const file = "site-packages/torch/nn/modules/module.py:"
	const buffer, parameter, within = file + "1010 _apply", file + "957 _apply", file + "928 _apply"
	const moves = file + "1340 to"
	for _, c := range []struct {
		name  string
		lines []string
		want  bool
	}{
		{"a buffer of a module within another", []string{buffer, within, moves, mine}, true},
		{"a buffer, within two", []string{buffer, within, within, moves, mine}, true},
		{"a parameter", []string{parameter, within, moves, mine}, false},
		{"of a module that is in no other", []string{buffer, moves, mine}, false},
		{"of another function", []string{"train.py:1010 _apply", "train.py:900 _apply", mine}, false},
	} {
		p := newTape(t, false)
		p.alloc(mib, c.lines...)
		tl := p.timeline()
		marks := phases.Gather(tl.Snapshot, tl.Device).Stacks[tl.Stack(0)].Marks
		if got := marks&frames.Buffer != 0; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
