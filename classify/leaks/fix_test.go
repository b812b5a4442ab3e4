package leaks

import (
	"strings"
	"testing"
)

// TestFixesOfGrowingSegments advises nobody to let segments grow that do.
func TestFixesOfGrowingSegments(t *testing.T) {
	for _, kind := range []string{VaryingShapes, FragmentationCreep} {
		for _, grow := range []bool{false, true} {
			fix := (&Leak{Kind: kind, expandable: grow}).Fix()
			if strings.Contains(fix.Code, "expandable_segments") == grow || fix.Text == "" || fix.Code == "" {
				t.Errorf("%s, segments grow %v: %q %q", kind, grow, fix.Text, fix.Code)
			}
		}
	}
}
