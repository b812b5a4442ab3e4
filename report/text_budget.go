package report

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// comparison is the table of what was measured beside what should have been.
func (t *text) comparison(c *Comparison) {
	if c == nil {
		return
	}
	t.head("Against the budget (device %d, requested bytes): %s", c.Device, Printable(c.Model))
	t.line("  %-22s %12s %12s %13s %7s", "", "budget", "measured", "difference", "of peak")
	t.compared(c.Peak, c.Peak.Budget)
	for _, p := range c.Phases {
		t.compared(p, c.Peak.Budget)
	}
	t.line("")
	for _, g := range c.Categories {
		t.compared(g, c.Peak.Budget)
	}
	if len(c.Inferred) == 0 {
		return
	}
	t.line("")
	t.line("  The setting as the recording shows it (a flag overrides each):")
	for _, s := range c.Inferred {
		t.wrap("    ", Printable(s))
	}
}

// phaseTitles say what a budget's phases are called where they are measured.
var phaseTitles = map[string]string{"loss": "forward and loss"}

// compared is a line of the table. What was not measured is left out: a phase
// of the budget that a recording does not tell from others. Differences below
// half a hundredth of the peak count as none.
func (t *text) compared(c Compared, peak int64) {
	if c.Measured == nil {
		return
	}
	name := strings.ReplaceAll(c.Name, "_", " ")
	if title := phaseTitles[c.Name]; title != "" {
		name = title
	}
	d := *c.Measured - c.Budget
	difference, share := "same", ""
	if 200*float64(max(d, -d)) >= float64(peak) {
		difference = units.Bytes(d)
		if d > 0 {
			difference = "+" + difference
		}
		if peak > 0 {
			share = fmt.Sprintf("%+.0f %%", 100*float64(d)/float64(peak))
		}
	}
	t.line("  %-22s %12s %12s %13s %7s", name, units.Bytes(c.Budget), units.Bytes(*c.Measured), difference, share)
	if c.Reason != nil {
		t.wrap("      ", Printable(*c.Reason))
	}
}
