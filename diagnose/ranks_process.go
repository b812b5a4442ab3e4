package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/filename"
)

// process is what one process left behind: its dumps, oldest first.
type process struct {
	rank  int // filename.Unknown
	from  string
	dumps []int  // indices into job.recorded
	main  int    // of the dumps, the one that is shown
	told  string // why they are one process's, and in which order
}

// mainDump is the last dump, which as a rule holds what those before it hold; a
// failure that it doesn't hold, as of an attempt before, is worth more.
func (j *job) mainDump(dumps []int) int {
	for _, i := range slices.Backward(dumps) {
		if slices.ContainsFunc(j.recorded[i].devices, func(x *rememberedDevice) bool { return len(x.dev.OOMs) > 0 }) {
			return i
		}
	}
	return dumps[len(dumps)-1]
}

// processes puts recordings together that are of one process: those of one
// rank, and of no known rank those that can be shown to be.
func (j *job) processes() []*process {
	ranks, from := j.tellRanks()
	var out []*process
	byRank := map[int][]int{}
	byStem := map[string][]int{}
	var order []string
	for i, r := range j.recorded {
		if ranks[i] >= 0 {
			byRank[ranks[i]] = append(byRank[ranks[i]], i)
			continue
		}
		if byStem[r.name.Stem] == nil {
			order = append(order, r.name.Stem)
		}
		byStem[r.name.Stem] = append(byStem[r.name.Stem], i)
	}
	for rank, members := range byRank {
		for _, dumps := range j.chains(members, j.sameRank) {
			out = append(out, &process{rank: rank, from: from[dumps[len(dumps)-1]], dumps: dumps, told: "they are of one rank"})
		}
	}
	var loose [][]int
	for _, stem := range order {
		loose = append(loose, j.chains(byStem[stem], j.continues)...)
	}
	for _, dumps := range j.joinShared(loose) {
		out = append(out, &process{rank: filename.Unknown, dumps: dumps, told: j.why(dumps)})
	}
	slices.SortStableFunc(out, func(a, b *process) int { // known ranks first, then as given
		return cmp.Or(cmp.Compare(uint(a.rank), uint(b.rank)), cmp.Compare(a.dumps[0], b.dumps[0]))
	})
	for _, p := range out {
		p.told += ", " + j.orderOf(p.dumps)
		p.main = j.mainDump(p.dumps)
	}
	return out
}

// chains orders recordings by time and cuts the row where one doesn't follow
// the one before.
func (j *job) chains(members []int, follows func(a, b int) bool) [][]int {
	slices.SortStableFunc(members, func(a, b int) int { return j.later(a, b) })
	var out [][]int
	for _, i := range members {
		placed := false
		for k := range out {
			if last := out[k][len(out[k])-1]; follows(last, i) {
				out[k] = append(out[k], i)
				placed = true
				break
			}
		}
		if !placed {
			out = append(out, []int{i})
		}
	}
	return out
}

// later orders by the last event, then by what the names say, then by the
// names themselves. Times of files count for nothing: they change when copied.
func (j *job) later(a, b int) int {
	x, y := j.recorded[a], j.recorded[b]
	byTime := 0
	if x.last > 0 && y.last > 0 {
		byTime = cmp.Compare(x.last, y.last)
	}
	return cmp.Or(byTime, filename.Compare(x.name, y.name), cmp.Compare(x.name.Shape, y.name.Shape),
		slices.Compare(x.name.Numbers, y.name.Numbers), cmp.Compare(a, b))
}

// sameRank: a rank is one process at a time; two that ran at the same time are
// of different jobs, as are two of different names that both begin anew.
func (j *job) sameRank(a, b int) bool {
	x, y := j.recorded[a], j.recorded[b]
	anew := y.complete && y.first > 0 && !j.sameProcess(a, b)
	return !j.apart(a, b) && !(anew && x.name.Stem != y.name.Stem)
}

// continues tells whether a recording without a rank goes on from another of
// the same name but for a number of its dump or a time.
func (j *job) continues(a, b int) bool {
	x, y := j.recorded[a], j.recorded[b]
	switch {
	case j.sameProcess(a, b):
		return true
	case j.apart(a, b), filename.Compare(x.name, y.name) == 0, y.complete:
		return false
	case x.last > 0 && y.first > 0 && x.last > y.first:
		return false
	}
	return survives(x, y)
}

// joinShared joins rows of different names that have events in common.
func (j *job) joinShared(rows [][]int) [][]int {
	for again := true; again; {
		again = false
		for a := range rows {
			for b := a + 1; b < len(rows); b++ {
				if slices.ContainsFunc(rows[a], func(x int) bool {
					return slices.ContainsFunc(rows[b], func(y int) bool { return j.sameProcess(x, y) })
				}) {
					joined := append(rows[a], rows[b]...)
					slices.SortStableFunc(joined, func(x, y int) int { return j.later(x, y) })
					rows[a] = joined
					rows = slices.Delete(rows, b, b+1)
					again = true
					b--
				}
			}
		}
	}
	return rows
}

func (j *job) why(dumps []int) string {
	for i := range dumps[1:] {
		if !j.sameProcess(dumps[i], dumps[i+1]) {
			return "their names differ by the dump's number, and later ones find the memory of earlier ones in use"
		}
	}
	return "they have events in common"
}

// orderOf says by what dumps are ordered.
func (j *job) orderOf(dumps []int) string {
	for _, i := range dumps {
		if j.recorded[i].last == 0 {
			return "in the order that their names say"
		}
	}
	return "in the order of their last events"
}
