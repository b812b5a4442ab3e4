package logs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
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

// From which difference on a log's ranks are out of balance: a share of the fullest one's most, and bytes.
const (
	unevenShare = 10
	unevenBytes = 512 << 20
)

// uneven names the rank that held more than the others of its log.
func (w *witness) uneven(source int, list []evidence.Worker) {
	if len(list) < 2 {
		return
	}
	byMost := slices.SortedStableFunc(slices.Values(list), func(a, b evidence.Worker) int {
		return cmp.Compare(a.MaxBytes, b.MaxBytes)
	})
	most, next := byMost[len(byMost)-1], byMost[len(byMost)-2]
	usual := byMost[(len(byMost)-1)/2]
	if more := most.MaxBytes - usual.MaxBytes; more < unevenBytes || 100*more < unevenShare*most.MaxBytes {
		return
	}
	others := units.Bytes(next.MaxBytes)
	if least := units.Bytes(byMost[0].MaxBytes); least != others {
		others = least + " to " + others
	}
	w.add(report.Finding{ID: "rank_imbalance", Severity: report.Warning, Confidence: 0.8,
		Title: fmt.Sprintf("%s held most, %s; the other %s held %s", strings.ToUpper(most.Name[:1])+most.Name[1:],
			units.Bytes(most.MaxBytes), units.Count(len(list)-1), others),
		Evidence: []string{w.name(source) + ": the most that the lines of each say, of " + units.Count(len(list))},
		Fix:      advice.Text("log.rank_imbalance")})
}
