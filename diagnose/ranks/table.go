package ranks

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// ranksShown is how many ranks of a job are shown in full.
const ranksShown = 3

// Table puts the processes of a job beside each other; nil for one process. place
// gives a device's index in the document; failed are the names of files that can't
// be read.
func (j *Job) Table(all []*Process, place map[*Device]int, failed []filename.Name) *report.Ranks {
	if len(all) < 2 {
		return nil
	}
	r := &report.Ranks{Missing: []int{}, Rows: []report.Rank{}, Groups: []report.Like{}, Notes: []string{}, Shown: []int{}}
	var told, others []string
	var twice []int
	seen := map[int]bool{}
	for _, p := range all {
		switch {
		case p.rank < 0:
			others = append(others, path.Base(filepath.ToSlash(j.Recorded[p.Main].Path)))
		case seen[p.rank]:
			twice = append(twice, p.rank)
		default:
			seen[p.rank] = true
			if how := toldBy[p.from]; !slices.Contains(told, how) {
				told = append(told, how)
			}
		}
		for _, x := range j.Recorded[p.Main].Devices {
			r.Rows = append(r.Rows, j.row(p, x, place[x]))
		}
	}
	r.Sure = len(seen) > 1 && len(twice) == 0
	if r.Count = len(all); r.Sure {
		r.Count, r.Told = len(seen), strings.Join(told, "; ")
		j.missing(r, all, seen, failed)
		if len(others) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s of no known rank: %s", units.Plural(len(others), "recording"),
				listed(others)))
		}
	}
	if len(twice) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("of rank %s there is more than one process: the files are of several jobs, "+
			"which can't be put beside each other; give those of one", report.Spans(twice)))
	}
	group(r, j.rowDevices(all))
	if r.Sure {
		r.FirstOOM = firstOOM(r)
	}
	j.imbalance(r, all)
	r.Shown = shown(r)
	return r
}

func (j *Job) row(p *Process, x *Device, index int) report.Rank {
	d := &x.Dev
	row := report.Rank{Rank: p.RankOrNil(), RankFrom: p.from, Input: d.Input, Index: index, Device: d.Device,
		PeakAllocated: d.Peaks.Allocated.Bytes,
		PeakReserved:  d.Peaks.Reserved.Bytes, AtEnd: d.AtEnd.AllocatedBytes, Capacity: d.CapacityBytes, Dumps: len(p.dumps),
		Verdict: inAWord(d), Failed: len(d.OOMs) > 0}
	if x.firstFailed > 0 {
		row.OOMTime = &x.firstFailed
	}
	return row
}

// RankOrNil is the process's rank for a report.
func (p *Process) RankOrNil() *int {
	if p.rank < 0 {
		return nil
	}
	return &p.rank
}

// inAWord is a device's verdict for a table.
func inAWord(d *report.Device) string {
	if n := len(d.OOMs); n > 0 {
		if v := d.OOMs[n-1].Verdict; v != report.UnknownVerdict {
			return "out of memory: " + strings.ReplaceAll(v, "_", " ")
		}
		return "out of memory"
	}
	for _, l := range d.Leaks {
		if l.Defect && !l.Suspected {
			return "leak: " + strings.ReplaceAll(l.Kind, "_", " ")
		}
	}
	for _, f := range d.Findings {
		if f.Severity != report.Info {
			return strings.ReplaceAll(f.ID, "_", " ")
		}
	}
	return "fine"
}

// rowDevices are the devices of the table's rows.
func (j *Job) rowDevices(all []*Process) []*Device {
	var out []*Device
	for _, p := range all {
		out = append(out, j.Recorded[p.Main].Devices...)
	}
	return out
}

// othersListed is how many files of no known rank are named.
const othersListed = 5

func listed(names []string) string {
	if len(names) > othersListed {
		return strings.Join(names[:othersListed], ", ") + fmt.Sprintf(" and %d more", len(names)-othersListed)
	}
	return strings.Join(names, ", ")
}

// missingListed bounds the list of missing ranks.
const missingListed = 4096

func (j *Job) missing(r *report.Ranks, all []*Process, seen map[int]bool, failed []filename.Name) {
	world, last := 0, 0
	for rank := range seen {
		last = max(last, rank)
	}
	for _, p := range all {
		for _, i := range p.dumps {
			world = max(world, j.Recorded[i].Name.World)
		}
	}
	for _, n := range failed {
		last = max(last, Sure(n))
	}
	if world > last {
		r.World = &world
		last = world - 1
	}
	for n := 0; n <= last && len(r.Missing) < missingListed; n++ {
		if !seen[n] {
			r.Missing = append(r.Missing, n)
		}
	}
}

// group puts rows together that are alike. Of processes whose ranks are not
// known each stands for itself: they may have nothing to do with each other.
func group(r *report.Ranks, devices []*Device) {
	for i := range r.Rows {
		placed := false
		for k := range r.Groups {
			if g := &r.Groups[k]; r.Sure && r.Rows[i].Rank != nil && r.Rows[g.Rows[0]].Rank != nil &&
				alike(&devices[g.Rows[0]].Dev, &devices[i].Dev, r.Rows[g.Rows[0]].Verdict == r.Rows[i].Verdict) {
				g.Rows = append(g.Rows, i)
				placed = true
				break
			}
		}
		if !placed {
			r.Groups = append(r.Groups, report.Like{Rows: []int{i}})
		}
	}
	for k := range r.Groups {
		g := &r.Groups[k]
		g.Shown = slices.MinFunc(g.Rows, func(a, b int) int { return Worse(r, a, b) })
	}
	slices.SortStableFunc(r.Groups, func(a, b report.Like) int { return Worse(r, a.Shown, b.Shown) })
	for k := range r.Groups {
		for _, i := range r.Groups[k].Rows {
			r.Rows[i].Group = k
		}
	}
}

// Worse orders rows: the first that failed, then the fullest.
func Worse(r *report.Ranks, a, b int) int {
	x, y := &r.Rows[a], &r.Rows[b]
	failed := func(row *report.Rank) int {
		if row.Failed {
			return 0
		}
		return 1
	}
	byTime := 0
	if r.Sure && x.OOMTime != nil && y.OOMTime != nil {
		byTime = cmp.Compare(*x.OOMTime, *y.OOMTime)
	}
	return cmp.Or(cmp.Compare(failed(x), failed(y)), byTime, -cmp.Compare(x.PeakAllocated, y.PeakAllocated), cmp.Compare(a, b))
}

// What two ranks may differ by and still be alike: a hundredth of the peak,
// but at least so many bytes.
const (
	alikeShare = 100
	alikeBytes = 4 << 20
)

func alike(a, b *report.Device, verdicts bool) bool {
	room := max(a.Peaks.Allocated.Bytes/alikeShare, alikeBytes)
	near := func(x, y int64) bool { return max(x-y, y-x) <= room }
	if !verdicts || a.History != b.History || !near(a.Peaks.Allocated.Bytes, b.Peaks.Allocated.Bytes) ||
		!near(a.Peaks.Reserved.Bytes, b.Peaks.Reserved.Bytes) {
		return false
	}
	for _, c := range report.Categories {
		if !near(a.AtPeak.Categories[c], b.AtPeak.Categories[c]) {
			return false
		}
	}
	return true
}

// firstOOM is who failed first, when that can be told.
func firstOOM(r *report.Ranks) *report.FirstOOM {
	var failed []int
	for i := range r.Rows {
		if r.Rows[i].OOMTime != nil && r.Rows[i].Rank != nil {
			failed = append(failed, i)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	slices.SortStableFunc(failed, func(a, b int) int { return cmp.Compare(*r.Rows[a].OOMTime, *r.Rows[b].OOMTime) })
	first := &report.FirstOOM{Row: failed[0], TimeUS: *r.Rows[failed[0]].OOMTime, Failed: len(failed)}
	if len(failed) > 1 {
		first.NextUS = *r.Rows[failed[1]].OOMTime - first.TimeUS
	}
	return first
}

// shown are the devices that a report shows in full: the worst, the fullest,
// the usual one; without known ranks all, where they are few.
func shown(r *report.Ranks) []int {
	var out []int
	add := func(row int) {
		if i := r.Rows[row].Index; !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	if !r.Sure {
		if len(r.Rows) <= Few {
			for i := range r.Rows {
				add(i)
			}
			return out
		}
		for k := range r.Groups[:ranksShown] {
			add(r.Groups[k].Shown)
		}
		return out
	}
	for k := range r.Groups[:min(1, len(r.Groups))] {
		add(r.Groups[k].Shown)
	}
	if m := r.Imbalance; m != nil {
		add(r.Groups[r.Rows[m.Highest].Group].Shown)
		add(r.Groups[r.Rows[m.Usual].Group].Shown)
	}
	for k := range r.Groups { // what else there is, one of each kind
		row := &r.Rows[r.Groups[k].Shown]
		if len(out) < ranksShown && !slices.ContainsFunc(r.Rows, func(x report.Rank) bool {
			return x.Verdict == row.Verdict &&
				slices.Contains(out, x.Index)
		}) {
			add(r.Groups[k].Shown)
		}
	}
	return out
}
