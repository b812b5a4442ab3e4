package diagnose

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/diagnose/ranks"
)

// logRanks are the ranks of logs that are one rank's alone, by source, as their
// names and folders tell. What is only said of a machine, as by torchrun's folders,
// is taken for ranks when it is complete from 0 and there is one machine.
func (j *job) logRanks() map[int]int {
	global, locals := map[int]int{}, map[int]int{}
	nodes := map[int]int{} // by rank
	numbers, places := map[int]bool{}, map[string]bool{}
	several := false
	if j.evidence == nil {
		return nil
	}
	for _, log := range j.evidence.Logs {
		switch n := j.sources[log.Source].name(); {
		case ranks.Sure(n) >= 0:
			global[log.Source] = n.Rank
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
	if len(global) == 0 && len(places) == 1 && !several && ranks.FromZero(numbers) {
		return locals
	}
	return global
}
