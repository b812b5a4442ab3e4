package older

import (
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestStateOfOne: only optimizers that are known to keep one tensor of a weight's
// size tell that a second set of weights is no state.
func TestStateOfOne(t *testing.T) {
	for _, c := range []struct {
		name        string
		files, said []string
		want        int
	}{
		{"nothing known", nil, nil, 2},
		{"momentum, by its file", []string{"/env/torch/optim/optimizer.py", "/env/torch/optim/sgd.py"}, nil, 1},
		{"Adam", []string{"/env/torch/optim/adamw.py", "/env/torch/optim/adam.py"}, nil, 2},
		{"both", []string{"/env/torch/optim/sgd.py", "/env/torch/optim/adam.py"}, nil, 2},
		{"a schedule alone", []string{"/env/torch/optim/lr_scheduler.py"}, nil, 2},
		{"by an annotation", nil, []string{"Optimizer.step#RMSprop.step"}, 1},
		{"of an unknown kind", nil, []string{"Optimizer.step#Shampoo.step", "Optimizer.step#SGD.step"}, 2},
	} {
		s := &snapshot.Snapshot{}
		text := func(x string) snapshot.StringID {
			s.Strings = append(s.Strings, x)
			return snapshot.StringID(len(s.Strings) - 1)
		}
		for _, f := range c.files {
			s.Frames = append(s.Frames, snapshot.Frame{File: text(f)})
		}
		for _, n := range c.said {
			s.Annotations = append(s.Annotations, snapshot.Annotation{Name: text(n)})
		}
		a := &rules.Facts{Program: &phases.Program{Timeline: &timeline.Timeline{Snapshot: s}}}
		if got := stateOfOne(a); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
