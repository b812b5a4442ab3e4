package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/gates"
	"github.com/vramscope/vramscope/report/junit"
)

// gates has the command's conditions told as JUnit's XML, too.
func (o *outputFlags) gates(cmd *cobra.Command) {
	o.gate = true
	cmd.Flags().Lookup("format").Usage = "what goes to standard output: " + anyOf(gateWords) +
		", which is of --fail-on's conditions"
	cmd.Flags().Lookup("output").Usage = "also write `FILE`, the format by its name: .html .json .md .txt .xml (repeatable)"
}

// checkGate refuses JUnit's XML without a condition.
func (o *outputFlags) checkGate(conditions int) error {
	if conditions == 0 && o.any("junit", ".xml") {
		return errors.New("JUnit's XML is of conditions: give some with --fail-on")
	}
	return nil
}

// judged are conditions as test cases.
func judged(conditions []gates.Condition, doc *report.Document) (cases []junit.Case) {
	for i := range conditions {
		c := &conditions[i]
		cases = append(cases, junit.Case{Name: c.Text, Failed: c.Holds(doc), Untold: c.Untold(doc)})
	}
	return cases
}

// grown are the conditions of a comparison as test cases.
func grown(growth []growthCondition, d *report.Diff) (cases []junit.Case) {
	for _, c := range growth {
		cases = append(cases, junit.Case{Name: c.text, Failed: c.holds(d)})
	}
	return cases
}

// writeGate writes a command's gate, named after the input that it judges.
func writeGate(w io.Writer, command, input, text string, cases []junit.Case) error {
	return junit.Write(w, &junit.Suite{Name: command, About: report.ShortFile(input), Text: text, Cases: cases})
}
