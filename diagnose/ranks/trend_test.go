package ranks

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestGrowth: when memory counts as growing from dump to dump, and what is said
// where it doesn't.
func TestGrowth(t *testing.T) {
	type dump struct {
		mib  int64
		ooms int
		anew bool
	}
	at := func(mib ...int64) (out []dump) {
		for _, n := range mib {
			out = append(out, dump{mib: n})
		}
		return out
	}
	for _, x := range []struct {
		name  string
		dumps []dump
		grows int64 // MiB, 0: no
		text  string
	}{
		{"steadily", at(100, 200, 310, 400), 100, "grows from dump to dump by 100.00 MiB, 300.00 MiB over 4 dumps: activations +300.00 MiB, +300.00 MiB at cache.append app/train.py:7"},
		{"in every dump, unevenly", at(100, 200, 1000, 1100), 100, "grows from dump to dump, by 100.00 MiB to 800.00 MiB, 1000.00 MiB over 4 dumps"},
		{"once, as optimizer state does", at(100, 900, 900, 900), 0, "800.00 MiB more after the first dump, 0 B since"},
		{"up and down", at(100, 300, 120, 310), 0, "goes up and down from dump to dump: +210.00 MiB between the first and the last"},
		{"not at all", at(100, 100, 100), 0, "what is allocated at the end is the same in 3 dumps"},
		{"between two only", at(100, 200), 0, "100.00 MiB more at the end of the later dump: two can't show whether it goes on"},
		{"less and less", at(300, 200, 100), 0, "goes up and down from dump to dump: -200.00 MiB between the first and the last"},
		{"the failure's dump is apart", []dump{{mib: 100}, {mib: 200}, {mib: 300}, {mib: 5000, ooms: 1}}, 100, "grows from dump to dump by 100.00 MiB, 200.00 MiB over 3 dumps"},
		{"a failure and one before it", []dump{{mib: 100}, {mib: 5000, ooms: 1}}, 0, ""},
		{"another process before", []dump{{mib: 9000}, {mib: 100, anew: true}, {mib: 200}, {mib: 300}}, 100, "grows from dump to dump by 100.00 MiB, 200.00 MiB over 3 dumps"},
		{"started again and again", []dump{{mib: 100}, {mib: 200, anew: true}, {mib: 300, anew: true}}, 0, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			trend := &report.Trend{}
			var rows []*Device
			for _, d := range x.dumps {
				bytes := d.mib << 20
				trend.Dumps = append(trend.Dumps, report.Dump{AtEnd: bytes, OOMs: d.ooms, NewProcess: d.anew, Categories: map[string]int64{"activations": bytes}})
				site := report.Site{Function: "cache.append", File: "/home/app/train.py", Line: new(7), Known: true, Bytes: bytes}
				rows = append(rows, &Device{Dev: report.Device{SitesAtEnd: []report.Site{site}}})
			}
			text := (&Job{}).growth(trend, rows)
			if !strings.HasPrefix(text, x.text) {
				t.Errorf("%q, want %q", text, x.text)
			}
			switch {
			case x.grows == 0 && trend.Grows != nil:
				t.Errorf("grows by %d", *trend.Grows)
			case x.grows > 0 && (trend.Grows == nil || *trend.Grows != x.grows<<20):
				t.Errorf("grows by %v", trend.Grows)
			}
		})
	}
}
