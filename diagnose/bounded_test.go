package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// TestFills tells a container that fills up to its bound from one that leaks.
func TestFills(t *testing.T) {
	ring := func(bound, elements, bytes int64) report.Holder {
		return report.Holder{Bound: &bound, Elements: &elements, Bytes: bytes}
	}
	for _, x := range []struct {
		name    string
		kind    string
		holders []report.Holder
		want    bool
	}{
		{"a bound that fits", classify.GrowingList, []report.Holder{ring(256, 24, 24<<20)}, true},
		{"half of it was there at the last look", classify.GrowingList, []report.Holder{ring(256, 9, 9<<20), {Bytes: 1 << 20}}, true},
		{"a bound beyond the GPU", classify.GrowingList, []report.Holder{ring(1e6, 24, 24<<20)}, false},
		{"no bound", classify.GrowingList, []report.Holder{{Bytes: 24 << 20}}, false},
		{"most is elsewhere", classify.GrowingList, []report.Holder{ring(256, 9, 9<<20), {Bytes: 10 << 20}}, false},
		{"full, and it grows on", classify.GrowingList, []report.Holder{ring(8, 8, 8<<20)}, false},
		{"graphs", classify.RetainedGraph, []report.Holder{ring(256, 24, 24<<20)}, false},
		{"nobody knows", classify.GrowingList, nil, false},
	} {
		l := report.Leak{Kind: x.kind, TotalBytes: 24 << 20, Holders: x.holders}
		if got := fills(&l, 2<<30); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}
