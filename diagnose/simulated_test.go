package diagnose

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// TestWhetherItFits: only a program that was through, or that the simulation ended, is said to fit.
func TestWhetherItFits(t *testing.T) {
	failed := &report.Ended{How: string(evidence.Failed), Text: "ValueError: no such file"}
	well := &report.Ended{How: string(evidence.EndedWell)}
	early := "after 3 optimizer steps"
	for name, c := range map[string]struct {
		end      *report.Ended
		early    *string
		oom      bool
		reserved int64
		fits     *bool
		text     string
	}{
		"ended well":         {end: well, reserved: 1 << 30, fits: new(true), text: "to spare"},
		"nobody says":        {reserved: 1 << 30, fits: new(true), text: "to spare"},
		"ended by itself":    {end: failed, early: &early, reserved: 1 << 30, fits: new(true), text: "to spare"},
		"broke off":          {end: failed, reserved: 1 << 30},
		"out of memory":      {end: failed, oom: true, reserved: 1 << 30, fits: new(false)},
		"more than there is": {end: failed, reserved: 24 << 30, fits: new(false), text: ": 0 B to spare"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := &report.Document{Ended: c.end, Devices: make([]report.Device, 1)}
			doc.Environment.Simulated = &evidence.Simulated{Ended: c.early,
				SimulatedCard: evidence.SimulatedCard{CapacityBytes: 24 << 30, ContextBytes: 1 << 29}}
			d := &doc.Devices[0]
			d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes = c.reserved, c.reserved
			if c.oom {
				d.OOMs = make([]report.OOM, 1)
			}
			text, fits := simulated(doc), doc.Environment.Simulated.Fits
			if (fits == nil) != (c.fits == nil) || fits != nil && *fits != *c.fits || !strings.Contains(text, c.text) ||
				(text == "") != (c.text == "") {
				t.Errorf("fits %v: %q", fits, text)
			}
		})
	}
}
