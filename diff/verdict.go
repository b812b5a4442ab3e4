package diff

import (
	"fmt"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// noise is the share of the peak below which a change is not worth a warning.
const noise = 0.01

// growth is how much larger the allocated peak is after than before, as a share
// of it; ok is false when there was nothing before.
func growth(d *report.Diff) (share float64, ok bool) {
	p := d.Peaks["allocated"]
	if p.Before <= 0 {
		return 0, false
	}
	return float64(p.Change()) / float64(p.Before), true
}

// verdict is the comparison in one sentence.
func verdict(d *report.Diff) report.Verdict {
	v := report.Verdict{Severity: report.Info, Causes: []report.Cause{}}
	p := d.Peaks["allocated"]
	share, ok := growth(d)
	percent := ""
	if ok {
		percent = fmt.Sprintf(" (%+.1f %%)", 100*share)
	}
	sizes := fmt.Sprintf("%s before, %s after", units.Bytes(p.Before), units.Bytes(p.After))
	switch change := p.Change(); {
	case change > 0:
		v.Text = fmt.Sprintf("The allocated peak grew by %s%s: %s", units.Bytes(change), percent, sizes)
		if !ok || share > noise {
			v.Severity = report.Warning
		}
	case change < 0:
		v.Text = fmt.Sprintf("The allocated peak shrank by %s%s: %s", units.Bytes(-change), percent, sizes)
	default:
		v.Text = fmt.Sprintf("The allocated peak is the same: %s", units.Bytes(p.After))
	}
	v.Text += most(d, p.Change())
	switch {
	case d.After.OOMs > 0 && d.Before.OOMs == 0:
		v.Severity = report.Critical
		v.Text += "; the second ran out of memory, the first did not"
	case d.Before.OOMs > 0 && d.After.OOMs == 0:
		v.Text += "; the first ran out of memory, the second did not"
	case d.Before.OOMs > 0:
		v.Text += "; both ran out of memory"
	}
	if n := d.After.Defects - d.Before.Defects; n > 0 {
		v.Severity = max2(v.Severity, report.Warning)
		v.Text += fmt.Sprintf("; the second has %s", units.Plural(n, "leak")) +
			map[bool]string{true: " more"}[d.Before.Defects > 0]
	}
	return v
}

// max2 is the graver of two severities.
func max2(a, b report.Severity) report.Severity {
	if a == report.Critical || b == report.Info {
		return a
	}
	return b
}

// most names the category and the call site that changed most in the direction
// of the whole.
func most(d *report.Diff, change int64) string {
	if change == 0 {
		return ""
	}
	sign := int64(1)
	if change < 0 {
		sign = -1
	}
	var category *report.DiffCategory
	for i := range d.Categories {
		c := &d.Categories[i]
		if sign*c.Change() > 0 && (category == nil || sign*c.Change() > sign*category.Change()) {
			category = c
		}
	}
	if category == nil {
		return ""
	}
	text := fmt.Sprintf(", most in %s (%s)", report.CategoryWords(category.Category), units.Signed(category.Change()))
	for i := range d.Sites { // largest change first
		if s := &d.Sites[i]; sign*s.Change() > 0 && s.Category != nil && *s.Category == category.Category &&
			(s.Function != "" || s.Op != "") {
			return text + fmt.Sprintf(", at %s (%s)", s.Name(), units.Signed(s.Change()))
		}
	}
	return text
}
