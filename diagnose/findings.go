package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
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
	slices.SortStableFunc(list, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(facts.Severities[a.Severity], facts.Severities[b.Severity]),
			-compareBool(grows(&a), grows(&b)), cmp.Compare(saved(&b), saved(&a)))
	})
}

// saved is what a finding's fix saves, -1 where that isn't known.
func saved(f *report.Finding) int64 {
	if f.SavesBytes == nil {
		return -1
	}
	return *f.SavesBytes
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
