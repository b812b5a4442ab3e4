package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// ranks is the table of a job's processes.
func (s *sheet) ranks() {
	r := s.doc.Ranks
	if r == nil {
		return
	}
	t := Table{Wrap: true, Columns: []Column{{Name: map[bool]string{true: "Ranks", false: "Recording"}[r.Sure]},
		figureColumn("Device", 6), figureColumn("Peak allocated", 14), figureColumn("Peak reserved", 14),
		figureColumn("Capacity", 12), {Name: "Verdict", Gap: 1}}}
	rest := 0
	for k := range r.Groups {
		g := &r.Groups[k]
		if k >= s.groups {
			rest += len(g.Rows)
			continue
		}
		row := &r.Rows[g.Shown]
		var label any = fit(ranksLabel(s.doc, g), 40)
		if !r.Sure {
			label = Code(ranksLabel(s.doc, g))
		}
		x := t.add(label, ranksDevice(r, g), units.Bytes(row.PeakAllocated), units.Bytes(row.PeakReserved), or(row.Capacity,
			"unknown"), row.Verdict)
		if place := slices.Index(r.Shown, row.Index); s.page && place >= 0 {
			x.Device = strconv.Itoa(place)
		}
	}
	p := Part{Heading: RanksTitle(r), Level: 3, Table: t, Rest: more(rest, "row")}
	if rest > 0 {
		p.Rest += ", less full"
	}
	s.add(p)
	sentences := ranksSentences(r)
	if s.brief {
		sentences = sentences[:min(len(sentences), 2)]
	}
	s.add(Part{Text: sentences, List: true})
}

// deviceList is a table of devices, where there are others than one; -1: than none.
func (s *sheet) deviceList(shown []int, but int) {
	t := Table{Columns: slices.Concat(words("Device"), numbers("Peak allocated", "Peak reserved", "At the end", "Capacity",
		"Events", "Findings"))}
	for place, i := range shown {
		if d := &s.doc.Devices[i]; i != but {
			t.add(deviceTitle(s.doc, i), units.Bytes(d.Peaks.Allocated.Bytes), units.Bytes(d.Peaks.Reserved.Bytes),
				units.Bytes(d.AtEnd.AllocatedBytes), or(d.CapacityBytes, "unknown"), units.Count(d.Events),
				units.Count(len(d.Findings)))
			if s.page {
				t.Rows[len(t.Rows)-1].Device = strconv.Itoa(place)
			}
		}
	}
	if s.doc.Ranks == nil && len(shown) > 1 {
		s.table("OTHER DEVICES", 4, t, "")
	}
}

// RanksTitle says how many processes there are and how their ranks are known.
func RanksTitle(r *report.Ranks) string {
	if !r.Sure {
		if slices.ContainsFunc(r.Rows, func(x report.Rank) bool { return x.Rank != nil }) {
			return units.Plural(r.Count, "recording") + " that are not the ranks of one job"
		}
		return units.Plural(r.Count, "recording") + ", each of a process by itself: neither names nor contents tell ranks. " +
			"Runs of their own are for vramscope batch"
	}
	return units.Plural(r.Count, "rank") + " of one job, told " + r.Told + given(", of %d", r.World)
}

// ranksLabel names the ranks of a group.
func ranksLabel(doc *report.Document, g *report.Like) string {
	r := doc.Ranks
	var numbers []int
	for _, i := range g.Rows {
		if n := r.Rows[i].Rank; n != nil {
			numbers = append(numbers, *n)
		}
	}
	if r.Sure && len(numbers) == len(g.Rows) {
		return report.Spans(numbers)
	}
	return Printable(name(doc, r.Rows[g.Shown].Input))
}

// ranksDevice is the device of all rows of a group, "own" when it differs.
func ranksDevice(r *report.Ranks, g *report.Like) string {
	device := r.Rows[g.Rows[0]].Device
	if slices.ContainsFunc(g.Rows, func(i int) bool { return r.Rows[i].Device != device }) {
		return "own"
	}
	return fmt.Sprint(device)
}

// ranksSentences are what the table shows, in words.
func ranksSentences(r *report.Ranks) []string {
	out := slices.Clone(r.Notes)
	if len(r.Missing) > 0 {
		out = append(out, fmt.Sprintf("no recording of %s %s", noun(len(r.Missing), "rank"), fit(report.Spans(r.Missing), 60)))
	}
	if f := r.FirstOOM; f != nil && f.Failed > 1 {
		next := "the next one at the same microsecond"
		if f.NextUS > 0 {
			next = "the next one " + (time.Duration(f.NextUS) * time.Microsecond).String() + " later"
		}
		out = append(out, fmt.Sprintf("%s ran out of memory first of %d, %s", RankName(r, f.Row), f.Failed, next))
	}
	m := r.Imbalance
	if m == nil {
		return out
	}
	if m.Bytes > 0 {
		var parts []string
		for _, c := range m.Categories {
			if 10*units.Abs(c.More) >= m.Bytes && len(parts) < 4 {
				parts = append(parts, Plain(c.Category)+" "+units.Signed(c.More))
			}
		}
		s := fmt.Sprintf("%s holds %s more at its peak than %s, which is in the middle%s", RankName(r, m.Highest),
			units.Bytes(m.Bytes), RankName(r, m.Usual), when(parts != nil, ": "+list(parts...)))
		if len(m.Sites) > 0 {
			s += fmt.Sprintf("; %s at %s", units.Signed(m.Sites[0].More), m.Sites[0].Site.Short())
		}
		out = append(out, s)
	}
	for _, x := range m.Elsewhere {
		out = append(out, fmt.Sprintf("%s %s also hold %s on device %d, which is rank %d's", noun(len(x.Ranks), "rank"),
			report.Spans(x.Ranks), units.Bytes(x.Bytes), x.Device, x.Owner))
	}
	return out
}

func noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// RankName names the process of a row.
func RankName(r *report.Ranks, row int) string {
	return cmp.Or(given("rank %d", r.Rows[row].Rank), "one process")
}

// shownTrends are the first trends, at most so many, of devices that are worth
// showing in full.
func shownTrends(doc *report.Document, most int) (out []*report.Trend) {
	for i := range doc.Trend {
		x := &doc.Trend[i]
		if len(out) < most && (doc.Ranks == nil || slices.Contains(doc.Ranks.Shown, x.Index)) {
			out = append(out, x)
		}
	}
	return out
}

// mostDevices are shown in full: no machine has more GPUs, but a file may say so.
const mostDevices = 64

// Shown are the devices that are worth showing in full, the worst first where
// there are ranks. Of very many without ranks they are those that failed and the fullest.
func Shown(doc *report.Document) []int { return shownOf(doc, mostDevices) }

func shownOf(doc *report.Document, most int) []int {
	if doc.Ranks != nil {
		return doc.Ranks.Shown
	}
	every := make([]int, len(doc.Devices))
	for i := range every {
		every[i] = i
	}
	if len(every) <= most {
		return every
	}
	slices.SortStableFunc(every, func(a, b int) int {
		x, y := &doc.Devices[a], &doc.Devices[b]
		return cmp.Or(cmp.Compare(min(1, y.Failed()), min(1, x.Failed())), cmp.Compare(y.Peaks.Allocated.Bytes,
			x.Peaks.Allocated.Bytes))
	})
	shown := every[:most]
	if about := doc.Verdict.About; about != nil && about.Device >= 0 && !slices.Contains(shown, about.Device) {
		shown[most-1] = about.Device
	}
	slices.Sort(shown)
	return shown
}

// MoreDevices says how many devices are not shown in full, "" for none.
func MoreDevices(doc *report.Document, shown int) string {
	if doc.Ranks != nil {
		return ""
	}
	return more(len(doc.Devices)-shown, "device")
}

// deviceTitle names a device, and in a job of several processes whose it is.
func deviceTitle(doc *report.Document, index int) string {
	d := &doc.Devices[index]
	title := fmt.Sprintf("Device %d", d.Device)
	r := doc.Ranks
	switch {
	case r == nil:
		return title
	case d.Rank == nil || !r.Sure:
		return title + " in " + Printable(name(doc, d.Input))
	}
	title += fmt.Sprintf(" of rank %d", *d.Rank)
	for k := range r.Groups {
		if g := &r.Groups[k]; r.Rows[g.Shown].Index == index && len(g.Rows) > 1 {
			title += ", standing for ranks " + fit(ranksLabel(doc, g), 40)
		}
	}
	return title
}

// trends are what several dumps of one process show.
func (s *sheet) trends() {
	shown := shownTrends(s.doc, s.trim.trends)
	for _, x := range shown {
		t := Table{Columns: []Column{{Name: "Dump"}, figureColumn("Events", 9), figureColumn("Peak allocated", 14),
			figureColumn("At the end", 14), figureColumn("Reserved", 14), {Gap: 1}}}
		from := max(0, len(x.Dumps)-s.dumps)
		if from > 0 {
			t.add(units.Plural(from, "dump") + " before these")
		}
		for k := range x.Dumps[from:] {
			d := &x.Dumps[from+k]
			t.add(Code(name(s.doc, d.Input)), units.Count(d.Events), units.Bytes(d.PeakAllocated), units.Bytes(d.AtEnd),
				units.Bytes(d.Reserved), dumpWords(d))
		}
		s.add(Part{Heading: trendTitle(x), Level: 3, Table: t})
		if x.Text != "" {
			s.add(Part{Text: []string{x.Text}})
		}
	}
	if rest := len(s.doc.Trend) - len(shown); rest > 0 && len(shown) > 0 {
		s.add(Part{Rest: "and " + units.Plural(rest, "trend") + " of other processes, alike or less full"})
	}
}

// trendTitle says whose dumps they are.
func trendTitle(x *report.Trend) string {
	return fmt.Sprintf("%s of %sdevice %d: %s", units.Plural(len(x.Dumps), "dump"), given("rank %d, ", x.Rank), x.Device, x.Told)
}

// dumpWords are what is worth saying of a dump besides its figures.
func dumpWords(d *report.Dump) string {
	shared := evidence.Or(d.Shared, 0)
	return list(when(d.OOMs > 0, "out of memory"), when(d.NewProcess, "a new process"), when(shared > 0,
		units.Plural(shared, "event")+" seen before"))
}
