package main

import (
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/gates"
)

// gate gives an error that names the conditions that hold; where none does, one that says
// which can't be judged: a gate must not pass in silence.
func gate(conditions []gates.Condition, doc *report.Document) error {
	if err := check(conditions, doc); err != nil {
		return err
	}
	return gates.Unjudged(conditions, doc)
}

// check gives an error that names the conditions that hold.
func check(conditions []gates.Condition, doc *report.Document) error {
	var hold []string
	for _, c := range conditions {
		if c.Holds(doc) {
			hold = append(hold, c.Text)
		}
	}
	if hold != nil {
		return &conditionError{hold}
	}
	return nil
}
