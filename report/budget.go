package report

import "encoding/json"

// BudgetFigures are those of a Document's Budget that tables, pages and gates
// look at, in bytes.
type BudgetFigures struct {
	Model struct {
		Type       string `json:"type"`
		Parameters int64  `json:"parameters"`
	} `json:"model"`
	Setting struct {
		Batch         int64  `json:"batch"`
		Sequence      int64  `json:"sequence"`
		Precision     string `json:"precision"`
		Optimizer     string `json:"optimizer"`
		Checkpointing string `json:"checkpointing"`
		Inference     bool   `json:"inference"` // has neither optimizer nor checkpointing
	} `json:"setting"`
	Expected struct {
		PeakBytes int64 `json:"peak_bytes"`
	} `json:"expected"`
	Measured struct {
		PeakBytes int64 `json:"peak_bytes"` // 0: nothing to compare
	} `json:"measured"`
}

// BudgetFigures reads them out of the Budget, which is another package's value
// or was read from JSON; nil without one.
func (d *Document) BudgetFigures() *BudgetFigures {
	if d.Budget == nil {
		return nil
	}
	text, err := json.Marshal(d.Budget)
	if err != nil {
		return nil
	}
	b := &BudgetFigures{}
	_ = json.Unmarshal(text, b) // what has another shape stays 0
	return b
}
