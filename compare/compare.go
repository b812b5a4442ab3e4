// Package compare puts what a recording measured beside what the model's
// configuration says it should have been.
//
//	r, err := compare.Run(t, classes, view, compare.Theory{Config: c})
//	for _, g := range r.Gaps {
//		fmt.Println(g.Category, g.Measured-g.Budget, g.Reason)
//	}
package compare

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// Theory is a model and what the user says about its setting; the rest is
// inferred from the recording.
type Theory struct {
	Config  *budget.Config
	Setting budget.Setting
	Given   map[string]bool // the setting's flags that the user gave
	Claimed map[string]bool // those that files beside the recording set, which it may contradict
	Unasked map[string]bool // of these, what no field says but a framework does
	Told    []string        // where else the setting comes from, in words
	By      string          // files that the setting comes from
	Alone   *Theory         // what there is without those files
}

// Untold is the theory of a model of whose setting the user says nothing.
func Untold(c *budget.Config) *Theory {
	return &Theory{Config: c, Setting: budget.Setting{LastLogit: true}.Defaults(), Given: map[string]bool{}}
}

// Result is a budget with what was measured beside it. Its JSON is the schema
// vramscope.budget/1 with additions.
type Result struct {
	*budget.Document
	Assumed  budget.Setting  `json:"-"`        // what the budget is worked out for
	Inferred []string        `json:"inferred"` // what of the setting was read from the recording, and how
	Differs  []Difference    `json:"differs"`  // of which files say something else
	Expected Expected        `json:"expected"`
	Measured Measured        `json:"measured"`
	ByPhase  []MeasuredPhase `json:"measured_phases"` // beside Document.Phases, the same order
	Gaps     []Gap           `json:"gaps"`            // per category in the phase of the measured peak, largest first
	// Foreign tells that there are weights and none that the model has.
	Foreign bool   `json:"-"`
	By      string `json:"-"` // files that the setting comes from

	asked budget.Setting // as it was asked for
}

// Expected is the budget of the part of the run that can be compared: a steady
// step, or as far as the recording came. Note says which when it is less.
type Expected struct {
	PeakBytes int64   `json:"peak_bytes"`
	Note      *string `json:"note"`
}

// Measured is the recording's side at its peak in that part, requested bytes.
type Measured struct {
	Step       *int             `json:"step"` // nil: no whole step
	Phase      *string          `json:"phase"`
	PeakBytes  int64            `json:"peak_bytes"`
	Categories map[string]int64 `json:"categories"`
	Reserved   int64            `json:"reserved_bytes"`
}

// MeasuredPhase is the recording's side of one phase; PeakBytes is nil where the
// recording has none such. A recording's forward counts as the budget's loss,
// which is its end.
type MeasuredPhase struct {
	Phase      string           `json:"phase"`
	PeakBytes  *int64           `json:"peak_bytes"`
	Categories map[string]int64 `json:"categories"`
	Budget     int64            `json:"budget_bytes"` // of as much of the phase as can be compared
	Reason     *string          `json:"reason"`       // of the difference, nil: small or not known
}

// Gap is the difference in one category.
type Gap struct {
	Category string  `json:"category"`
	Budget   int64   `json:"budget_bytes"`
	Measured int64   `json:"measured_bytes"`
	Reason   *string `json:"reason"` // nil: not known
}

// Run works the budget out and compares. The error is one sentence about a
// setting that can't be.
func Run(t *timeline.Timeline, c *classify.Classification, v *frames.View, theory Theory) (*Result, error) {
	o, err := observe(t, c, v, theory)
	if err != nil {
		return nil, err
	}
	if theory.Alone != nil && o.training && theory.Setting.Inference {
		return o.alone(theory, "it serves, and the recording trains")
	}
	r, err := o.compare(theory)
	if err != nil && theory.Alone != nil { // what files say and what the recording shows can't be at once
		return o.alone(theory, "it can't be of this recording's setting")
	}
	return r, err
}

// alone compares without files, and says why.
func (o *observed) alone(theory Theory, why string) (*Result, error) {
	told := theory.By + " isn't used: " + why
	theory = *theory.Alone
	theory.Told = []string{told}
	return o.compare(theory)
}

func (o *observed) compare(theory Theory) (*Result, error) {
	setting, weights, n := o.infer(theory)
	config := theory.Config
	if weights.unpacked() || theory.Given["precision"] {
		config = config.Unpacked()
	}
	r, x, at, err := o.against(config, setting)
	if err != nil {
		return nil, fmt.Errorf("the budget for the setting that the recording shows (%d x %d tokens, %s, %s): %w",
			setting.Batch, setting.Sequence, setting.Precision, setting.Optimizer, err)
	}
	g := gaps{observed: o, r: r, x: x, at: at, weights: weights}
	differs := n.differences(theory.Setting, setting)
	if !weights.foreign() {
		if better := g.doubt(&theory, config, n); better != nil {
			differs = append(differs, better.Differs...)
			r, g.r = better, better
		}
	}
	r.Inferred, r.Differs, r.Foreign, r.By = append(slices.Clone(theory.Told), n.said...), differs, weights.foreign(), theory.By
	g.compare()
	g.explainPhases()
	return r, nil
}

// against is what was measured beside the budget of a setting, of what part, and at which event.
func (o *observed) against(config *budget.Config, setting budget.Setting) (*Result, extent, int, error) {
	b, err := budget.Compute(config, setting)
	if err != nil {
		return nil, extent{}, 0, err
	}
	r := &Result{Document: budget.NewDocument(b), Assumed: b.Setting, asked: setting}
	x := o.extent()
	return r, x, o.measure(r, x), nil
}
