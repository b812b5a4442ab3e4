package ranks

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/report"
)

// Process is what one process left behind: its dumps, oldest first.
type Process struct {
	rank  int // filename.Unknown
	from  string
	dumps []int  // indices into Job.Recorded
	Main  int    // of the dumps, the one that is shown
	told  string // why they are one process's, and in which order
}

// mainDump is the last dump with events, which as a rule holds what those before it hold; a
// failure that it doesn't hold, as of an attempt before, is worth more. One of the program's end
// is of when all functions have returned and let go of what they kept: a leak is shown by the last dump before.
func (j *Job) mainDump(dumps []int) int {
	if told := slices.DeleteFunc(slices.Clone(dumps), func(i int) bool { return j.Recorded[i].last == 0 }); len(told) > 0 {
		dumps = told
	}
	for _, i := range slices.Backward(dumps) {
		if j.shows(i, func(d *report.Device) bool { return len(d.OOMs) > 0 }) {
			return i
		}
	}
	last := dumps[len(dumps)-1]
	if j.Recorded[last].Name.Last && !j.shows(last, leaks) {
		for _, i := range slices.Backward(dumps) {
			if j.shows(i, leaks) {
				return i
			}
		}
	}
	return last
}

// shows reports whether a dump shows something on any device.
func (j *Job) shows(dump int, what func(*report.Device) bool) bool {
	return slices.ContainsFunc(j.Recorded[dump].Devices, func(x *Device) bool { return what(&x.Dev) })
}

// leaks reports whether something surely grows from step to step.
func leaks(d *report.Device) bool {
	return slices.ContainsFunc(d.Leaks, func(l report.Leak) bool {
		return l.Defect && !l.Suspected && (l.Kind == "growing_list" || l.Kind == "retained_graph")
	})
}

// Processes puts recordings together that are of one process: those of one
// rank, and of no known rank those that can be shown to be.
func (j *Job) Processes() []*Process {
	ranks, from := j.tellRanks()
	var out []*Process
	byRank := map[int][]int{}
	byStem := map[string][]int{}
	var order []string
	for i, r := range j.Recorded {
		if ranks[i] >= 0 {
			byRank[ranks[i]] = append(byRank[ranks[i]], i)
			continue
		}
		if byStem[r.Name.Stem] == nil {
			order = append(order, r.Name.Stem)
		}
		byStem[r.Name.Stem] = append(byStem[r.Name.Stem], i)
	}
	for rank, members := range byRank {
		for _, dumps := range j.chains(members, j.sameRank) {
			out = append(out, &Process{rank: rank, from: from[dumps[len(dumps)-1]], dumps: dumps, told: "they are of one rank"})
		}
	}
	var loose [][]int
	for _, stem := range order {
		loose = append(loose, j.chains(byStem[stem], j.continues)...)
	}
	for _, dumps := range j.joinShared(loose) {
		out = append(out, &Process{rank: filename.Unknown, dumps: dumps, told: j.why(dumps)})
	}
	slices.SortStableFunc(out, func(a, b *Process) int { // known ranks first, then as given
		return cmp.Or(cmp.Compare(uint(a.rank), uint(b.rank)), cmp.Compare(a.dumps[0], b.dumps[0]))
	})
	for _, p := range out {
		p.told += ", " + j.orderOf(p.dumps)
		p.Main = j.mainDump(p.dumps)
	}
	return out
}

// chains orders recordings by time and cuts the row where one doesn't follow
// the one before.
func (j *Job) chains(members []int, follows func(a, b int) bool) [][]int {
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
func (j *Job) later(a, b int) int {
	x, y := j.Recorded[a], j.Recorded[b]
	byTime := 0
	if x.last > 0 && y.last > 0 {
		byTime = cmp.Compare(x.last, y.last)
	}
	return cmp.Or(byTime, filename.Compare(x.Name, y.Name), cmp.Compare(x.Name.Shape, y.Name.Shape),
		slices.Compare(x.Name.Numbers, y.Name.Numbers), cmp.Compare(a, b))
}

// sameRank: a rank is one process at a time; two that ran at the same time are
// of different jobs, as are two of different names that both begin anew.
func (j *Job) sameRank(a, b int) bool {
	x, y := j.Recorded[a], j.Recorded[b]
	anew := y.Complete && y.first > 0 && !j.sameProcess(a, b)
	return !j.apart(a, b) && !(anew && x.Name.Stem != y.Name.Stem)
}

// continues reports whether a recording without a rank goes on from another of
// the same name but for a number of its dump or a time.
func (j *Job) continues(a, b int) bool {
	x, y := j.Recorded[a], j.Recorded[b]
	switch {
	case j.sameProcess(a, b), sayTheSame(x, y):
		return true
	case j.apart(a, b), filename.Compare(x.Name, y.Name) == 0, y.Complete:
		return false
	case x.last > 0 && y.first > 0 && x.last > y.first:
		return false
	}
	return survives(x, y)
}

// sayTheSame reports whether two names have the same process, where one is of a dump without events: nothing else tells.
func sayTheSame(x, y *Recording) bool {
	return (x.last == 0 || y.last == 0) && x.Name.PID != 0 && x.Name.PID == y.Name.PID
}

// joinShared joins rows of different names that have events in common.
func (j *Job) joinShared(rows [][]int) [][]int {
	for again := true; again; {
		again = false
		for a := range rows {
			for b := a + 1; b < len(rows); b++ {
				if slices.ContainsFunc(rows[a], func(x int) bool {
					return slices.ContainsFunc(rows[b], func(y int) bool {
						return j.sameProcess(x, y) || sayTheSame(j.Recorded[x], j.Recorded[y])
					})
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

func (j *Job) why(dumps []int) string {
	for i := range dumps[1:] {
		if !j.sameProcess(dumps[i], dumps[i+1]) {
			return "their names differ by the dump's number, and later ones find the memory of earlier ones in use"
		}
	}
	return "they have events in common"
}

// orderOf says by what dumps are ordered.
func (j *Job) orderOf(dumps []int) string {
	for _, i := range dumps {
		if j.Recorded[i].last == 0 {
			return "in the order that their names say"
		}
	}
	return "in the order of their last events"
}
