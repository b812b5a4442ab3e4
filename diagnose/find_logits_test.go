package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
)

// TestDoubtfulLogits: what may as well be something else is no reason for another loss.
func TestDoubtfulLogits(t *testing.T) {
	for _, c := range []struct {
		sure  uint8
		found int
	}{{60, 0}, {85, 1}} {
		e := examinationOf(t, recorder.Program{Seed: 6, Events: 3000})
		for i := range e.classes.Category {
			e.classes.Category[i], e.classes.Confidence[i] = classify.Logits, c.sure
		}
		var dev report.Device
		dev.AtPeak.AllocatedBytes = int64(e.t.Peaks.Allocated.Bytes)
		if got := len(e.logitsDominate(&dev, e.facts(&dev))); got != c.found {
			t.Errorf("%d %% sure: %d findings about %d bytes, want %d", c.sure, got, dev.AtPeak.AllocatedBytes, c.found)
		}
	}
}
