package diff

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
)

// sites pairs the call sites of two recordings whose code may lie in other
// folders and on other lines. Sites of one key are paired in the order of their
// lines, so that all may have moved; keys grow coarser from pass to pass.
func sites(a, b *report.Device) []report.DiffSite {
	operators := a.Stacks == "all" && b.Stacks == "all"
	before, after := prepare(sitesOf(a), operators), prepare(sitesOf(b), operators)
	out := []report.DiffSite{}
	for _, p := range match(before, after) {
		out = append(out, pair(before[p[0]].site, after[p[1]].site))
	}
	out = append(out, older(before, after, report.InAfter)...)
	out = append(out, older(after, before, report.InBefore)...)
	for i := range before {
		if !before[i].taken {
			out = append(out, pair(before[i].site, nil))
		}
	}
	for i := range after {
		if !after[i].taken {
			out = append(out, pair(nil, after[i].site))
		}
	}
	slices.SortStableFunc(out, func(x, y report.DiffSite) int {
		return cmp.Or(-cmp.Compare(size(x.Change()), size(y.Change())), -cmp.Compare(x.AfterBytes, y.AfterBytes),
			cmp.Compare(x.File, y.File),
			cmp.Compare(x.Function, y.Function), cmp.Compare(x.Op, y.Op), compareLines(x.AfterLine, y.AfterLine),
			compareLines(x.BeforeLine, y.BeforeLine))
	})
	return out
}

// match pairs candidates, by their indices.
func match(before, after []candidate) (out [][2]int) {
	for _, key := range []func(*report.Site) string{near, known, anywhere} {
		groups := map[string]*[2][]int{}
		var order []string
		for side, list := range [2][]candidate{before, after} {
			for i := range list {
				if list[i].taken {
					continue
				}
				k := key(list[i].site)
				if groups[k] == nil {
					groups[k] = &[2][]int{}
					order = append(order, k)
				}
				groups[k][side] = append(groups[k][side], i)
			}
		}
		for _, k := range order {
			g := groups[k]
			byLine(before, g[0])
			byLine(after, g[1])
			for _, p := range align(lines(before, g[0]), lines(after, g[1])) {
				i, k := g[0][p[0]], g[1][p[1]]
				before[i].taken, after[k].taken = true, true
				out = append(out, [2]int{i, k})
			}
		}
	}
	return out
}

// Pairs pairs lines of code of two recordings, whose functions may lie in other folders
// and on other lines, by their indices.
func Pairs(before, after []report.Site) [][2]int {
	named := func(s report.Site) bool { return s.Op != "" }
	operators := slices.ContainsFunc(before, named) == slices.ContainsFunc(after, named)
	candidates := func(list []report.Site) []candidate {
		list = slices.Clone(list)
		for i := range list {
			if !operators {
				list[i].Op = ""
			}
		}
		return prepare(list, true)
	}
	return match(candidates(before), candidates(after))
}

// Frames pairs lines of stacks in the same way.
func Frames(before, after *report.Pictures) [][2]int {
	lines := func(p *report.Pictures) (list []report.Site) {
		for i := range p.Frames {
			list = append(list, report.Site{Function: p.Frames[i].Function, File: p.Frames[i].File, Line: &p.Frames[i].Line})
		}
		return list
	}
	return Pairs(lines(before), lines(after))
}

// older pairs memory that one side, in, made before its recording began with the
// sites of the other that no other site is paired with: as many of a category, the
// largest first, as that memory has room for. Which of them it is isn't recorded.
func older(sites, late []candidate, in report.DiffOccurrence) []report.DiffSite {
	var out []report.DiffSite
	for i := range late {
		o := &late[i]
		if o.taken || !o.site.Older {
			continue
		}
		var fit []*candidate
		for k := range sites {
			if c := &sites[k]; !c.taken && !c.site.Older && category(c.site) == category(o.site) {
				fit = append(fit, c)
			}
		}
		slices.SortStableFunc(fit, func(x, y *candidate) int { return -cmp.Compare(x.site.Bytes, y.site.Bytes) })
		left := o.site.Bytes
		fit = slices.DeleteFunc(fit, func(c *candidate) bool {
			if c.site.Bytes > left {
				return true
			}
			left -= c.site.Bytes
			c.taken = true
			return false
		})
		if len(fit) == 0 {
			continue
		}
		o.taken = true
		known, there := *fit[0].site, *fit[0].site
		for _, c := range fit[1:] {
			known.Bytes += c.site.Bytes
			known.Blocks += c.site.Blocks
		}
		there.Bytes, there.Blocks, there.Line = o.site.Bytes, o.site.Blocks, nil
		a, b := &known, &there
		if in == report.InBefore {
			a, b = b, a
		}
		d := pair(a, b)
		d.OlderIn, d.Sites = in, len(fit)
		out = append(out, d)
	}
	return out
}

func size(n int64) int64 { return max(n, -n) }

func compareLines(a, b *int) int { return cmp.Compare(lineOf(a), lineOf(b)) }

func lineOf(line *int) int {
	if line == nil {
		return 0
	}
	return *line
}

type candidate struct {
	site  *report.Site
	taken bool
}

// prepare copies sites; without operators, sites that differ in nothing else
// become one.
func prepare(list []report.Site, operators bool) []candidate {
	out := make([]candidate, 0, len(list))
	type identity struct {
		function, file, category, from, fromFile string
		line, fromLine                           int
		known, older                             bool
	}
	merged := map[identity]int{}
	for i := range list {
		s := list[i]
		if operators {
			out = append(out, candidate{site: &s})
			continue
		}
		if s.Op = ""; s.Function == "" {
			s.Known = false // a stack that named an operator only
		}
		id := identity{function: s.Function, file: s.File, category: category(&s), line: lineOf(s.Line), known: s.Known,
			older: s.Older}
		if s.CalledFrom != nil {
			id.from, id.fromFile, id.fromLine = s.CalledFrom.Function, s.CalledFrom.File, lineOf(s.CalledFrom.Line)
		}
		if k, ok := merged[id]; ok {
			out[k].site.Bytes += s.Bytes
			out[k].site.Blocks += s.Blocks
			continue
		}
		merged[id] = len(out)
		out = append(out, candidate{site: &s})
	}
	return out
}

func category(s *report.Site) string {
	if s.Category == nil {
		return ""
	}
	return *s.Category
}

// near is a key with the file's folder and the caller.
func near(s *report.Site) string { return join(report.ShortFile(s.File), s, caller(s)) }

// known is a key with the file's name and the caller.
func known(s *report.Site) string { return join(base(s.File), s, caller(s)) }

// anywhere is a key with the file's name.
func anywhere(s *report.Site) string { return join(base(s.File), s, "") }

func join(file string, s *report.Site, caller string) string {
	older := ""
	if s.Older {
		older = "older"
	}
	return strings.Join([]string{s.Function, file, s.Op, category(s), older, caller}, "\x00")
}

func caller(s *report.Site) string {
	if s.CalledFrom == nil {
		return ""
	}
	return s.CalledFrom.Function + "\x00" + base(s.CalledFrom.File)
}

// base is a file's name without its folder. Names that are made anew in every
// session or for every version of a piece of code are one name.
func base(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	switch {
	case frames.Notebook(file):
		return "a notebook's cell"
	case frames.Generated(file), strings.Contains(file, "/.triton/"):
		return "compiled code"
	}
	return path.Base(file)
}

func byLine(list []candidate, of []int) {
	slices.SortStableFunc(of, func(x, y int) int { return compareLines(list[x].site.Line, list[y].site.Line) })
}

func lines(list []candidate, of []int) []int {
	out := make([]int, len(of))
	for i, k := range of {
		out[i] = lineOf(list[k].site.Line)
	}
	return out
}

// maxAlign bounds the table of align.
const maxAlign = 1 << 20

// align pairs ascending lines of two versions without crossing: as many pairs
// as the shorter list has, with the least sum of distances.
func align(a, b []int) [][2]int {
	n, m := len(a), len(b)
	var out [][2]int
	if n == m || n*m > maxAlign {
		for i := range min(n, m) {
			out = append(out, [2]int{i, i})
		}
		return out
	}
	if n > m {
		for _, p := range align(b, a) {
			out = append(out, [2]int{p[1], p[0]})
		}
		return out
	}
	// cost[i][j]: the least sum for the first i of a among the first j of b.
	cost := make([][]int, n+1)
	for i := range cost {
		cost[i] = make([]int, m+1)
		for j := range cost[i] {
			switch {
			case i == 0:
			case j < i:
				cost[i][j] = 1 << 60
			default:
				cost[i][j] = min(cost[i][j-1], cost[i-1][j-1]+max(a[i-1]-b[j-1], b[j-1]-a[i-1]))
			}
		}
	}
	for i, j := n, m; i > 0; j-- {
		if j > i && cost[i][j] == cost[i][j-1] {
			continue
		}
		out = append(out, [2]int{i - 1, j - 1})
		i--
	}
	slices.Reverse(out)
	return out
}

// pair is a site in one or both; the later one's names count.
func pair(a, b *report.Site) report.DiffSite {
	s, in := b, report.InBoth
	switch {
	case b == nil:
		s, in = a, report.InBefore
	case a == nil:
		in = report.InAfter
	}
	d := report.DiffSite{Function: s.Function, File: s.File, Op: s.Op, Category: s.Category, In: in, Known: s.Known,
		Older: s.Older, Sites: 1}
	if s.CalledFrom != nil {
		d.CalledFrom = &report.DiffPlace{Function: s.CalledFrom.Function, File: s.CalledFrom.File}
	}
	if a != nil {
		d.BeforeLine, d.BeforeBytes, d.BeforeBlocks = a.Line, a.Bytes, a.Blocks
		if d.CalledFrom != nil && a.CalledFrom != nil {
			d.CalledFrom.BeforeLine = a.CalledFrom.Line
		}
	}
	if b != nil {
		d.AfterLine, d.AfterBytes, d.AfterBlocks = b.Line, b.Bytes, b.Blocks
		if d.CalledFrom != nil && b.CalledFrom != nil {
			d.CalledFrom.AfterLine = b.CalledFrom.Line
		}
	}
	return d
}
