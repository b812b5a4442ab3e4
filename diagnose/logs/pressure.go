package logs

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// pressed tells of a GPU that was full, as the trainer counted it.
func (w *witness) pressed(source int, log *evidence.Log) {
	n := int(log.Pressure.Flushes)
	if n == 0 {
		return
	}
	f := report.Finding{ID: "cache_flushed", Severity: report.Info, Confidence: 0.9,
		Title: fmt.Sprintf("The GPU was full %s: PyTorch gave its cache back before it got more", units.Times(n)),
		Evidence: []string{w.at(source, log.Pressure.Line) +
			": counted by the trainer; each waits for all work on the GPU to end"},
		Fix: advice.Text("log.pressure")}
	if c, most := w.capacityOf(), evidence.Or(log.Steps.MaxMemoryBytes, 0); most > 0 && most < c-c/10 &&
		len(w.doc.Evidence.MessagesOf(source)) == 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the log reports at most %s of the GPU's %s: something else held the "+
			"rest, or a request was larger than that", units.Bytes(most), units.Bytes(c)))
	}
	const often = 3
	if n >= often && len(w.doc.Evidence.MessagesOf(source)) == 0 { // of which a failure says more
		f.Severity = report.Warning
	}
	w.add(f)
}
