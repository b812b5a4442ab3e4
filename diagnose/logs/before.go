package logs

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// grewBefore tells of allocated memory that rose all along until the failure, by
// no less than what a smaller batch would win: "" where it didn't.
func (w *witness) grewBefore(g *failures) string {
	log := w.doc.Evidence.Log(g.source)
	if log == nil || g.Cause != report.TrueShortage || g.By != "" || g.Absurd() {
		return ""
	}
	s := seriesOf(log.Steps.Row(g.Line), allocatedOf)
	growth, ok := series.Rising(s.values)
	if !ok {
		return ""
	}
	first, last := int64(s.values[0]), int64(s.values[len(s.values)-1])
	if last-first < max(g.Requested, g.Capacity/oom.LargeTensors) {
		return ""
	}
	return fmt.Sprintf("allocated memory had grown by %s a step before, from %s at step %d to %s at step %d",
		units.Bytes(int64(growth.PerPoint/s.stride())),
		units.Bytes(first), s.numbers[0], units.Bytes(last), s.numbers[len(s.numbers)-1])
}

// ofServer tells what an inference server whose worker failed had taken by its own word.
func (w *witness) ofServer(g *failures) string {
	log := w.doc.Evidence.Log(g.source)
	if log != nil && g.Scene.Server != "" && log.Engine.Name == g.Scene.Server && engineParts(&log.Engine) != "" {
		return engineTook(&log.Engine)
	}
	return ""
}
