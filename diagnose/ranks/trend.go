package ranks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Trends are what processes with several dumps show, one for each device of
// the latest. place gives a device's index in the document.
func (j *Job) Trends(all []*Process, place map[*Device]int) []report.Trend {
	out := []report.Trend{}
	for _, p := range all {
		if len(p.dumps) < 2 {
			continue
		}
		for _, x := range j.Recorded[p.Main].Devices {
			t := report.Trend{Index: place[x], Device: x.Dev.Device, Rank: p.RankOrNil(), Told: p.told,
				Categories: []report.CategoryExcess{}, Sites: []report.SiteExcess{}}
			j.dumps(&t, p)
			if len(t.Dumps) > 1 {
				out = append(out, t)
			}
		}
	}
	return out
}

// dumps fills a trend with what each dump says of its device.
func (j *Job) dumps(t *report.Trend, p *Process) {
	var rows []*Device
	for k, i := range p.dumps {
		r := j.Recorded[i]
		n := slices.IndexFunc(r.Devices, func(x *Device) bool { return x.Dev.Device == t.Device })
		if n < 0 {
			continue
		}
		d := &r.Devices[n].Dev
		x := report.Dump{Input: r.Source, Events: d.Events, LastTime: d.LastTime, PeakAllocated: d.Peaks.Allocated.Bytes,
			PeakReserved: d.Peaks.Reserved.Bytes,
			AtEnd:        d.AtEnd.AllocatedBytes, Reserved: d.AtEnd.ReservedBytes, Categories: d.AtEnd.Categories,
			OOMs: d.Failed()}
		if k > 0 {
			o, met := j.overlaps[[2]int{p.dumps[k-1], i}]
			before := j.Recorded[p.dumps[k-1]]
			switch {
			case met && o.same:
				x.Shared = new(min(o.shared, d.Events))
			case r.first > 0 && before.last > 0 && r.first > before.last:
				x.Shared = new(0)
			}
			x.NewProcess = r.Complete && !(met && o.same) && r.first > 0
		}
		t.Dumps = append(t.Dumps, x)
		rows = append(rows, r.Devices[n])
	}
	t.Text = j.growth(t, rows)
}

// leastGrowth is what counts as growth from dump to dump, in bytes.
const leastGrowth = 1 << 20

// growth judges what is allocated at the end of each dump. A dump made by a
// failure stands in the middle of a step; the others, as a rule, between two.
// It says nothing where no two can be compared.
func (j *Job) growth(t *report.Trend, rows []*Device) string {
	var comparable []int
	for i := len(t.Dumps) - 1; i >= 0; i-- {
		d := &t.Dumps[i]
		if d.OOMs == 0 || i > 0 && t.Dumps[i-1].OOMs == d.OOMs {
			comparable = append(comparable, i)
		}
		if d.NewProcess {
			break
		}
	}
	slices.Reverse(comparable)
	if len(comparable) < 2 {
		return "" // at most one dump stands between steps
	}
	first, last := comparable[0], comparable[len(comparable)-1]
	var deltas []int64
	for k := range comparable[1:] {
		deltas = append(deltas, t.Dumps[comparable[k+1]].AtEnd-t.Dumps[comparable[k]].AtEnd)
	}
	whole := t.Dumps[last].AtEnd - t.Dumps[first].AtEnd
	t.Categories = categoryExcess(t.Dumps[last].Categories, t.Dumps[first].Categories)
	t.Sites = siteExcess(rows[last].Dev.SitesAtEnd, rows[first].Dev.SitesAtEnd, max(whole, leastGrowth)/20)
	middle := slices.Sorted(slices.Values(deltas))[(len(deltas)-1)/2]
	slowest, fastest := slices.Min(deltas), slices.Max(deltas)
	var text string
	switch {
	case whole < leastGrowth && -whole < leastGrowth:
		return fmt.Sprintf("what is allocated at the end is the same in %s", units.Plural(len(comparable), "dump"))
	case len(deltas) == 1 && whole > 0:
		text = fmt.Sprintf("%s more at the end of the later dump: two can't show whether it goes on", units.Bytes(whole))
	case slowest >= leastGrowth && fastest <= 4*slowest:
		t.Grows = &middle
		text = fmt.Sprintf("grows from dump to dump by %s, %s over %s", units.Bytes(middle), units.Bytes(whole),
			units.Plural(len(comparable), "dump"))
	case whole > 0 && deltas[0] == fastest && slices.Max(deltas[1:]) <= deltas[0]/4:
		text = fmt.Sprintf("%s more after the first dump, %s since", units.Bytes(deltas[0]), plusMinus(whole-deltas[0]))
	case slowest >= leastGrowth:
		t.Grows = &middle
		text = fmt.Sprintf("grows from dump to dump, by %s to %s, %s over %s", units.Bytes(slowest), units.Bytes(fastest),
			units.Bytes(whole), units.Plural(len(comparable), "dump"))
	default:
		return fmt.Sprintf("goes up and down from dump to dump: %s between the first and the last", plusMinus(whole))
	}
	return text + Explained(t.Categories, t.Sites)
}

func plusMinus(n int64) string {
	if n > 0 {
		return "+" + units.Bytes(n)
	}
	return units.Bytes(n)
}

// Explained names the category and the line that a difference is mostly made of.
func Explained(categories []report.CategoryExcess, sites []report.SiteExcess) string {
	if len(categories) == 0 || categories[0].More <= 0 {
		return ""
	}
	text := ": " + strings.ReplaceAll(categories[0].Category, "_", " ") + " " + plusMinus(categories[0].More)
	if len(sites) > 0 && sites[0].Site.Known {
		s := &sites[0].Site
		where := s.Short()
		if s.CalledFrom != nil {
			where = (&report.Site{Function: s.CalledFrom.Function, File: s.CalledFrom.File, Line: s.CalledFrom.Line}).Short()
		}
		text += ", " + plusMinus(sites[0].More) + " at " + where
	}
	return text
}

// categoryExcess lists the categories in which a differs from b, the largest
// surplus first.
func categoryExcess(a, b map[string]int64) []report.CategoryExcess {
	out := []report.CategoryExcess{}
	for _, c := range report.Categories {
		if a[c] != b[c] {
			out = append(out, report.CategoryExcess{Category: c, More: a[c] - b[c], Than: b[c]})
		}
	}
	slices.SortStableFunc(out, func(x, y report.CategoryExcess) int { return -cmp.Compare(x.More, y.More) })
	return out
}

// excessSites is how many call sites a difference names.
const excessSites = 5

// siteExcess lists the call sites that hold more in a than in b, by least at
// least.
func siteExcess(a, b []report.Site, least int64) []report.SiteExcess {
	type key struct{ function, file, op, from string } // no category: it may be told otherwise in another recording
	of := func(s *report.Site) key {
		k := key{s.Function, s.File, s.Op, ""}
		if s.Line != nil {
			k.file += fmt.Sprint(":", *s.Line)
		}
		if s.CalledFrom != nil {
			k.from = s.CalledFrom.Function + s.CalledFrom.File
		}
		return k
	}
	before := map[key]int64{}
	for i := range b {
		before[of(&b[i])] += b[i].Bytes
	}
	out := []report.SiteExcess{}
	for i := range a {
		if more := a[i].Bytes - before[of(&a[i])]; more >= max(least, 1) {
			out = append(out, report.SiteExcess{Site: a[i], More: more})
		}
	}
	slices.SortStableFunc(out, func(x, y report.SiteExcess) int { return -cmp.Compare(x.More, y.More) })
	return out[:min(len(out), excessSites)]
}
