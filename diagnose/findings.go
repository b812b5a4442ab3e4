package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// findings are the things worth knowing about a device, worst first and, among
// equals, what grows, then what saves most.
func (e *examination) findings(dev *report.Device) []report.Finding {
	found := checks.Run(e.Pass)
	out := append(append(found, e.outsideFindings(dev, found)...), e.spillFindings(dev)...)
	rank(out)
	return out
}

// rank orders findings: the worst first; of equals what a defect of the program
// is before what is by design, then what saves most.
func rank(list []report.Finding) {
	place := func(f *report.Finding) int {
		if grows(f) {
			return 2 * f.Severity.Place()
		}
		return 2*f.Severity.Place() + 1
	}
	slices.SortStableFunc(list, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)),
			cmp.Compare(evidence.Or(b.SavesBytes, -1), evidence.Or(a.SavesBytes, -1)))
	})
}
