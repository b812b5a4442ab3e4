package leaks_test

import (
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
)

// TestModelsAgain: a cell that makes a model and one that trains it run again and again.
func TestModelsAgain(t *testing.T) {
	type run struct {
		models   int
		cell     func(k int) string // that makes the k-th
		untrain  bool               // only the last is trained
		together bool               // all are trained on, as layers that are added
		let      bool               // the earlier ones go
	}
	cells := func(r run) func(s *story) {
		return func(s *story) {
			var all, kept []int
			s.by = meaning.ByPythonStack
			s.loop(3*r.models, func(k int) {
				m := k / 3
				if k%3 == 0 {
					if r.let {
						s.free(kept...)
						kept = nil
					}
					s.in(meaning.OtherPhase)
					for i := range 3 {
						all = append(all, s.alloc(meaning.Weights, 64*mib, fmt.Sprintf("%s:%d <module>", r.cell(m), 2), fmt.Sprintf("shell.py:%d main", 30+i)))
					}
					kept = append(kept, all[len(all)-3:]...)
				}
				s.in(meaning.Forward)
				s.work(32*mib, "net.py:20 forward", "train.py:11 main")
				s.in(meaning.Backward)
				of := 3
				if r.together {
					of = len(all)
				}
				if r.untrain && m < r.models-1 {
					return
				}
				for range of {
					g := s.alloc(meaning.Gradients, 64*mib)
					if k%3 < 2 || r.together {
						s.free(g)
					} else {
						kept = append(kept, g)
					}
				}
				if s.in(meaning.Optimizer); k%3 == 0 {
					for range 6 {
						kept = append(kept, s.alloc(meaning.OptimizerState, 64*mib, "train.py:14 main"))
					}
				}
			})
		}
	}
	again := func(k int) string { return fmt.Sprintf("ipykernel_7/%d.py", k) }
	state := "first_step_state? train.py:14 1*402653184=402653184" // of the first model
	script := func(int) string { return "net.py" }
	other := func(k int) string { return fmt.Sprintf("net%d.py", k) }
	check(t, []tale{
		{"three", false, cells(run{models: 3, cell: again}), []string{"growing_list! 0.py:2 3*805306368=1610612736"}},
		{"two of a function", false, cells(run{models: 2, cell: script}), []string{"growing_list!? net.py:2 2*805306368=805306368", state}},
		{"of other lines", false, cells(run{models: 2, cell: other}), []string{state}},
		{"copies that nothing trains", false, cells(run{models: 3, cell: again, untrain: true}), []string{state}},
		{"layers that are added", false, cells(run{models: 3, cell: script, together: true}), nil},
		{"the earlier ones go", false, cells(run{models: 3, cell: again, let: true}), []string{state}},
	})
}
