package facts

import (
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// CurveOf is the timeline's curve as a report has it.
func CurveOf(t *timeline.Timeline) report.Curve {
	var c report.Curve
	for _, p := range t.Curve() {
		c.Events = append(c.Events, p.Event)
		c.Requested = append(c.Requested, p.Requested)
		c.Allocated = append(c.Allocated, p.Allocated)
		c.Active = append(c.Active, p.Active)
		c.Reserved = append(c.Reserved, p.Reserved)
	}
	return c
}
