// Package search answers what takes many budgets: what fits a device, the largest batch or sequence there, the fewest GPUs, the
// best settings of a training, and what each change would save.
//
//	n, setting, err := search.Solve(config, settings.Setting{LoRA: 16}, "batch", gpu)
//
// It knows neither networks nor steps: package budget works out each of them. Sizes are in bytes, sequences and tokens.
package search

import (
	"fmt"
	"sort"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/gpus"
)

// solver remembers budgets of a configuration by batch and sequence.
type solver struct {
	c    *budget.Config
	s    budget.Setting
	seen map[[2]int64]*budget.Budget
}

func (v *solver) at(batch, seq int64) *budget.Budget {
	k := [2]int64{batch, seq}
	if b, ok := v.seen[k]; ok {
		return b
	}
	s := v.s
	s.Batch = batch
	b, err := budget.Compute(v.c, s.WithSequence(seq))
	if err != nil {
		b = nil
	}
	v.seen[k] = b
	return b
}

// largest finds the largest multiple of unit whose size is within room. Sizes
// grow with n, nearly in a straight line, so the gap is closed by
// interpolation; a size below zero is one that cannot be.
// near is one whose size is known, or unit.
func largest(unit, near, limit, room int64, size func(int64) int64) int64 {
	ok := func(b int64) bool { return b >= 0 && b <= room }
	lo, a := unit, size(unit)
	if !ok(a) {
		return 0
	}
	hi := 2 * lo
	if near > hi && near%unit == 0 {
		hi = near
	}
	b := size(hi)
	for ok(b) && hi < limit {
		lo, a = hi, b
		hi *= 2
		b = size(hi)
	}
	for step := 0; hi-lo > unit; step++ {
		mid := lo + (hi-lo)/2
		if b > a && step%3 < 2 { // every third step halves, so that a curve cannot slow it down
			mid = lo + int64(float64(hi-lo)*float64(room-a)/float64(b-a))
			if step%3 == 1 { // the neighbour of the last guess is often the answer
				mid = lo + unit
			}
		}
		mid = min(max(mid/unit*unit, lo+unit), hi-unit)
		if c := size(mid); ok(c) {
			lo, a = mid, c
		} else {
			hi, b = mid, c
		}
	}
	return lo
}

// first completes a setting, and works it out.
func first(c *budget.Config, s budget.Setting) (budget.Setting, *budget.Budget, error) {
	s, err := c.Complete(s)
	if err != nil {
		return s, nil, err
	}
	b, err := budget.Compute(c, s)
	return s, b, err
}

// Limits of what is searched for.
const (
	limitBatch    = 1 << 20
	limitSequence = 1 << 24
)

// Fits works the table over devices out.
func Fits(c *budget.Config, s budget.Setting, devices []gpus.GPU) ([]budget.Fit, error) {
	s, here, err := first(c, s)
	if err != nil {
		return nil, err
	}
	v := &solver{c: c, s: s, seen: map[[2]int64]*budget.Budget{}}
	v.seen[[2]int64{s.Batch, s.Sequence}] = here
	v.s.Reserve, v.s.Fullest = here.Looseness(), here.Fullest
	var fits []budget.Fit
	for _, g := range devices {
		f := budget.Fit{GPU: g, Fits: here.Fits(g)}
		if s.Engine == "" {
			f.MaxBatch = largest(1, s.Batch, limitBatch, g.Capacity, func(n int64) int64 { return v.at(n, s.Sequence).Need(g) })
		}
		unit := s.CP
		if s.Sequence > 64 && s.CP == 1 {
			unit = 64
		}
		if f.HasSequence = here.SequenceFree(); f.HasSequence && s.Engine == "" {
			f.MaxSequence = longest(c, unit, s.Sequence, g.Capacity, func(n int64) int64 { return v.at(s.Batch, n).Need(g) })
		}
		if s.Engine != "" {
			_, f.MaxTokens = here.Pool(g)
			f.AtOnce = budget.AtOnce(s, f.MaxTokens)
			f.MaxBatch, f.MaxSequence = int64(f.AtOnce), f.MaxTokens
			fits = append(fits, f)
			continue
		}
		if s.Inference && here.CacheToken > 0 {
			work := here.WorkingBytes() - here.WeightsBytes
			free := g.Capacity - g.Context - here.WeightsBytes - int64(float64(work)*budget.ReserveFactor(s))
			// A token is on one of the context-parallel ranks.
			f.MaxTokens = max(0, int64(float64(free)/budget.ReserveFactor(s))/here.CacheToken) * s.CP
		}
		fits = append(fits, f)
	}
	return fits, nil
}

func oneLength(b *budget.Budget) error {
	return fmt.Errorf("--solve seq: the inputs of %s have one length", b.Model.Type)
}

// Solve finds the largest batch or sequence, or the fewest GPUs, for a device,
// and the setting with it; 0 and the setting as it is when none fits.
func Solve(c *budget.Config, s budget.Setting, what string, g gpus.GPU) (int64, budget.Setting, error) {
	s, err := c.Complete(s)
	if err != nil {
		return 0, s, err
	}
	v := &solving{c: c, s: s, g: g, unit: 1}
	first := s
	switch what {
	case "batch":
		v.rough, v.limit, v.with = true, limitBatch, budget.Setting.WithBatch
		v.search = func() int64 { return largest(1, 1, limitBatch, g.Capacity, v.need) }
	case "seq":
		v.unit, v.limit, v.with = s.SequenceUnit(), limitSequence, budget.Setting.WithSequence
		v.search = func() int64 { return longest(c, v.unit, v.unit, g.Capacity, v.need) }
	case "gpus":
		if s.Inference {
			first.TP = 1 // how many is what is asked
		}
		v.unit, v.with = first.Group(), budget.Setting.OnGPUs
		first.GPUs, first.Zero, first.FSDP = v.unit, 0, ""
		v.search = func() int64 {
			return v.unit * fewest(func(n int64) bool { b := v.need(n * v.unit); return b >= 0 && b <= g.Capacity })
		}
	default:
		return 0, s, fmt.Errorf("--solve %q: batch, seq or gpus", network.Short(what))
	}
	if v.b, err = budget.Compute(c, first); err != nil {
		return 0, s, err
	}
	if what == "seq" && !v.b.SequenceFree() {
		return 0, s, oneLength(v.b)
	}
	n, misfit := v.estimate()
	if v.limit > 0 {
		n = v.settled(n, misfit)
	}
	if n < v.unit {
		return 0, s, nil
	}
	return n, v.with(s, n), nil
}

// solving is a search for one number of a setting.
type solving struct {
	c           *budget.Config
	s           budget.Setting
	g           gpus.GPU
	unit, limit int64 // limit is 0 where the fewest are asked for
	with        func(budget.Setting, int64) budget.Setting
	search      func() int64
	rough       bool           // budgets of the search are estimates
	b           *budget.Budget // the last one that was worked out for itself
}

// estimate finds the number, and the largest that was worked out for itself and doesn't fit. For batches, how much more is
// reserved than allocated is worked out for one, and taken for those near it; what is found is worked out for itself.
func (v *solving) estimate() (n, misfit int64) {
	defer v.near(nil)
	v.near(v.b)
	n = v.search()
	misfit = n
	for range 6 {
		v.near(nil)
		if n == 0 || v.fits(n) || v.b == nil {
			break
		}
		v.near(v.b)
		misfit = max(misfit, n)
		m := v.search()
		if m == n {
			break
		}
		n = m
	}
	return n, misfit
}

// near takes what is reserved from a budget, or from none.
func (v *solving) near(b *budget.Budget) {
	v.s.Reserve, v.s.Fullest = 0, 0
	if b != nil && v.rough {
		v.s.Reserve, v.s.Fullest = b.Looseness(), b.Fullest
	}
}

func (v *solving) need(n int64) int64 {
	b, err := budget.Compute(v.c, v.with(v.s, n))
	if err != nil {
		return -1
	}
	return b.Need(v.g)
}

func (v *solving) fits(n int64) bool {
	b, err := budget.Compute(v.c, v.with(v.s, n))
	if v.b = b; err != nil {
		v.b = nil
		return false
	}
	return b.Fits(v.g)
}

// between is a size from lo on, which fits, to hi, which doesn't, with one that doesn't after it.
func between(lo, hi, unit int64, fits func(int64) bool) int64 {
	for hi-lo > unit {
		mid := lo + (hi-lo)/unit/2*unit
		if fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// settled is the size near an estimated one that fits, though the next one does not.
func (v *solving) settled(n, misfit int64) int64 {
	unit := v.unit
	if n < unit && v.fits(unit) { // as much more is reserved in what was tried, not in less
		n = between(unit, misfit, unit, v.fits)
	}
	for i := 0; i < neighbours && n >= unit && !v.fits(n); i++ {
		n -= unit
	}
	for i := 0; i < neighbours && n >= unit && n < v.limit && v.fits(n+unit); i++ {
		n += unit
	}
	return n
}

// neighbours is how many sizes beside an estimated one are tried.
const neighbours = 32

// fewest tries powers of two and what lies between the last two.
func fewest(ok func(int64) bool) int64 {
	for n := int64(1); n <= 1<<16; n *= 2 {
		if !ok(n) {
			continue
		}
		i := sort.Search(int(n-n/2), func(i int) bool { return ok(n/2 + 1 + int64(i)) })
		for k := n/2 + 1 + int64(i); k < n; k++ {
			if ok(k) {
				return k
			}
		}
		return n
	}
	return 0
}

// longest is the longest sequence within room; learned positions bound it.
func longest(c *budget.Config, unit, near, room int64, size func(int64) int64) int64 {
	if n := c.Positions(); n > 0 {
		if b := size(n); b >= 0 && b <= room {
			return n
		}
	}
	return largest(unit, near, limitSequence, room, size)
}
