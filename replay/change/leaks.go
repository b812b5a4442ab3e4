package change

import (
	"fmt"
	"math"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// fixLeaks frees what a defect keeps at the end of the step that made it.
func (r *rewriter) fixLeaks() (string, error) {
	var kinds []string
	for i := range r.classes.Leaks() {
		l := &r.classes.Leaks()[i]
		if !l.Defect {
			continue
		}
		kinds = append(kinds, l.Kind)
		if l.Kind == classify.GradientsKept {
			if _, err := r.setToNone(); err != nil {
				return "", err
			}
			continue
		}
		for k, id := range l.Allocations {
			end := r.endOfMaking(l, r.BornAt(id))
			if next := l.Next(k); next != timeline.NoAllocation { // passes of one step take turns, too
				end = min(end, r.BornAt(next))
			}
			if end < r.FreedAt(id) {
				r.release(id, end)
			}
		}
	}
	if len(kinds) == 0 {
		return "", fmt.Errorf("no leak was found in the recording")
	}
	return "What the leak (" + strings.Join(kinds, ", ") + ") keeps is freed at the end of the step or pass that made it.", nil
}

// endOfMaking is the last event of the step, or of the pass that isn't trained on, in
// which something of a leak was born.
func (r *rewriter) endOfMaking(l *classify.Leak, born int) int {
	if s := r.classes.UntrainedAt(born); l.Untrained && s != nil {
		return s.LastEvent
	}
	if step := r.stepAt(born); step >= 0 {
		return r.classes.Steps[step].LastEvent
	}
	return math.MaxInt
}
