package html

import (
	"slices"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// Most rows that the page lists of ranks, bars, trends and dumps.
const (
	htmlGroups = 64
	htmlBars   = 1024
	htmlTrends = 16
	htmlDumps  = 64
)

// ranksView is the section about a job's processes.
type ranksView struct {
	*report.Ranks
	Title     string
	Column    string
	Table     []groupView
	More      int // groups that are not listed
	Bars      []barView
	Sentences []string
}

// groupView is a row of the table.
type groupView struct {
	*report.Rank
	Label, Devices string
	Place          int // of its device in the page, -1: not shown in full
}

// barView is one rank's peak, as a share of the highest in percent.
type barView struct {
	Label string
	Bytes int64
	Share float64
	Worst bool
}

// trendView is what the dumps of one process show.
type trendView struct {
	*report.Trend
	Title   string
	Rows    []dumpView
	Earlier int
}

// dumpView is a row of its table.
type dumpView struct {
	*report.Dump
	Path, Words string
}

func newRanksView(doc *report.Document) *ranksView {
	r := doc.Ranks
	if r == nil {
		return nil
	}
	v := &ranksView{Ranks: r, Title: view.RanksTitle(r), Column: view.RanksColumn(r),
		Sentences: view.RanksSentences(r)}
	for k := range r.Groups[:min(len(r.Groups), htmlGroups)] {
		g := &r.Groups[k]
		v.Table = append(v.Table, groupView{Rank: &r.Rows[g.Shown], Label: view.RanksLabel(doc, g), Devices: view.RanksDevice(r,
			g),
			Place: slices.Index(r.Shown, r.Rows[g.Shown].Index)})
	}
	v.More = len(r.Groups) - len(v.Table)
	if !r.Sure || len(r.Rows) > htmlBars {
		return v
	}
	var most int64 = 1
	for i := range r.Rows {
		most = max(most, r.Rows[i].PeakAllocated)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		v.Bars = append(v.Bars, barView{view.RankName(r, i), row.PeakAllocated, 100 * float64(row.PeakAllocated) / float64(most),
			row.Group == 0 && len(r.Groups) > 1})
	}
	return v
}

func newTrendViews(doc *report.Document) (out []trendView) {
	for _, x := range view.ShownTrends(doc, htmlTrends) {
		v := trendView{Trend: x, Title: view.TrendTitle(x), Earlier: max(0, len(x.Dumps)-htmlDumps)}
		for k := v.Earlier; k < len(x.Dumps); k++ {
			d := &x.Dumps[k]
			v.Rows = append(v.Rows, dumpView{d, doc.Inputs[d.Input].Path, view.DumpWords(d)})
		}
		out = append(out, v)
	}
	return out
}
