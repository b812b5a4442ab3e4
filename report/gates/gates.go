// Package gates judges reports by conditions on the command line: `--fail-on "reserved>95%"`.
package gates

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// Help names the conditions.
const Help = "leak, oom, damage, fragmentation>10%, allocated>70GiB, reserved>95%, unknown>5%, over-budget>10%"

// Condition is one --fail-on.
type Condition struct {
	Text  string
	Holds func(*report.Document) bool
	lacks func(*report.Document) string // what a run would have to tell for that; "" or nil: nothing
}

var comparison = pattern.Of(`^(fragmentation|allocated|reserved|unknown|over-budget)>(.+)$`)

// Parse reads --fail-on; others are what the command knows besides.
func Parse(texts []string, others ...string) ([]Condition, error) {
	var out []Condition
	for _, text := range texts {
		c := Condition{Text: text}
		switch m := comparison().FindStringSubmatch(strings.ReplaceAll(text, " ", "")); {
		case text == "leak":
			c.lacks = withoutHistory
			c.Holds = anyDevice(func(d *report.Device) bool {
				return slices.ContainsFunc(d.Leaks, func(l report.Leak) bool { return l.Defect })
			})
		case text == "oom":
			c.Holds = func(doc *report.Document) bool {
				counted := func(f report.Finding) bool { return strings.HasPrefix(f.ID, "oom_") }
				return len(doc.Evidence.OOMMessages) > 0 || slices.ContainsFunc(doc.Findings, counted) ||
					anyDevice(func(d *report.Device) bool { return len(d.OOMs) > 0 })(doc)
			}
		case text == "damage":
			c.Holds = func(doc *report.Document) bool {
				damaged := func(in report.Input) bool { return len(in.Damage) > 0 || in.Partial }
				return slices.ContainsFunc(doc.Inputs, damaged) ||
					anyDevice(func(d *report.Device) bool { return len(d.Damage) > 0 })(doc)
			}
		case m != nil:
			var err error
			if c.Holds, err = above(m[1], m[2]); err != nil {
				return nil, fmt.Errorf("--fail-on %q: %w", text, err)
			}
			c.lacks = func(doc *report.Document) string { return lacking(m[1], strings.HasSuffix(m[2], "%"), doc) }
		default:
			known := strings.Join(append(others, Help), ", ")
			return nil, fmt.Errorf("--fail-on %q: known are %s", text, known)
		}
		out = append(out, c)
	}
	return out, nil
}

// withoutHistory says that nothing shows what happens from step to step.
func withoutHistory(doc *report.Document) string {
	switch {
	case len(doc.Devices) == 0 && len(doc.Findings) == 0:
		return "there is no recording"
	case len(doc.Devices) > 0 && !anyDevice(func(d *report.Device) bool { return d.History != "none" })(doc):
		return "the recording has no history"
	}
	return ""
}

// Untold is what a run doesn't tell of what the condition asks, "" when nothing
// is missing.
func (c *Condition) Untold(doc *report.Document) string {
	if c.lacks == nil {
		return ""
	}
	return c.lacks(doc)
}

func anyDevice(f func(*report.Device) bool) func(*report.Document) bool {
	return func(doc *report.Document) bool {
		return slices.ContainsFunc(doc.Devices, func(d report.Device) bool { return f(&d) })
	}
}

// above compares a quantity with a size or a share: allocated and reserved are
// the peaks, as a share of the capacity; fragmentation is the free part of what
// is reserved at the allocated peak; unknown is the share of bytes there without
// a category; over-budget is what was measured above the model's budget, as a
// share of that.
func above(quantity, limit string) (func(*report.Document) bool, error) {
	var bytes int64
	share, isShare, err := Share(limit)
	if !isShare {
		bytes, err = Limit(limit)
	}
	exceeds := func(part, whole int64) bool {
		if isShare {
			return whole > 0 && 100*float64(part) > share*float64(whole)
		}
		return part > bytes
	}
	if quantity == "over-budget" {
		return func(doc *report.Document) bool { return exceeds(overBudget(doc)) }, err
	}
	return anyDevice(func(d *report.Device) bool { return exceeds(quantityOf(quantity, d)) }), err
}

// lacking is what a run doesn't tell of a quantity, or of what it is a share of.
func lacking(quantity string, share bool, doc *report.Document) string {
	switch {
	case quantity == "over-budget":
		if _, budget := overBudget(doc); budget == 0 {
			return "there is no budget to compare with (--config, --model or --params)"
		}
	case len(doc.Devices) == 0:
		return "there is no recording"
	case share && (quantity == "allocated" || quantity == "reserved"):
		return sizesLacking(quantity, doc.Devices)
	}
	return ""
}

// sizesLacking tells of GPUs whose size isn't known. One of which nothing was taken
// takes no share of any size, where others have one.
func sizesLacking(quantity string, devices []report.Device) string {
	known, lacks := 0, 0
	for i := range devices {
		switch part, whole := quantityOf(quantity, &devices[i]); {
		case whole > 0:
			known++
		case part > 0:
			lacks++
		}
	}
	switch {
	case known == 0:
		return "the GPU's size isn't known (--gpu)"
	case lacks > 0:
		return fmt.Sprintf("the size of %d of %d GPUs isn't known (--gpu)", lacks, len(devices))
	}
	return ""
}

// Unjudged names the conditions that a run doesn't tell of; nil: there are none.
func Unjudged(conditions []Condition, doc *report.Document) error {
	var out []string
	for _, c := range conditions {
		if what := c.Untold(doc); what != "" && !c.Holds(doc) {
			out = append(out, fmt.Sprintf("--fail-on %s can't be judged: %s", c.Text, what))
		}
	}
	if out == nil {
		return nil
	}
	return errors.New(strings.Join(out, "\n  "))
}

// overBudget is by how much a run took more than its model's budget, and that
// budget, in bytes; 0 without one.
func overBudget(doc *report.Document) (over, budget int64) {
	b := doc.BudgetFigures()
	if b == nil || b.Measured.PeakBytes == 0 {
		return 0, 0
	}
	return b.Measured.PeakBytes - b.Expected.PeakBytes, b.Expected.PeakBytes
}

// Limit reads a size. One of less than 1 KiB is a share whose percent sign
// is missing: as bytes it would always be exceeded.
func Limit(limit string) (int64, error) {
	bytes, err := units.Parse(limit)
	if err == nil && bytes >= 1<<10 {
		return bytes, nil
	}
	percent, bad := strconv.ParseFloat(limit, 64)
	switch {
	case err == nil && bad != nil:
		return 0, fmt.Errorf("%q is less than 1 KiB", limit)
	case bad != nil || !(percent > 0):
		return 0, err
	}
	if percent <= 1 {
		percent *= 100
	}
	return 0, fmt.Errorf("%q is less than 1 KiB; for a share write %.4g%%", limit, percent)
}

// Share reads a percentage; isShare is false for what doesn't end in "%".
func Share(limit string) (share float64, isShare bool, err error) {
	percent, isShare := strings.CutSuffix(limit, "%")
	if !isShare {
		return 0, false, nil
	}
	share, err = strconv.ParseFloat(percent, 64)
	if err != nil || !(share >= 0) {
		return 0, true, fmt.Errorf("%q is no percentage", limit)
	}
	return share, true, nil
}

// quantityOf is a quantity in bytes and what it is a share of, 0 when unknown.
func quantityOf(name string, d *report.Device) (part, whole int64) {
	whole = evidence.Or(d.CapacityBytes, 0)
	switch name {
	case "allocated":
		return d.Peaks.Allocated.Bytes, whole
	case "reserved":
		return d.Peaks.Reserved.Bytes, whole
	case "fragmentation":
		return d.AtPeak.CacheBytes, d.AtPeak.ReservedBytes
	}
	return d.AtPeak.Categories[words.Unknown.String()], d.AtPeak.AllocatedBytes
}
