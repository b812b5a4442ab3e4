package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

// siteKey tells call sites apart.
type siteKey struct {
	site     stacks.Site
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

// sites groups what is allocated right after an event by call site and
// category, most bytes first, and counts the blocks. Blocks are summed up by
// stack first: there are far fewer stacks.
func (e *examination) sites(event int) (sites []report.Site, blocks int, categories map[string]int64) {
	t := e.t
	type cell = [classify.NumCategories]tally
	byStack := make([]cell, t.Snapshot.NumStacks())
	var older, sums cell
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
			byStack[stack][category].add(t.Allocated[i])
		}
	}
	index := map[siteKey]int{}
	out := []report.Site{}
	collect := func(key siteKey, y tally) {
		if y.blocks == 0 {
			return
		}
		n, ok := index[key]
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
		collect(siteKey{category: category}, byStack[0][i])
		for stack := 1; stack < len(byStack); stack++ {
			if byStack[stack][i].blocks > 0 {
				collect(siteKey{site: e.view.Site(snapshot.StackID(stack)), known: true, category: category}, byStack[stack][i])
			}
		}
	}
	slices.SortStableFunc(out, func(a, b report.Site) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.File, b.File), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Op, b.Op), cmp.Compare(*a.Category, *b.Category))
	})
	return out, blocks, categories
}

func siteOf(k siteKey) report.Site {
	s := report.Site{Category: ptr(k.category.String()), Known: k.known, Older: k.older, Function: k.site.Function, File: k.site.File, Op: k.site.Op, Line: lineOf(k.site.Line.Line)}
	if k.site.CalledFrom != (stacks.Line{}) {
		s.CalledFrom = placeOf(k.site.CalledFrom)
	}
	return s
}

func placeOf(l stacks.Line) *report.Place {
	return &report.Place{Function: l.Function, File: l.File, Line: lineOf(l.Line)}
}

// lineOf is a line number, nil when none was recorded.
func lineOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
