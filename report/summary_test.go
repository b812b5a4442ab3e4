package report_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/report"
)

func TestSummary(t *testing.T) {
	steps := func(n, highest int) (out []report.Step) {
		for i := range n {
			s := report.Step{Step: i, FirstEvent: 10 * i, LastEvent: 10*i + 9, PeakAllocatedBytes: 5}
			if i == highest {
				s.PeakAllocatedBytes = 6
			}
			out = append(out, s)
		}
		return out
	}
	for _, c := range []struct {
		n, highest int
		ooms       []int // events
		want       []int
	}{
		{12, 3, nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{13, 0, nil, []int{0, 1, 2, 10, 11, 12}},
		{1000, 500, []int{7005, 9999}, []int{0, 1, 2, 500, 700, 997, 998, 999}},
		{1000, -1, []int{10005}, []int{0, 1, 2, 997, 998, 999}}, // after the last step
	} {
		doc := &report.Document{Devices: []report.Device{{Steps: steps(c.n, c.highest)}}}
		for _, event := range c.ooms {
			doc.Devices[0].OOMs = append(doc.Devices[0].OOMs, report.OOM{Event: event})
		}
		d := doc.Summary().Devices[0]
		var got []int
		for _, s := range d.Steps {
			got = append(got, s.Step)
		}
		if !slices.Equal(got, c.want) || d.StepsLeftOut != c.n-len(c.want) || len(doc.Devices[0].Steps) != c.n {
			t.Errorf("of %d steps %v, %d left out, want %v", c.n, got, d.StepsLeftOut, c.want)
		}
	}
}
