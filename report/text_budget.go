package report

import "strings"

// comparison is the table of what was measured beside what should have been.
func (t *text) comparison(c *Comparison) {
	if c == nil {
		return
	}
	t.head("Against the budget (device %d, requested bytes): %s", c.Device, printable(c.Model))
	t.line("  %-22s %12s %12s %13s", "", "budget", "measured", "difference")
	t.compared(c.Peak)
	for _, p := range c.Phases {
		t.compared(p)
	}
	t.line("")
	for _, g := range c.Categories {
		t.compared(g)
	}
	for _, s := range c.Inferred {
		t.wrap("  inferred: ", printable(s))
	}
}

func (t *text) compared(c Compared) {
	name := strings.ReplaceAll(c.Name, "_", " ")
	if c.Measured == nil {
		t.line("  %-22s %12s %12s", name, Bytes(c.Budget), "-")
		return
	}
	difference := Bytes(*c.Measured - c.Budget)
	if *c.Measured >= c.Budget {
		difference = "+" + difference
	}
	t.line("  %-22s %12s %12s %13s", name, Bytes(c.Budget), Bytes(*c.Measured), difference)
	if c.Reason != nil {
		t.wrap("      ", printable(*c.Reason))
	}
}
