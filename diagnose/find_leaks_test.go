package diagnose

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// A single step shows the optimizer's state by its nature: its title says
// expected, not doubtful.
func TestLeakTitle(t *testing.T) {
	for _, c := range []struct {
		leak    report.Leak
		doubted bool
	}{
		{report.Leak{Kind: classify.GrowingList, Steps: 2, Suspected: true, Confidence: 1}, true},
		{report.Leak{Kind: classify.GrowingList, Steps: 3, Confidence: 1}, false},
		{report.Leak{Kind: classify.FirstStepState, Steps: 1, Suspected: true, Confidence: 1}, false},
		{report.Leak{Kind: classify.FirstStepState, Steps: 1, Suspected: true, Confidence: 0.5}, true},
	} {
		if got := leakTitle(&c.leak); strings.Contains(got, "suspected") != c.doubted {
			t.Errorf("%+v: %s", c.leak, got)
		}
	}
}
