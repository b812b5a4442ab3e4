package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/logtext"
)

// TestSpillCost counts what memory in the host costs in time.
func TestSpillCost(t *testing.T) {
	const gpu = "index, memory.used [MiB], memory.total [MiB]\n0, 12000 MiB, 12288 MiB\n"
	const dataCentre = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, 81000 MiB, 81559 MiB\n"
	doc := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		seconds, gib := 2.0, 10.0
		if i >= 30 {
			seconds, gib = 12, 14
		}
		return fmt.Sprintf("step %d loss 1.0 time %.1fs mem %.2f GiB", i, seconds, gib)
	})}, input{"gpu.csv", gpu})
	f := found(doc, "shared_memory_spill")
	if f == nil || *f.SavesBytes != 2<<30 || !strings.Contains(strings.Join(f.Evidence, "\n"),
		"20 steps of the log took 12.0 s each instead of 2.0 s (6.0 times): 3.3 min lost") {
		t.Fatalf("found %+v", f)
	}
	linux := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 time %.1fs", i, 2+10*float64(min(1, i/30)))
	})}, input{"gpu.csv", dataCentre})
	if f := found(linux, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v on a GPU whose driver gives errors instead", f)
	}
	if f := found(linux, "step_time_jump"); f == nil || !strings.Contains(strings.Join(f.Evidence, "\n"), "num_alloc_retries") {
		t.Errorf("found %+v", linux.Findings)
	}
	other := judged(t, input{"train.log", logtext.Steps(20, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 mem 81.00 GiB", i)
	})}, input{"gpu.csv", dataCentre})
	if f := found(other, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v, where the log is of another GPU, or of several", f)
	}
	healthy := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 time 2.0s mem 10.00 GiB", i)
	})}, input{"gpu.csv", gpu})
	if f := found(healthy, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v in a run that is full but not slow", f)
	}
}
