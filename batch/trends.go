package batch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/report"
)

const (
	// window is how many runs before a run must have taken less for it to count
	// as grown: experiments often alternate between a few settings.
	window = 5
	// growth is by how much, as a share and at least in bytes.
	growth      = 0.05
	growthBytes = 1 << 20
)

// grown finds the last time that an experiment's peak grew, in the order of the
// recordings' own clocks. Runs without a clock are not in any order.
func grown(name string, points []point) (report.Regression, bool) {
	timed := slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.time == 0 || !p.usable })
	g := report.Regression{Experiment: name}
	found := false
	for i := 1; i < len(timed); i++ {
		before := slices.MaxFunc(timed[max(0, i-window):i], func(a, b point) int { return cmp.Compare(a.allocated, b.allocated) })
		now := timed[i]
		failed := now.oom && !slices.ContainsFunc(timed[max(0, i-window):i], func(p point) bool { return p.oom })
		if least := before.allocated + max(growthBytes, int64(growth*float64(before.allocated))); now.allocated >= least {
			g.Before, g.After, g.OOM, g.Since = before.allocated, now.allocated, failed, &timed[i].time
			g.Last, g.First, found = timed[i-1].link, now.link, true
		}
	}
	for _, p := range timed {
		g.Peaks, g.Now = append(g.Peaks, p.reached), p.reached
		g.Still = float64(p.allocated) > (1+growth)*float64(g.Before)
	}
	return g, found
}

// leakTrend is how the leaks of an experiment went; false when no run leaks.
func leakTrend(name string, points []point) (report.LeakTrend, bool) {
	l := report.LeakTrend{Experiment: name}
	where := map[[2]string]int{} // by kind and line
	for i := range points {
		p := &points[i]
		if p.link.Name == "" {
			continue // couldn't be read
		}
		l.Rates = append(l.Rates, p.leak)
		if l.Still = p.leak > 0; !l.Still {
			l.Since = nil
			continue
		}
		l.Leaking++
		l.Latest, l.Kind, l.Link = p.leak, p.kind, p.link
		if l.Leaking == 1 || l.Since == nil {
			l.Since = known(p.time)
		}
		where[[2]string{p.kind, p.where}]++
	}
	lines := map[string]int{}
	for key, n := range where {
		if key[0] == l.Kind && key[1] != "" {
			lines[key[1]] += n
		}
	}
	l.Where, _ = most(lines)
	return l, l.Leaking > 0
}

// known is a time, nil for 0.
func known(time int64) *int64 {
	if time == 0 {
		return nil
	}
	return &time
}

// most is the word that occurs most often, the first of equals, and how often.
func most(counts map[string]int) (word string, n int) {
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		if counts[w] > n {
			word, n = w, counts[w]
		}
	}
	return word, n
}

// lineOf names the line that keeps what leaks.
func lineOf(l *report.Leak) string {
	s := report.Site{Known: true, Line: l.Line}
	if l.Function != nil {
		s.Function = *l.Function
	}
	if l.File != nil {
		s.File = *l.File
	}
	if s.Function == "" && s.File == "" {
		return ""
	}
	return s.Short()
}
