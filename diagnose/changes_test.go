package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/report"
)

// TestOneChangeForALeak: a leak that few steps show is mended by one change, which says how, whatever a replay calls it.
func TestOneChangeForALeak(t *testing.T) {
	replayed, own := advice.Text("leak=fixed"), "Detach it"
	d := &report.Device{OOMs: []report.OOM{{ReservedBytes: 20}}, Findings: []report.Finding{
		{ID: "oom_true_shortage", Severity: report.Critical, Fix: replayed,
			Outcome: report.Outcome{FixID: new("leak=fixed"), PeakBefore: new(int64(24)), PeakAfter: new(int64(12))}},
		{ID: "retained_graph", Severity: report.Warning, Fix: &own, Confidence: 0.9,
			Leak:    &report.Leak{Kind: "retained_graph", Defect: true, Suspected: true},
			Outcome: report.Outcome{FixID: new("retained_graph"), PeakBefore: new(int64(24)), PeakAfter: new(int64(12))}}}}
	if got := changesOf(d); len(got) != 1 || got[0].Text != own || *got[0].FixID != "retained_graph" {
		t.Errorf("%+v, want how to mend it, once", got)
	}
}
