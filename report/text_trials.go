package report

import (
	"fmt"

	"github.com/vramscope/vramscope/internal/units"
)

// trials is the table of what other settings would have done.
func (t *text) trials(x *Trials) {
	if x == nil {
		return
	}
	t.head("The same requests under other settings (device %d, replayed)", x.Device)
	t.wrap("  ", Printable(x.Verdict))
	wide := 28
	for _, r := range x.Rows {
		wide = max(wide, min(columns(Printable(r.Name)), 40))
	}
	t.line("  %-*s %14s %14s", wide, "", "peak reserved", "allocated")
	for _, r := range x.Rows {
		least := "  "
		if r.AtLeast {
			least = "≥ "
		}
		t.wrap(fmt.Sprintf("  %-*s %14s %14s   ", wide, Printable(r.Name), least+units.Bytes(r.PeakReserved), least+
			units.Bytes(r.PeakAllocated)), r.Outcome)
	}
}
