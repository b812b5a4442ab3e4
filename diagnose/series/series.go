// Package series tells what a row of readings does: rise, climb by stairs, change
// once and stay.
package series

import (
	"math"
	"slices"
)

// Median of some values; NaN for none. The slice is left as it is.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// buckets cuts values into at most n stretches of equal length and gives the
// Median of each, so that one odd reading changes nothing.
func buckets(values []float64, n int) []float64 {
	n = min(n, len(values))
	out := make([]float64, n)
	for i := range out {
		out[i] = Median(values[i*len(values)/n : (i+1)*len(values)/n])
	}
	return out
}

// Growth is a level that rises all along.
type Growth struct {
	Total    float64 // from the first stretch to the last
	PerPoint float64
}

const (
	Points        = 5
	growthBuckets = 12
	growthBytes   = 16 << 20 // what is less is noise
	growthShare   = 0.01
)

// Rising tells steady growth from a level that is reached and kept: nearly
// every stretch is above the one before it, and the later half still rises.
// A running maximum that flattens out is no growth, nor is a single jump.
func Rising(values []float64) (Growth, bool) {
	values = values[min(len(values), 1+len(values)/50):] // the first is still warming up
	if len(values) < Points {
		return Growth{}, false
	}
	b := buckets(values, growthBuckets)
	up := 0
	largest := 0.0
	for i := 1; i < len(b); i++ {
		if b[i] > b[i-1] {
			up++
		}
		largest = max(largest, b[i]-b[i-1])
	}
	n := len(b)
	total := b[n-1] - b[0]
	late := b[n-1] - b[n/2]
	if float64(up) < 0.9*float64(n-1) || late < total/4 || largest > total/2 || total < growthBytes ||
		total < growthShare*b[n-1] {
		return Growth{}, false
	}
	var slopes []float64
	for i := range b {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (b[j]-b[i])/float64(j-i))
		}
	}
	return Growth{Total: total, PerPoint: Median(slopes) * float64(n) / float64(len(values))}, true
}

// Jump is a level that changes once, for good.
type Jump struct {
	At            int // index of the first value after it
	Before, After float64
	Sharp         bool // nearly all of it between two values, level before and after
}

const jumpPoints = 6

// Jumped finds where values change from one level to a higher one and stay
// there: the split that leaves the least deviation, if the two sides overlap
// little and each has at least two values.
func Jumped(values []float64, factor float64) (Jump, bool) {
	if len(values) < jumpPoints {
		return Jump{}, false
	}
	coarse := values
	if len(values) > 256 {
		coarse = buckets(values, 256)
	}
	best, at := math.Inf(1), 0
	for k := 2; k <= len(coarse)-2; k++ {
		if cost := deviation(coarse[:k]) + deviation(coarse[k:]); cost < best {
			best, at = cost, k
		}
	}
	if at == 0 {
		return Jump{}, false
	}
	at = at * len(values) / len(coarse)
	j := Jump{At: at, Before: Median(values[:at]), After: Median(values[at:])}
	size := j.After - j.Before
	j.Sharp = values[at]-values[at-1] >= 0.8*size && deviation(values[:at]) <= 0.1*size*float64(at) &&
		deviation(values[at:]) <= 0.1*size*float64(len(values)-at)
	low, high := Quantile(values[:at], 0.9), Quantile(values[at:], 0.1)
	return j, j.Before > 0 && j.After >= factor*j.Before && high > low
}

func deviation(values []float64) float64 {
	m, sum := Median(values), 0.0
	for _, v := range values {
		sum += math.Abs(v - m)
	}
	return sum
}

func Quantile(values []float64, q float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// Stairs are a level that rises by the same again and again, and stays in between.
type Stairs struct {
	At   []int   // indexes of the first values after a rise
	Each float64 // the median of the rises
}

const (
	stairRises = 3
	evenly     = 1.5 // times the median, or a part of it, that a rise and what lies between two may be
	levelShare = 0.1 // of the whole rise that the rest may change by
)

// Climbing finds stairs. A running maximum that rises with the longest batch so far
// does so by less and less, and ever more seldom.
func Climbing(values []float64) (Stairs, bool) {
	var s Stairs
	var rises, gaps []float64
	rest := 0.0
	for i := 1; i < len(values); i++ {
		d := values[i] - values[i-1]
		if math.Abs(d) < max(growthBytes, growthShare*values[i]) {
			rest += d
			continue
		}
		if d < 0 {
			return s, false
		}
		if n := len(s.At); n > 0 {
			gaps = append(gaps, float64(i-s.At[n-1]))
		}
		s.At, rises = append(s.At, i), append(rises, d)
	}
	if len(s.At) < stairRises {
		return s, false
	}
	s.Each = Median(rises)
	last := len(values) - s.At[len(s.At)-1]
	whole := values[len(values)-1] - values[0]
	ok := even(rises) && even(gaps) && Median(gaps) > 1 && float64(last) <= evenly*Median(gaps) &&
		math.Abs(rest) <= levelShare*whole
	return s, ok
}

// even tells values of which none is far from the median.
func even(values []float64) bool {
	m := Median(values)
	for _, v := range values {
		if v > evenly*m || v < m/evenly {
			return false
		}
	}
	return true
}
