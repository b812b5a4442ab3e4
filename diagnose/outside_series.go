package diagnose

import (
	"math"
	"slices"
)

// median of some values; NaN for none. The slice is left as it is.
func median(values []float64) float64 {
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
// median of each, so that one odd reading changes nothing.
func buckets(values []float64, n int) []float64 {
	n = min(n, len(values))
	out := make([]float64, n)
	for i := range out {
		out[i] = median(values[i*len(values)/n : (i+1)*len(values)/n])
	}
	return out
}

// growth is a level that rises all along.
type growth struct {
	total    float64 // from the first stretch to the last
	perPoint float64
}

const (
	growthPoints  = 5
	growthBuckets = 12
	growthBytes   = 16 << 20 // what is less is noise
	growthShare   = 0.01
)

// rising tells steady growth from a level that is reached and kept: nearly
// every stretch is above the one before it, and the later half still rises.
// A running maximum that flattens out is no growth, nor is a single jump.
func rising(values []float64) (growth, bool) {
	values = values[min(len(values), 1+len(values)/50):] // the first is still warming up
	if len(values) < growthPoints {
		return growth{}, false
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
		return growth{}, false
	}
	var slopes []float64
	for i := range b {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (b[j]-b[i])/float64(j-i))
		}
	}
	return growth{total: total, perPoint: median(slopes) * float64(n) / float64(len(values))}, true
}

// jump is a level that changes once, for good.
type jump struct {
	at            int // index of the first value after it
	before, after float64
	sharp         bool // nearly all of it between two values, level before and after
}

const jumpPoints = 6

// jumped finds where values change from one level to a higher one and stay
// there: the split that leaves the least deviation, if the two sides overlap
// little and each has at least two values.
func jumped(values []float64, factor float64) (jump, bool) {
	if len(values) < jumpPoints {
		return jump{}, false
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
		return jump{}, false
	}
	at = at * len(values) / len(coarse)
	j := jump{at: at, before: median(values[:at]), after: median(values[at:])}
	size := j.after - j.before
	j.sharp = values[at]-values[at-1] >= 0.8*size && deviation(values[:at]) <= 0.1*size*float64(at) &&
		deviation(values[at:]) <= 0.1*size*float64(len(values)-at)
	low, high := quantile(values[:at], 0.9), quantile(values[at:], 0.1)
	return j, j.before > 0 && j.after >= factor*j.before && high > low
}

func deviation(values []float64) float64 {
	m, sum := median(values), 0.0
	for _, v := range values {
		sum += math.Abs(v - m)
	}
	return sum
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
