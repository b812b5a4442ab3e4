package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// spillFindings tell of a device that reserved more than its GPU has.
func (e *examination) spillFindings(dev *report.Device) []report.Finding {
	if dev.CapacityBytes == nil || *dev.CapacitySource == "flag" && len(dev.OOMs) > 0 {
		return nil
	}
	if over := dev.Peaks.Reserved.Bytes - *dev.CapacityBytes; over > 0 {
		var steps *evidence.Steps
		for _, log := range e.evidence.Logs {
			if log.Steps.Count > 0 {
				steps = log.Steps
				break
			}
		}
		f := logs.Spill(over, *dev.CapacityBytes, fmt.Sprintf("PyTorch reserved %s", units.Bytes(dev.Peaks.Reserved.Bytes)),
			steps)
		if *dev.CapacitySource == "flag" && !onWindows(e.T.Snapshot) { // somebody's word against the recording
			f.Confidence, f.SavesBytes = 0.5, nil
			f.Title = units.Bytes(over) + " more than the given GPU has: another GPU was recorded, or that lay in the " +
				"host's memory (WSL)"
			f.Fix = advice.Text("spill.given", "size", fmt.Sprintf("%.4gGiB", float64(*dev.CapacityBytes)/(1<<30)))
		}
		return []report.Finding{f}
	}
	return nil
}
