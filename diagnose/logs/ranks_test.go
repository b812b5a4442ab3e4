package logs_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// TestLogsByRank: a log's messages are its rank's, unless they say otherwise; of the others it is
// told whose logs show no failure, and whose are missing.
func TestLogsByRank(t *testing.T) {
	for _, test := range []struct {
		name  string
		ranks map[int]int // by log
		fails []int       // logs
		want  []string    // in the end of the evidence
	}{
		{"no ranks", nil, []int{0}, nil},
		{"one rank, whose log fails", map[int]int{0: 0}, []int{0}, nil},
		{"one rank, the others' logs missing", map[int]int{0: 2}, []int{0}, nil}, // a log alone says nothing of others
		{"another's is fine", map[int]int{0: 0, 1: 1}, []int{0}, []string{"no failure in the logs of rank 1"}},
		{"two are fine", map[int]int{0: 0, 1: 1, 2: 2}, []int{1}, []string{"no failure in the logs of ranks 0, 2"}},
		{"one is missing", map[int]int{0: 0, 1: 2}, []int{0, 1}, []string{"no log of rank 1 was given"}},
		{"fine, and missing", map[int]int{0: 1, 1: 5}, []int{0},
			[]string{"no failure in the logs of rank 5", "no log of ranks 0, 2-4 was given"}},
		{"all fail", map[int]int{0: 0, 1: 1}, []int{0, 1}, nil},
	} {
		ev := evidence.New()
		doc := &report.Document{Evidence: ev}
		for i := range 3 {
			doc.Inputs = append(doc.Inputs, report.Input{Path: string(rune('a'+i)) + ".log"})
			ev.Logs = append(ev.Logs, evidence.Log{Source: i, Steps: &evidence.Steps{Source: i}})
		}
		for _, i := range test.fails {
			ev.OOMMessages = append(ev.OOMMessages, failed(4, 2*gib, func(m *evidence.OOMMessage) { m.Source = i }))
		}
		logs.Add(doc, 0, test.ranks)
		var told []string
		for _, e := range doc.Findings[0].Evidence {
			if strings.HasPrefix(e, "no ") {
				told = append(told, e)
			}
		}
		if len(doc.Findings) != 1 || strings.Join(told, "; ") != strings.Join(test.want, "; ") {
			t.Errorf("%s: %q, want %q", test.name, told, test.want)
		}
		for _, m := range ev.OOMMessages {
			rank, ok := test.ranks[m.Source]
			if got := evidence.Or(m.Rank, -1); ok != (got >= 0) || ok && got != rank {
				t.Errorf("%s: the message of log %d is rank %d's", test.name, m.Source, got)
			}
		}
	}
	ev := ofLog(failed(1, 2*gib, ofRank(7)))
	logs.Add(&report.Document{Evidence: ev, Inputs: []report.Input{{Path: "a"}}}, 0, map[int]int{0: 3})
	if rank := *ev.OOMMessages[0].Rank; rank != 7 {
		t.Errorf("rank 7's by its own words is rank %d's", rank)
	}
}
