package report

import "fmt"

// trials is the table of what other settings would have done.
func (t *text) trials(x *Trials) {
	if x == nil {
		return
	}
	t.head("The same requests under other settings (device %d, replayed)", x.Device)
	t.wrap("  ", Printable(x.Verdict))
	t.line("  %-28s %14s %14s", "", "peak reserved", "allocated")
	for _, r := range x.Rows {
		least := "  "
		if r.AtLeast {
			least = "≥ "
		}
		t.wrap(fmt.Sprintf("  %-28s %14s %14s   ", Printable(r.Name), least+Bytes(r.PeakReserved), least+Bytes(r.PeakAllocated)), r.Outcome)
	}
}
