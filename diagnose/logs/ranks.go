package logs

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/report"
)

// markRanks gives the messages of a rank's own log to it, where nothing in the log
// says whose they are.
func (w *witness) markRanks() {
	for i := range w.doc.Evidence.OOMMessages {
		m := &w.doc.Evidence.OOMMessages[i]
		if rank, ok := w.ranks[m.Source]; ok && m.Rank == nil {
			m.Rank = &rank
		}
	}
}

// otherRanks says of which ranks the logs tell no failure, and which have no log
// although ranks behind them have.
func (w *witness) otherRanks(groups []*failures) []string {
	var fine, missing []int
	logged := map[int]bool{}
	last := -1
	for _, rank := range w.ranks {
		logged[rank] = true
		last = max(last, rank)
	}
	for rank := range last + 1 {
		switch {
		case slices.ContainsFunc(groups, func(g *failures) bool { return slices.Contains(g.ranks, rank) }):
		case logged[rank]:
			fine = append(fine, rank)
		default:
			missing = append(missing, rank)
		}
	}
	var out []string
	if len(fine) > 0 {
		out = append(out, fmt.Sprintf("no failure in the logs of %s %s", rankWord(fine), report.Spans(fine)))
	}
	if len(missing) > 0 && len(logged) > 1 {
		out = append(out, fmt.Sprintf("no log of %s %s was given", rankWord(missing), report.Spans(missing)))
	}
	return out
}

func rankWord(ranks []int) string {
	if len(ranks) == 1 {
		return "rank"
	}
	return "ranks"
}
