package ranks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// From which difference on ranks are out of balance: a share of the fullest
// one's peak in percent, and bytes.
const (
	unevenNoted   = 2
	UnevenInfo    = 5
	unevenWarning = 10
	UnevenBytes   = 64 << 20
)

// imbalance compares the fullest rank with the usual one.
func (j *Job) imbalance(r *report.Ranks, all []*Process) {
	if !r.Sure {
		return
	}
	rows := fullestRows(r)
	if len(rows) < 2 {
		return
	}
	byPeak := slices.Clone(rows)
	slices.SortStableFunc(byPeak, func(a, b int) int { return cmp.Compare(r.Rows[a].PeakAllocated, r.Rows[b].PeakAllocated) })
	highest, usual := byPeak[len(byPeak)-1], byPeak[(len(byPeak)-1)/2]
	m := &report.Imbalance{Highest: highest, Usual: usual, Bytes: r.Rows[highest].PeakAllocated - r.Rows[usual].PeakAllocated,
		Categories: []report.CategoryExcess{}, Sites: []report.SiteExcess{}, Elsewhere: elsewhere(r, rows)}
	uneven := m.Bytes >= UnevenBytes && 100*m.Bytes >= unevenNoted*r.Rows[highest].PeakAllocated
	if !uneven && len(m.Elsewhere) == 0 {
		return
	}
	devices := j.rowDevices(all)
	a, b := &devices[highest].Dev, &devices[usual].Dev
	m.Categories = categoryExcess(a.AtPeak.Categories, b.AtPeak.Categories)
	m.Sites = siteExcess(a.Sites, b.Sites, max(m.Bytes/20, 1<<20))
	r.Imbalance = m
}

// fullestRows has the row of each rank's fullest device; a process's rows lie
// together.
func fullestRows(r *report.Ranks) []int {
	var out []int
	for i := range r.Rows {
		switch n := len(out); {
		case r.Rows[i].Rank == nil:
		case n == 0 || r.Rows[out[n-1]].Input != r.Rows[i].Input:
			out = append(out, i)
		case r.Rows[i].PeakAllocated > r.Rows[out[n-1]].PeakAllocated:
			out[n-1] = i
		}
	}
	return out
}

// elsewhere finds memory of ranks on the GPU of another one. That can only be
// told where each rank has a device number of its own.
func elsewhere(r *report.Ranks, rows []int) []report.Elsewhere {
	out := []report.Elsewhere{}
	owner := map[int]int{} // by device, a row
	for _, i := range rows {
		if _, taken := owner[r.Rows[i].Device]; taken {
			return out
		}
		owner[r.Rows[i].Device] = i
	}
	place := map[int]int{}
	for i := range r.Rows {
		row := &r.Rows[i]
		of, ok := owner[row.Device]
		if !ok || of == i || row.Rank == nil || r.Rows[of].Input == row.Input || row.PeakReserved == 0 {
			continue
		}
		k, ok := place[row.Device]
		if !ok {
			k = len(out)
			place[row.Device] = k
			out = append(out, report.Elsewhere{Device: row.Device, Owner: *r.Rows[of].Rank, Ranks: []int{}})
		}
		out[k].Ranks = append(out[k].Ranks, *row.Rank)
		out[k].Bytes += row.PeakReserved
	}
	return out
}

// ImbalanceFindings are about the fullest rank's device, and about GPUs that
// several ranks use.
func ImbalanceFindings(r *report.Ranks, devices []report.Device) {
	m := r.Imbalance
	if m == nil {
		return
	}
	high, elsewhere := r.Rows[m.Highest], advice.Find("rank_imbalance.elsewhere")
	if share := facts.Share(m.Bytes, high.PeakAllocated); m.Bytes >= UnevenBytes && share >= UnevenInfo {
		addFinding(&devices[high.Index], unevenFinding(r, devices, share))
	}
	for _, x := range m.Elsewhere {
		for i := range r.Rows {
			if row := &r.Rows[i]; row.Rank != nil && *row.Rank == x.Owner && row.Device == x.Device {
				addFinding(&devices[row.Index], report.Finding{ID: "rank_imbalance", Severity: report.Warning, Confidence: 0.95,
					SavesBytes: new(x.Bytes),
					Title: fmt.Sprintf("Other ranks hold %s on device %d, which is rank %d's; each has a CUDA context "+
						"there besides", units.Bytes(x.Bytes), x.Device, x.Owner),
					Evidence: []string{"ranks " + report.Spans(x.Ranks)},
					Fix:      &elsewhere.Text, Code: elsewhere.Code})
			}
		}
	}
}

// unevenFinding is about the fullest rank, which holds a share of its peak, in percent,
// more than the usual one.
func unevenFinding(r *report.Ranks, devices []report.Device, share int64) report.Finding {
	m := r.Imbalance
	high, usual := &r.Rows[m.Highest], &r.Rows[m.Usual]
	f := report.Finding{ID: "rank_imbalance", Severity: report.Info, Confidence: 0.9, SavesBytes: &m.Bytes,
		Title: fmt.Sprintf("Rank %d holds %s more at its peak than is usual among %s (%d %%)", *high.Rank,
			units.Bytes(m.Bytes), units.Plural(r.Count, "rank"), share),
		Evidence: []string{fmt.Sprintf("rank %d: %s allocated at the peak; rank %d, in the middle: %s", *high.Rank,
			units.Bytes(high.PeakAllocated), *usual.Rank, units.Bytes(usual.PeakAllocated))}}
	if share >= unevenWarning {
		f.Severity = report.Warning
	}
	for _, c := range m.Categories[:min(3, len(m.Categories))] {
		if 10*c.More >= m.Bytes {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s more than %s", report.CategoryTitle(c.Category),
				units.Bytes(c.More), units.Bytes(c.Than)))
		}
	}
	for i := range m.Sites[:min(2, len(m.Sites))] {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s more by %s", units.Bytes(m.Sites[i].More), m.Sites[i].Site.Short()))
	}
	if !sameTime(&devices[high.Index], &devices[usual.Index]) {
		f.Confidence = 0.5
		f.Evidence = append(f.Evidence, "the two recordings don't cover the same time, so one may have missed its fullest "+
			"moment")
	}
	f.Fix = advice.Text("balance.")
	if len(m.Categories) > 0 {
		if a := advice.Find("balance." + m.Categories[0].Category); a.Text != "" {
			f.Fix = &a.Text
		}
	}
	return f
}

// sameTime reports whether two recordings lie in the same time, for the larger
// part of the shorter one; recordings without a clock do.
func sameTime(a, b *report.Device) bool {
	if a.FirstTime == nil || b.FirstTime == nil || a.LastTime == nil || b.LastTime == nil {
		return a.History == b.History
	}
	both := min(*a.LastTime, *b.LastTime) - max(*a.FirstTime, *b.FirstTime)
	return 2*both >= min(*a.LastTime-*a.FirstTime, *b.LastTime-*b.FirstTime)
}

// addFinding puts a finding where its severity belongs.
func addFinding(d *report.Device, f report.Finding) {
	at := slices.IndexFunc(d.Findings, func(x report.Finding) bool {
		return x.Severity.Place() > f.Severity.Place()
	})
	if at < 0 {
		at = len(d.Findings)
	}
	d.Findings = slices.Insert(d.Findings, at, f)
}
