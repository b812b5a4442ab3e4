package timeline

import (
	"hash/maphash"
	"math"
	"slices"

	"github.com/vramscope/vramscope/internal/pages"
)

// NoRun is the number of a run that a sequence doesn't have.
const NoRun = uint32(math.MaxUint32)

// Runs are the runs of so many values in a row that a sequence has, such as the sizes
// or stacks of its allocations. Equal runs have the same number.
type Runs[K comparable] struct {
	At []uint32 // by the place where a run begins: its number, in the order of their first places

	values []K
	length int
	first  []uint32 // by number: the place of the first one
	after  []uint32 // by number: what came after it the last time, as in a loop it will again
	seed   maphash.Seed
	byHash map[uint64]uint32 // of two with the same hash the later one has the next free one
}

// NewRuns finds the runs of a length, at least 1, in one pass. What recurs in the same
// order costs a comparison each time. The values must not be changed.
func NewRuns[K comparable](values []K, length int) *Runs[K] {
	r := &Runs[K]{values: values, length: length, seed: maphash.MakeSeed(), byHash: map[uint64]uint32{}}
	r.At = pages.Make[uint32](max(0, len(values)-length+1))
	last := NoRun
	for k := range r.At {
		number, hash := r.find(values, k, last)
		if number == NoRun {
			number = uint32(len(r.first))
			r.byHash[hash] = number
			r.first, r.after = append(r.first, uint32(k)), append(r.after, NoRun)
		}
		if last != NoRun {
			r.after[last] = number
		}
		r.At[k], last = number, number
	}
	return r
}

// Len is how many different runs there are.
func (r *Runs[K]) Len() int { return len(r.first) }

// In are the numbers of the runs of another sequence, by the places where they begin;
// NoRun: the first one hasn't got it.
func (r *Runs[K]) In(values []K) []uint32 {
	at := make([]uint32, max(0, len(values)-r.length+1))
	last := NoRun
	for k := range at {
		at[k], _ = r.find(values, k, last)
		last = at[k]
	}
	return at
}

// find is the number of the run at a place, behind another one; without one, the hash
// that it would go by.
func (r *Runs[K]) find(values []K, k int, last uint32) (number uint32, hash uint64) {
	end := k + r.length
	if last != NoRun { // whose values but the first are these but the last
		if number = r.after[last]; number != NoRun && r.values[int(r.first[number])+r.length-1] == values[end-1] {
			return number, 0
		}
	}
	for _, v := range values[k:end] {
		hash = hash*0x9e3779b97f4a7c15 + maphash.Comparable(r.seed, v)
	}
	for ; ; hash++ {
		number, ok := r.byHash[hash]
		if !ok {
			return NoRun, hash
		}
		if first := int(r.first[number]); slices.Equal(r.values[first:first+r.length], values[k:end]) {
			return number, 0
		}
	}
}

// Places are where a run of a sequence is, and how evenly its places lie.
type Places struct {
	First, Last, Count int
	Narrowest, Widest  int // from one to the next; 0: it is there once
}

// PlacesOf are the places of each of n numbers in a sequence of them, such as At.
func PlacesOf(at []uint32, n int) []Places {
	out := make([]Places, n)
	for k, number := range at {
		p := &out[number]
		if p.Count++; p.Count == 1 {
			p.First, p.Last = k, k
			continue
		}
		gap := k - p.Last
		p.Last, p.Widest = k, max(p.Widest, gap)
		if p.Narrowest == 0 || gap < p.Narrowest {
			p.Narrowest = gap
		}
	}
	return out
}

// Repeat is a part of a sequence that is there several times in a row.
type Repeat struct{ From, Period, Count int }

// End is the place behind the last one.
func (r *Repeat) End() int { return r.From + r.Period*r.Count }

// mostPeriods bounds the periods that are tried.
const mostPeriods = 8

// HeaviestRepeat finds the repeat that weighs most in the part of a sequence of numbers
// between two places; weight 0: there is none. Sums are the weights of all values before
// each place. Its period is one of those most often found between two equal numbers.
func HeaviestRepeat(at []uint32, sums []int64, from, to int) (best Repeat, weight int64) {
	for _, period := range periods(at[from:to]) {
		same := 0 // as a period before, in a row
		for k := from; k <= to-period; k++ {
			if k < to-period && at[k] == at[k+period] {
				same++
				continue
			}
			if x := (Repeat{k - same, period, same/period + 1}); x.Count > 1 {
				if w := sums[x.End()] - sums[x.From]; w > weight {
					best, weight = x, w
				}
			}
			same = 0
		}
	}
	return best, weight
}

// periods are how far apart equal numbers lie, the most frequent first.
func periods(at []uint32) []int {
	last := map[uint32]int{}
	votes := map[int]int{}
	for k, number := range at {
		if before, ok := last[number]; ok {
			votes[k-before]++
		}
		last[number] = k
	}
	list := make([]int, 0, len(votes))
	for period := range votes {
		list = append(list, period)
	}
	slices.SortFunc(list, func(a, b int) int {
		if votes[a] != votes[b] {
			return votes[b] - votes[a]
		}
		return a - b
	})
	return list[:min(len(list), mostPeriods)]
}
