package diagnose

import (
	"fmt"

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
		return []report.Finding{logs.Spill(over, *dev.CapacityBytes,
			fmt.Sprintf("PyTorch reserved %s", units.Bytes(dev.Peaks.Reserved.Bytes)), steps)}
	}
	return nil
}
