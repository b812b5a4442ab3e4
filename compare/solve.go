package compare

import (
	"fmt"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/search"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// Solve says which batch or sequence (what is batch or seq) fits a GPU by the model's
// budget, in the setting that a recording shows.
func Solve(t *timeline.Timeline, c *classify.Classification, config *budget.Config, what string, gpu gpus.GPU) (string,
	error) {
	r, err := Run(t, c, frames.New(t.Snapshot), *Untold(config))
	if err != nil {
		return "", err
	}
	if r.Foreign {
		return "", fmt.Errorf("the weights in the recording are another model's")
	}
	n, setting, err := search.Solve(config, r.Assumed, what, gpu)
	if err != nil {
		return "", err
	}
	name, recorded := "batch", r.Assumed.Batch
	if what == "seq" {
		name, recorded = "sequence length", r.Assumed.Sequence
	}
	if n == 0 {
		return fmt.Sprintf("By the model's budget no %s fits a whole step into %s.", name, units.Size(gpu.Capacity)), nil
	}
	b, err := budget.Compute(config, setting)
	if err != nil {
		return "", err
	}
	peak := max(b.PeakBytes, b.FirstStep)
	return fmt.Sprintf("By the model's budget a whole step fits with %s %d → %d: peak %s allocated.", name, recorded, n,
		units.Size(peak)), nil
}
