package clock

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/internal/units"
)

// match is how two curves lie against each other.
type match struct {
	method     string  // "" when it can't be said
	offset     float64 // seconds to add to the second's times; its first reading's time where it has none
	period     float64 // seconds between readings without times
	confidence float64
	outside    float64 // bytes by which the readings lie above the recording; NaN: not known
	reason     string
}

const (
	fitPoints   = 4    // readings within the recording from which on curves are compared
	goodFit     = 0.8  // of the recording's range explained
	clearMargin = 0.05 // by which the best fit must be better than the next
	flatRange   = 64 << 20
)

// fit tells how well readings follow the reference, 1 for a constant distance
// and 0 for one that varies as much as the reference does; NaN when the
// reference is too flat or the readings are too few to tell. Readings below
// what PyTorch had reserved can't be of the same time. The distance is in bytes.
func fit(ref *curve, at, level []float64) (quality, between float64, within int) {
	first, last := ref.span()
	var distance, held []float64
	below := 0
	for i := range at {
		if at[i] < first || at[i] > last {
			continue
		}
		r := ref.value(at[i])
		held = append(held, r)
		distance = append(distance, level[i]-r)
		if level[i] < r-flatRange {
			below++
		}
	}
	if len(held) < fitPoints || slices.Max(held)-slices.Min(held) < flatRange {
		return math.NaN(), series.Median(distance), len(held)
	}
	spread := series.Quantile(distance, 0.9) - series.Quantile(distance, 0.1)
	quality = 1 - spread/(slices.Max(held)-slices.Min(held))
	return max(0, quality-2*float64(below)/float64(len(held))), series.Median(distance), len(held)
}

// candidate is how readings with times lie in one time zone.
type candidate struct {
	offset, quality float64
	between         float64
	covered         float64 // share of the recording
	within          int
}

// candidates are the zones in which readings lie within the recording: where theirs
// isn't known, those of whole quarter-hours.
func candidates(ref, readings *curve, zoned bool) []candidate {
	offsets := []float64{0}
	if !zoned {
		for k := 1; k <= int(farthest)/quarter; k++ {
			offsets = append(offsets, float64(k*quarter), float64(-k*quarter))
		}
	}
	var all []candidate
	first, last := ref.span()
	from, to := readings.span()
	shifted := make([]float64, readings.len())
	for _, offset := range offsets {
		for i, at := range readings.at {
			shifted[i] = at + offset
		}
		if quality, between, within := fit(ref, shifted, readings.level); within > 0 {
			covered := min(last, to+offset) - max(first, from+offset)
			all = append(all, candidate{offset, quality, between, max(0, covered) / max(last-first, 1e-6), within})
		}
	}
	return all
}

// matchStamped aligns readings that have times. Clocks without a zone may be
// off by whole quarter-hours: the one that makes the curves agree is taken.
func matchStamped(ref, readings *curve, zoned bool) match {
	all := candidates(ref, readings, zoned)
	if len(all) == 0 {
		return match{reason: "no reading lies within the recording, in any time zone"}
	}
	value := func(c candidate) float64 {
		if math.IsNaN(c.quality) {
			return 0
		}
		return c.quality * c.covered
	}
	best := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(value(a), value(b)) })
	next := 0.0
	for _, c := range all {
		if c.offset != best.offset {
			next = max(next, value(c))
		}
	}
	m := match{method: "timestamps", offset: best.offset, outside: best.between, reason: "by time stamps"}
	if !zoned {
		m.reason += ", its clock read as " + zoneText(best.offset)
	}
	quality, margin := best.quality, value(best)-next
	switch {
	case math.IsNaN(best.quality) && len(all) == 1:
		m.confidence = 0.7
		m.reason += fmt.Sprintf(": the only zone in which both overlap (%s within the recording, too few to compare the curves)",
			units.Plural(best.within, "reading"))
		if zoned {
			m.confidence, m.reason = 0.9, "by time stamps, which name the zone"
		}
	case math.IsNaN(best.quality):
		return match{reason: fmt.Sprintf("%d time zones would fit, and the curves are too flat or the readings too few to "+
			"tell which", len(all))}
	case quality < 0.3:
		m.confidence = 0.3 * quality
		m.reason += ": the times overlap but the curves disagree; another GPU or program, perhaps"
	case margin < clearMargin && len(all) > 1:
		return match{reason: fmt.Sprintf("several time zones make the curves agree about as well (%.0f %%)", 100*quality)}
	default:
		m.confidence = min(0.99, 0.5+0.5*quality)
		m.reason += fmt.Sprintf("; the curves agree to %.0f %% over %s", 100*quality, units.Plural(best.within, "reading"))
		if len(all) > 1 {
			m.confidence = min(m.confidence, 0.6+margin)
		}
	}
	return m
}

// periods are the intervals that people let nvidia-smi loop with, in seconds.
var periods = []float64{0.1, 0.2, 0.25, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600}

const (
	unstampedPoints = 6
	unstampedMost   = 1024 // places that are tried for a period at first
	unstampedCoarse = 96   // readings that are looked at there
	unstampedFit    = 0.85
)

// matchUnstamped slides readings without times along the recording, for every
// usual interval, and takes the place where they follow it.
func matchUnstamped(ref *curve, level []float64) match {
	first, last := ref.span()
	best, next := match{confidence: -1}, 0.0
	for _, period := range periods {
		n := (last - first) / period
		if n < unstampedPoints || len(level) < unstampedPoints {
			continue
		}
		// The first reading may come long before the recording, or within it.
		from := -float64(len(level) - unstampedPoints)
		to := n - unstampedPoints
		stride := max(0.5, (to-from)/unstampedMost)
		own := slide(ref, level, period, from, to, stride, 1+int(n)/unstampedCoarse)
		if own.confidence > 0 {
			at := (own.offset - first) / period
			own = slide(ref, level, period, max(from, at-stride), min(to, at+stride), min(0.5, stride/4), 1)
		}
		if own.confidence > best.confidence {
			best, next = own, max(next, best.confidence)
		} else {
			next = max(next, own.confidence)
		}
	}
	switch {
	case best.confidence < 0:
		return match{reason: "the readings have no times, and the recording is too short to match their curve"}
	case best.confidence < unstampedFit:
		return match{reason: fmt.Sprintf("the readings have no times, and no interval makes their curve follow the recording "+
			"(at best %.0f %%)", 100*best.confidence)}
	case best.confidence-next < clearMargin/5:
		return match{reason: "the readings have no times, and several intervals make their curve follow the recording"}
	}
	best.method = "curves"
	best.reason = fmt.Sprintf("by matching curves: a reading every %s follows the reserved memory to %.0f %%",
		units.Duration(best.period), 100*best.confidence)
	best.confidence = min(0.9, best.confidence-unstampedFit/4)
	return best
}

// slide tries places of the first reading, in periods from the recording's
// beginning, looking at every so many readings; confidence -1 where none fits.
func slide(ref *curve, level []float64, period, from, to, stride float64, every int) match {
	first, last := ref.span()
	best := match{confidence: -1}
	var at, seen []float64
	for k := from; k <= to; k += stride {
		at, seen = at[:0], seen[:0]
		begin := max(0, int(math.Ceil(-k)))
		for i := begin; i < len(level); i += every {
			t := first + (k+float64(i))*period
			if t > last {
				break
			}
			at, seen = append(at, t), append(seen, level[i])
		}
		quality, between, within := fit(ref, at, seen)
		if math.IsNaN(quality) || float64(within*every) < (last-first)/period/2 {
			continue
		}
		if quality > best.confidence {
			best = match{offset: first + k*period, period: period, confidence: quality, outside: between}
		}
	}
	return best
}

// matchLevels compares the order of levels alone, for recordings without a clock.
func matchLevels(reserved []int64, level []float64) match {
	none := match{reason: "neither has a clock, and the levels show too little to match"}
	if len(reserved) == 0 || len(level) < fitPoints {
		return none
	}
	ref := make([]float64, len(reserved))
	for i, r := range reserved {
		ref[i] = float64(r)
	}
	tolerance := max(flatRange, 0.02*(slices.Max(ref)-slices.Min(ref)))
	between := slices.Max(level) - slices.Max(ref) // what lies outside PyTorch
	a, b := plateaus(ref, tolerance), plateaus(level, tolerance)
	if len(b) < fitPoints || between < -tolerance {
		return none
	}
	// The longest common subsequence: every level of one in the other, in order.
	row := make([]int, len(a)+1)
	for _, y := range b {
		diagonal := 0
		for j, x := range a {
			above := row[j+1]
			if math.Abs(y-between-x) <= tolerance {
				row[j+1] = max(diagonal+1, above, row[j])
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	common := row[len(a)]
	if share := float64(common) / float64(len(b)); common >= fitPoints && share >= 0.6 {
		return match{method: "levels", confidence: 0.6 * share,
			reason: fmt.Sprintf("by the order of levels: %d of the readings' %d levels occur in the recording in the same order",
				common, len(b))}
	}
	return none
}

// plateaus are the levels that differ from the one before by more than a tolerance.
func plateaus(values []float64, tolerance float64) []float64 {
	const most = 512
	var out []float64
	for _, v := range values {
		if len(out) == 0 || math.Abs(v-out[len(out)-1]) > tolerance {
			if out = append(out, v); len(out) == most {
				break
			}
		}
	}
	return out
}
