package facts

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// SiteKey tells call sites apart.
type SiteKey struct {
	Site     frames.Site
	Known    bool
	Older    bool // than the recording
	Category classify.Category
}

// Tally sums up blocks.
type Tally struct {
	Bytes, Largest int64
	Blocks         int
	Leaked, Held   int64 // bytes of them that defects keep, and that variables hold, where that is counted
	Rule           uint8 // that says what the largest one is for, where that is counted
}

// Add counts a block.
func (y *Tally) Add(bytes int64) { y.AddBy(bytes, 0) }

// AddBy counts a block of which a rule says what it is for.
func (y *Tally) AddBy(bytes int64, rule uint8) {
	y.Bytes += bytes
	if bytes > y.Largest {
		y.Largest, y.Rule = bytes, rule
	}
	y.Blocks++
}

// keep counts who keeps a block: a defect, else a variable.
func (y *Tally) keep(bytes int64, leaked, held bool) {
	switch {
	case leaked:
		y.Leaked += bytes
	case held:
		y.Held += bytes
	}
}

// MaxSites bounds a report's list of call sites. A program has hundreds; what
// has more than this was generated, and nobody reads it to its end.
const MaxSites = 10_000

// OtherSites stands for the rest.
const OtherSites = "(other call sites)"

// stackSum is the sum of one stack and category.
type stackSum struct {
	Tally
	stack    snapshot.StackID
	category classify.Category
	next     int32 // of the same stack, index plus one
}

// stackSums sums up by stack and category. Most stacks have one Category: room for
// all of them would be ten times as large.
type stackSums struct {
	first []int32 // by stack, index into list plus one
	list  []stackSum
}

// of is the sum of a stack and category.
func (c *stackSums) of(stack snapshot.StackID, category classify.Category) *Tally {
	for i := c.first[stack]; i != 0; i = c.list[i-1].next {
		if x := &c.list[i-1]; x.category == category {
			return &x.Tally
		}
	}
	c.list = append(c.list, stackSum{stack: stack, category: category, next: c.first[stack]})
	c.first[stack] = int32(len(c.list))
	return &c.list[len(c.list)-1].Tally
}

// sorted is the stackSums by category and stack; when they may make too many sites,
// the largest first.
func (c *stackSums) sorted() []stackSum {
	slices.SortFunc(c.list, func(a, b stackSum) int {
		if len(c.list) > MaxSites && a.Bytes != b.Bytes {
			return -cmp.Compare(a.Bytes, b.Bytes)
		}
		return cmp.Or(cmp.Compare(a.category, b.category), cmp.Compare(a.stack, b.stack))
	})
	return c.list
}

// SitesAt groups what is allocated right after an event by call site and
// category, most bytes first, and counts the blocks. Blocks are summed up by
// stack first: there are far fewer stacks.
func (p *Pass) SitesAt(event int) (sites []report.Site, blocks int, categories map[string]int64) {
	return p.SitesOf(event, func(timeline.AllocationID) bool { return true })
}

// SitesOf does so with those allocations of which something is true.
func (p *Pass) SitesOf(event int, is func(timeline.AllocationID) bool) (sites []report.Site, blocks int,
	categories map[string]int64) {
	t := p.T
	leaked, variables := p.LeakedSet(), held.Of(p)
	byStack := stackSums{first: make([]int32, t.Snapshot.NumStacks())}
	var older, sums [classify.NumCategories]Tally
	for i := range t.Born {
		id := timeline.AllocationID(i)
		if !t.AliveAt(id, event) || !is(id) {
			continue
		}
		blocks++
		category := p.Classes.Category[i]
		sums[category].Add(t.Allocated[i])
		sum := &older[category]
		if stack := t.Stack(id); stack != 0 || t.Born[i] != timeline.Never {
			sum = byStack.of(stack, category)
		}
		sum.AddBy(t.Allocated[i], p.Classes.Rule[i])
		_, kept := variables[id]
		sum.keep(t.Allocated[i], leaked[id], kept)
	}
	index := map[SiteKey]int{}
	out := []report.Site{}
	collect := func(key SiteKey, y Tally) {
		n, ok := index[key]
		if !ok && len(index) >= MaxSites {
			key = SiteKey{Site: frames.Site{Line: frames.Line{Function: OtherSites}}, Category: key.Category}
			n, ok = index[key]
		}
		if !ok {
			n = len(out)
			index[key] = n
			out = append(out, SiteOf(key))
		}
		out[n].Bytes += y.Bytes
		out[n].Blocks += y.Blocks
		out[n].Leaked += y.Leaked
		out[n].Held += y.Held
		if y.Largest > out[n].Largest {
			out[n].Largest, out[n].Rule = y.Largest, nil
			if y.Rule > 0 {
				out[n].Rule = new(classify.RuleID(y.Rule))
			}
		}
	}
	categories = map[string]int64{}
	for i := range classify.NumCategories {
		category := classify.Category(i)
		categories[category.String()] = sums[i].Bytes
		if older[i].Blocks > 0 {
			collect(SiteKey{Older: true, Category: category}, older[i])
		}
	}
	for _, c := range byStack.sorted() {
		key := SiteKey{Category: c.category}
		if c.stack != 0 {
			key.Site, key.Known = p.View.Site(c.stack), true
		}
		collect(key, c.Tally)
	}
	slices.SortStableFunc(out, func(a, b report.Site) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(a.Function, b.Function),
			cmp.Compare(a.Op, b.Op), cmp.Compare(*a.Category, *b.Category))
	})
	return out, blocks, categories
}

// SiteOf is a call site as a report has it.
func SiteOf(k SiteKey) report.Site {
	s := report.Site{Category: new(k.Category.String()), Known: k.Known, Older: k.Older, Function: k.Site.Function,
		File: k.Site.File, Op: k.Site.Op, Line: LineOf(k.Site.Line.Line)}
	if k.Site.CalledFrom != (frames.Line{}) {
		s.CalledFrom = PlaceOf(k.Site.CalledFrom)
	}
	return s
}

// PlaceOf is a line of code as a report has it.
func PlaceOf(l frames.Line) *report.Place {
	return &report.Place{Function: l.Function, File: l.File, Line: LineOf(l.Line)}
}

// LineOf is a line number, nil when none was recorded.
func LineOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
