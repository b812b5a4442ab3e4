package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// siteKey tells call sites apart.
type siteKey struct {
	site     frames.Site
	known    bool
	older    bool
	category classify.Category
}

// tally sums up blocks.
type tally struct {
	bytes, largest int64
	blocks         int
}

func (y *tally) add(bytes int64) {
	y.bytes += bytes
	y.largest = max(y.largest, bytes)
	y.blocks++
}

// maxSites bounds a report's list of call sites. A program has hundreds; what
// has more than this was generated, and nobody reads it to its end.
const maxSites = 10_000

// otherSites stands for the rest.
const otherSites = "(other call sites)"

// cell is the sum of one stack and category.
type cell struct {
	tally
	stack    snapshot.StackID
	category classify.Category
	next     int32 // of the same stack, index plus one
}

// cells sums up by stack and category. Most stacks have one category: room for
// all of them would be ten times as large.
type cells struct {
	first []int32 // by stack, index into list plus one
	list  []cell
}

func (c *cells) add(stack snapshot.StackID, category classify.Category, bytes int64) {
	for i := c.first[stack]; i != 0; i = c.list[i-1].next {
		if x := &c.list[i-1]; x.category == category {
			x.add(bytes)
			return
		}
	}
	x := cell{stack: stack, category: category, next: c.first[stack]}
	x.add(bytes)
	c.list = append(c.list, x)
	c.first[stack] = int32(len(c.list))
}

// sorted is the cells by category and stack; when they may make too many sites,
// the largest first.
func (c *cells) sorted() []cell {
	slices.SortFunc(c.list, func(a, b cell) int {
		if len(c.list) > maxSites && a.bytes != b.bytes {
			return -cmp.Compare(a.bytes, b.bytes)
		}
		return cmp.Or(cmp.Compare(a.category, b.category), cmp.Compare(a.stack, b.stack))
	})
	return c.list
}

// sites groups what is allocated right after an event by call site and
// category, most bytes first, and counts the blocks. Blocks are summed up by
// stack first: there are far fewer stacks.
func (e *examination) sites(event int) (sites []report.Site, blocks int, categories map[string]int64) {
	t := e.t
	byStack := cells{first: make([]int32, t.Snapshot.NumStacks())}
	var older, sums [classify.NumCategories]tally
	for i := range t.Born {
		id := timeline.AllocationID(i)
		if !t.AliveAt(id, event) {
			continue
		}
		blocks++
		category := e.classes.Category[i]
		sums[category].add(t.Allocated[i])
		if stack := t.Stack(id); stack == 0 && t.Born[i] == timeline.Never {
			older[category].add(t.Allocated[i])
		} else {
			byStack.add(stack, category, t.Allocated[i])
		}
	}
	index := map[siteKey]int{}
	out := []report.Site{}
	collect := func(key siteKey, y tally) {
		if y.blocks == 0 {
			return
		}
		n, ok := index[key]
		if !ok && len(index) >= maxSites {
			key = siteKey{site: frames.Site{Line: frames.Line{Function: otherSites}}, category: key.category}
			n, ok = index[key]
		}
		if !ok {
			n = len(out)
			index[key] = n
			out = append(out, siteOf(key))
		}
		out[n].Bytes += y.bytes
		out[n].Blocks += y.blocks
		out[n].Largest = max(out[n].Largest, y.largest)
	}
	categories = map[string]int64{}
	for i := range classify.NumCategories {
		category := classify.Category(i)
		categories[category.String()] = sums[i].bytes
		collect(siteKey{older: true, category: category}, older[i])
	}
	for _, c := range byStack.sorted() {
		key := siteKey{category: c.category}
		if c.stack != 0 {
			key.site, key.known = e.view.Site(c.stack), true
		}
		collect(key, c.tally)
	}
	slices.SortStableFunc(out, func(a, b report.Site) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(a.Function, b.Function),
			cmp.Compare(a.Op, b.Op), cmp.Compare(*a.Category, *b.Category))
	})
	return out, blocks, categories
}

func siteOf(k siteKey) report.Site {
	s := report.Site{Category: ptr(k.category.String()), Known: k.known, Older: k.older, Function: k.site.Function,
		File: k.site.File, Op: k.site.Op, Line: lineOf(k.site.Line.Line)}
	if k.site.CalledFrom != (frames.Line{}) {
		s.CalledFrom = placeOf(k.site.CalledFrom)
	}
	return s
}

func placeOf(l frames.Line) *report.Place {
	return &report.Place{Function: l.Function, File: l.File, Line: lineOf(l.Line)}
}

// lineOf is a line number, nil when none was recorded.
func lineOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
