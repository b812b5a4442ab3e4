package search

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
)

// TestSyncEachBatch: what Accelerate leaves whole isn't there where each micro-batch is reduced, and the ladder says so.
func TestSyncEachBatch(t *testing.T) {
	s := budget.Setting{Trainer: true, FSDP: "full", GPUs: 8, Accumulate: 4}
	c, err := budget.ReadConfig(strings.NewReader(eightBillion))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := budget.Compute(c, s)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := Ladder(c, s, nil)
	if err != nil || len(ms) == 0 || ms[0].Flags != "--sync-each-batch" {
		t.Fatalf("%v %+v", err, ms)
	}
	s.SyncEachBatch = true
	now, err := budget.Compute(c, s)
	if err != nil {
		t.Fatal(err)
	}
	if saved := whole.PeakBytes - now.PeakBytes; saved < 12<<30 {
		t.Errorf("saves %d of gradients of 15 GiB", saved)
	}
}
