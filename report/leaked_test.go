package report_test

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestLeakedIsNoTemporary: people see what defects keep apart from temporary memory, and the sum stays.
func TestLeakedIsNoTemporary(t *testing.T) {
	temporary, weights := "temporary", "weights"
	kept := report.Site{Category: &temporary, Bytes: 100, Leaked: 90}
	sites := []report.Site{kept, {Category: &temporary, Bytes: 50}, {Category: &weights, Bytes: 30}}
	m := &report.Moment{AllocatedBytes: 180, Categories: map[string]int64{"temporary": 150, "weights": 30}}
	if c := m.Split(sites).Categories; c["temporary"] != 60 || c[report.Leaked] != 90 || c["weights"] != 30 {
		t.Errorf("split, it is %v", c)
	}
	if m.Categories["temporary"] != 150 {
		t.Error("the moment itself was changed")
	}
	if c := m.Split(sites[:2]).Categories; c["temporary"] != 150 || c[report.Leaked] != 0 {
		t.Errorf("of some call sites alone, it is %v", c)
	}
	if got := kept.CategoryWord(); got != report.Leaked {
		t.Errorf("the call site's memory is %s", got)
	}
	if got := sites[1].CategoryWord(); got != temporary {
		t.Errorf("another's is %s", got)
	}
}
