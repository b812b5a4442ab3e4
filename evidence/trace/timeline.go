package trace

import (
	"errors"
	"math"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// list reads what begins with '[': a bare array of events, a raw timeline
// [[t, action, bytes, category], …], or [times, sizes].
func (p *parser) list() (Result, error) {
	p.skip()
	c, ok := p.next()
	switch {
	case !ok:
		return Result{}, p.cut("a list")
	case c == '{':
		return p.bareEvents()
	case c == '[':
		return p.timeline()
	}
	return Result{}, p.fail("a list that is neither of events nor a memory timeline", ErrNotTrace)
}

func (p *parser) bareEvents() (Result, error) {
	err := p.events()
	p.finish()
	if p.phases == 0 {
		return Result{}, p.fail("a list of objects without trace events", ErrNotTrace)
	}
	return Result{Trace: p.trace}, err
}

// timeline tells the two forms by the first list: four numbers are a row,
// any other number of them the times.
// Both forms of the file are told apart while they are read.
func (p *parser) timeline() (Result, error) {
	t := &evidence.Timeline{}
	var held evidence.TimelineBytes
	p.skip()
	first, isRow, err := p.numbers(4)
	if err == nil && !isRow {
		err = p.fail("a list of lists of something else than numbers", ErrNotTrace)
	}
	if err != nil {
		return Result{}, err
	}
	times := p.countNumbers
	row := len(first) == 4 && plausibleRow(first)
	if row {
		change(t, first, &held)
	}
	c, ok := p.afterComma()
	switch {
	case ok && c == '[':
		p.skip()
		if c, ok = p.next(); ok && c == '[' { // four times, of which the first row is one of sizes
			t, row = &evidence.Timeline{}, false
		} else if row {
			err = p.row(t, &held)
		}
	case !row:
		return Result{}, p.fail("times without sizes", ErrNotTrace)
	}
	if err == nil && row {
		err = p.eachList(func() error { return p.row(t, &held) })
	} else if err == nil {
		err = p.sums(t, times)
	}
	return Result{Timeline: t}, err
}

// sums reads rows of cumulative sizes, as many as there are times.
func (p *parser) sums(t *evidence.Timeline, times int) error {
	err := p.eachList(func() error { return p.sizes(t) })
	if err == nil && t.Rows != times {
		err = p.fail("a memory timeline with more times than sizes or fewer", ErrNotTrace)
	}
	return err
}

// afterComma is the byte that begins what stands behind a comma, if there is one.
func (p *parser) afterComma() (byte, bool) {
	c, ok := p.next()
	if ok && c == ',' {
		p.skip()
		c, ok = p.next()
	}
	return c, ok
}

// row reads a row of a raw timeline after its opening bracket.
func (p *parser) row(t *evidence.Timeline, held *evidence.TimelineBytes) error {
	row, ok, err := p.numbers(4)
	if err == nil && (!ok || len(row) != 4) {
		err = p.fail("a row that is not [time, action, bytes, category]", ErrNotTrace)
	}
	if err == nil {
		change(t, row, held)
	}
	return err
}

func plausibleRow(row []int64) bool {
	return row[1] >= 0 && row[1] <= 4 && row[3] >= 0 && row[3] < int64(evidence.TimelineCategories)
}

const (
	created   = 2   // torch/profiler/_memory_profiler.py, Action.CREATE
	gpuRounds = 512 // c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize: what it gives is a multiple
)

// change takes one row: time, action, what a tensor added or, when negative, took
// away, and its category.
func change(t *evidence.Timeline, n []int64, held *evidence.TimelineBytes) {
	c := min(max(n[3], 0), int64(evidence.Uncategorised))
	t.Rows++
	t.Host = t.Host || n[1] == created && n[2]%gpuRounds != 0
	held[c] += n[2]
	var sum int64
	for _, b := range held {
		sum += b
	}
	t.PeakByCategory[c] = max(t.PeakByCategory[c], held[c])
	if sum > t.PeakBytes {
		t.PeakBytes, t.AtPeak = sum, *held
	}
}

// sizes reads one row of cumulative sizes: 0, then a sum per category.
func (p *parser) sizes(t *evidence.Timeline) error {
	sums, ok, err := p.numbers(int(evidence.TimelineCategories) + 1)
	if err != nil {
		return err
	}
	if !ok || len(sums) != int(evidence.TimelineCategories)+1 {
		return p.fail("a row of a memory timeline without 9 sizes", ErrNotTrace)
	}
	t.Rows++
	var held evidence.TimelineBytes
	for c := range held {
		held[c] = sums[c+1] - sums[c]
		t.PeakByCategory[c] = max(t.PeakByCategory[c], held[c])
	}
	if total := sums[evidence.TimelineCategories]; total > t.PeakBytes {
		t.PeakBytes, t.AtPeak = total, held
	}
	return nil
}

// eachList calls read at every following element up to the closing bracket.
func (p *parser) eachList(read func() error) error {
	return p.each(']', "a memory timeline", func(c byte) error {
		if c != '[' {
			return p.fail("something else than a row in a memory timeline", ErrNotTrace)
		}
		p.skip()
		return read()
	})
}

// errOther stands for something else than a number.
var errOther = errors.New("no number")

// numbers reads a list of numbers after its opening bracket, keeping the first limit of them; ok is
// false when it holds anything else.
func (p *parser) numbers(limit int) (list []int64, ok bool, err error) {
	p.kept = p.kept[:0]
	p.countNumbers = 0
	err = p.each(']', "a list of numbers", func(c byte) error {
		if c != '-' && !units.IsDigit(c) {
			return errOther
		}
		text, err := p.value()
		if err != nil {
			return err
		}
		v, valid := parseInt(text)
		if !valid {
			v = math.MinInt64
		}
		if p.countNumbers++; p.countNumbers <= limit {
			p.kept = append(p.kept, v)
		}
		return nil
	})
	switch {
	case errors.Is(err, errOther):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case p.countNumbers > limit:
		return nil, true, nil
	}
	return p.kept, true, nil
}
