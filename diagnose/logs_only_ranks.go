package diagnose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// logRanks are the ranks of logs that are one rank's alone, by source, as their
// names and folders tell. What is only said of a machine, as by torchrun's folders,
// is taken for ranks when it is complete from 0 and there is one machine.
func (j *job) logRanks() map[int]int {
	ranks, locals := map[int]int{}, map[int]int{}
	nodes := map[int]int{} // by rank
	numbers, places := map[int]bool{}, map[string]bool{}
	several := false
	if j.evidence == nil {
		return nil
	}
	for _, log := range j.evidence.Logs {
		switch n := j.sources[log.Source].name(); {
		case sureRank(n) >= 0:
			ranks[log.Source] = n.Rank
			if node, ok := nodes[n.Rank]; ok && node != n.Node {
				return nil // each machine counts its own
			}
			nodes[n.Rank] = n.Node
		case n.Rank < 0 && n.Local >= 0:
			locals[log.Source] = n.Local
			numbers[n.Local] = true
			place, _, _ := strings.Cut(path.Dir(n.Stem), "attempt_") // what torchrun starts again are the same ranks
			places[place] = true
			several = several || n.Node > 0
		}
	}
	if len(ranks) == 0 && len(places) == 1 && !several && fromZero(numbers) {
		return locals
	}
	return ranks
}

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
