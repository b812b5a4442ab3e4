package facts

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// OfStep names the step of an event. Without stacks, what comes back in passes
// that only run forward may as well be the layers of one.
func OfStep(d *report.Device, event int) string {
	sure := d.Stacks != "none"
	for _, s := range d.Steps {
		for _, p := range s.Phases {
			sure = sure || p.Phase == classify.Backward.String() || p.Phase == classify.Optimizer.String()
		}
	}
	for _, s := range d.Steps {
		if sure && s.FirstEvent <= event && event <= s.LastEvent {
			return fmt.Sprintf(" of step %d", s.Step)
		}
	}
	return ""
}

// LowerFirst is a sentence that goes on another one.
func LowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// Largest is the category that holds most, unknown where that is weights by guess.
func Largest(m *report.Moment) (name string, bytes int64) {
	for _, c := range report.Categories {
		if m.Categories[c] > bytes {
			name, bytes = c, m.Categories[c]
		}
	}
	if name == classify.Weights.String() && m.GuessedWeights {
		name = classify.Unknown.String()
	}
	return name, bytes
}

// CutOff says what is known of a recording that ends at an offset of its file.
func CutOff(offset int64, events int) string {
	if events == 0 {
		return fmt.Sprintf("the file ends at offset %d, before its events: what is left of its segments is shown", offset)
	}
	return fmt.Sprintf("the file ends at offset %d: only events before that are shown, on top of an unknown beginning, so "+
		"levels are lower bounds", offset)
}
