package html

import "github.com/vramscope/vramscope/report/view"

// mostRankBars is how many ranks a page has bars of.
const mostRankBars = 1024

// barView is one rank's peak, as a share of the highest in percent.
type barView struct {
	Label string
	Bytes int64
	Share float64
	Worst bool
}

// RankBars are the peaks of a job's ranks.
func (v *page) RankBars() (out []barView) {
	r := v.Ranks
	if !r.Sure || len(r.Rows) > mostRankBars {
		return nil
	}
	var most int64 = 1
	for i := range r.Rows {
		most = max(most, r.Rows[i].PeakAllocated)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		out = append(out, barView{view.RankName(r, i), row.PeakAllocated, 100 * float64(row.PeakAllocated) / float64(most),
			row.Group == 0 && len(r.Groups) > 1})
	}
	return out
}
