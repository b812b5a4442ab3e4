package clock

import (
	"fmt"
	"math"
	"sort"

	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// alignLog finds where a log's steps lie on the recording's clock: by their
// time stamps, else by the memory they print, which the recording must have
// had at the ends of the same steps.
func alignLog(dev *report.Device, source int, steps *evidence.Steps) {
	if len(dev.Steps) < 2 {
		return
	}
	m := match{reason: "its steps have no times"}
	if evidence.Or(steps.MaxMemoryBytes, 0) > 0 && !steps.OnlyReserved {
		m.reason += ", and the memory it prints is not that of the recorded steps"
	} else {
		m.reason += " and no memory, either of which would place them"
	}
	if stamps := stampsOf(steps); len(stamps) > 1 && len(dev.StepEndsUS) > 1 && dev.StepEndsUS[0] > 0 {
		m = matchStepTimes(dev.StepEndsUS, stamps)
	}
	if m.method == "" {
		if byMemory, ok := matchStepMemory(dev, steps); ok {
			m = byMemory
		}
	}
	var offset *float64
	if m.method == "timestamps" {
		offset = &m.offset
	}
	dev.Clocks = append(dev.Clocks, clockOf(dev, source, "log", m.method, offset, m.confidence, m.reason))
}

func stampsOf(steps *evidence.Steps) []float64 {
	var out []float64
	for i := range steps.Curve {
		if at := steps.Curve[i].At; at != 0 {
			out = append(out, float64(at)/1e9)
		}
	}
	if !sort.Float64sAreSorted(out) {
		return nil
	}
	return out
}

// matchStepTimes takes the whole quarter-hours that put a time stamp next to
// the end of every recorded step.
func matchStepTimes(ends []int64, stamps []float64) match {
	recorded := make([]float64, len(ends))
	for i, us := range ends {
		recorded[i] = float64(us) / 1e6
	}
	step := (recorded[len(recorded)-1] - recorded[0]) / float64(len(recorded)-1)
	best, distance := 0.0, math.Inf(1)
	for k := -int(farthest) / quarter; k <= int(farthest)/quarter; k++ {
		offset := float64(k * quarter)
		var all []float64
		for _, at := range recorded {
			all = append(all, nearest(stamps, at-offset))
		}
		if d := series.Median(all); d < distance || d == distance && math.Abs(offset) < math.Abs(best) {
			best, distance = offset, d
		}
	}
	limit := max(step, 2) // logs have whole seconds, and print a little later
	if distance > limit {
		return match{reason: fmt.Sprintf("its time stamps are %s away from the recorded steps in any zone",
			units.Duration(distance))}
	}
	m := match{method: "timestamps", offset: best, confidence: 0.9,
		reason: fmt.Sprintf("by time stamps, its clock read as %s: recorded steps end %s from a step's line", zoneText(best),
			units.Duration(distance))}
	if step < 1 {
		m.confidence = 0.7 // the log's clock is coarser than a step
	}
	return m
}

// nearest is the distance to the next of some rising times.
func nearest(stamps []float64, at float64) float64 {
	i := sort.SearchFloat64s(stamps, at)
	d := math.Inf(1)
	if i < len(stamps) {
		d = stamps[i] - at
	}
	if i > 0 {
		d = min(d, at-stamps[i-1])
	}
	return d
}

// matchStepMemory compares the memory that a log prints at each step with what
// was allocated at the ends of the recorded steps, or at most up to there.
func matchStepMemory(dev *report.Device, steps *evidence.Steps) (match, bool) {
	ends, peaks := levelsOfSteps(dev)
	dropped := max(0, len(ends)-mostSteps)
	ends, peaks = ends[dropped:], peaks[dropped:]
	var printed []int64
	for i := range steps.Curve {
		printed = append(printed, max(steps.Curve[i].AllocatedBytes, 0))
	}
	m, ok := matchPrinted(ends, peaks, printed, dropped)
	if ok {
		return m, true
	}
	for i, p := range printed { // what a log calls GB may be 1e9 bytes
		printed[i] = int64(float64(p) / (1 << 30) * 1e9)
	}
	if m, ok = matchPrinted(ends, peaks, printed, dropped); ok {
		m.reason += ", its GB read as 1e9 bytes"
	}
	return m, ok
}

// matchPrinted finds the shift at which most of what a log prints is what was recorded.
func matchPrinted(ends, peaks, printed []int64, dropped int) (match, bool) {
	best, shift, distinct := 0, 0, map[int64]bool{}
	rounding := roundingOf(printed)
	for s := -len(ends); s <= len(printed); s++ {
		n := agreeing(ends, peaks, printed, s, rounding)
		if n > best || n == best && units.Abs(s) < units.Abs(shift) {
			best, shift = n, s
		}
	}
	for _, p := range printed {
		distinct[p>>20] = true
	}
	if best < 2 || best*2 < min(len(ends), len(printed)) {
		return match{}, false
	}
	share := float64(best) / float64(min(len(ends), len(printed)))
	m := match{method: "steps", confidence: 0.9 * share,
		reason: fmt.Sprintf("by the memory it prints: that of %d steps is what was recorded at the end of the %s", best,
			sameOrShifted(shift-dropped))}
	if len(distinct) < 3 {
		m.confidence = min(m.confidence, 0.5) // any shift would do
		m.reason += "; it hardly changes, so they may be others"
	}
	return m, true
}

// agreeing counts the recorded steps at whose end, or up to which at most, there was
// what a log prints so many steps later in its count.
func agreeing(ends, peaks, printed []int64, shift int, rounding int64) int {
	n := 0
	for i := range ends {
		if k := i + shift; k >= 0 && k < len(printed) && printed[k] > 0 && (close(printed[k], ends[i], rounding) ||
			close(printed[k], peaks[i], rounding)) {
			n++
		}
	}
	return n
}

// levelsOfSteps is what was allocated at the end of each recorded step, and at most up
// to there.
func levelsOfSteps(dev *report.Device) (ends, peaks []int64) {
	ends, peaks = make([]int64, len(dev.Steps)), make([]int64, len(dev.Steps))
	var most int64
	next := 0
	levels := dev.Curve
	for i, s := range dev.Steps {
		for next < len(levels.Events) && levels.Events[next] <= s.LastEvent {
			ends[i] = levels.Allocated[next]
			most = max(most, levels.Allocated[next])
			next++
		}
		peaks[i] = most
	}
	return ends, peaks
}

// mostSteps bounds the recorded steps that a log's are compared with.
const mostSteps = 512

func sameOrShifted(shift int) string {
	switch {
	case shift == 0:
		return "same steps"
	case shift > 0:
		return fmt.Sprintf("steps recorded %d earlier in its count", shift)
	}
	return fmt.Sprintf("steps recorded %d later in its count", -shift)
}

// close tells figures apart that differ by more than rounding.
func close(printed, bytes, rounding int64) bool {
	return max(printed-bytes, bytes-printed) <= max(bytes/200, rounding)
}

// roundingOf is half of the last digit that figures were printed with: of a
// tenth of a GiB or GB if that is what they all are multiples of, else of a
// hundredth of a GiB.
func roundingOf(printed []int64) int64 {
	for _, unit := range []float64{1 << 30, 1e9} {
		tenths := true
		for _, p := range printed {
			x := float64(p) / unit * 10
			tenths = tenths && math.Abs(x-math.Round(x)) < 1e-6
		}
		if tenths {
			return int64(unit / 20)
		}
	}
	return 6 << 20
}

// alignTrace compares a profiler trace's times, which count from 1970 like the
// recorder's, and where they disagree the peaks that both saw.
func alignTrace(dev *report.Device, times []int64, source int, t *evidence.Trace) {
	for i := range t.Devices {
		d := &t.Devices[i]
		if !d.Type.IsAccelerator() || d.ID != dev.Device || d.Events == 0 {
			continue
		}
		base := float64(t.BaseNanoseconds) / 1e9
		first, last := base+d.FirstMicros/1e6, base+d.LastMicros/1e6
		samePeak := d.PeakAllocatedBytes > 0 && close(d.PeakAllocatedBytes, dev.Peaks.Allocated.Bytes, 2<<20)
		m := match{reason: "its times lie outside the recording, and its peak is another"}
		if dev.FirstTime != nil && dev.LastTime != nil {
			if from, to := float64(*dev.FirstTime)/1e6, float64(*dev.LastTime)/1e6; first <= to && last >= from {
				m = match{method: "timestamps", confidence: 0.9, reason: "by time stamps, both count from 1970"}
				if samePeak {
					m.confidence, m.reason = 0.98, m.reason+"; both saw the same peak"
				}
			} else if samePeak && d.PeakMicros > 0 && dev.Peaks.Allocated.Event != nil {
				at := float64(times[*dev.Peaks.Allocated.Event]) / 1e6
				m = match{method: "curves", offset: at - base - d.PeakMicros/1e6, confidence: 0.7,
					reason: "by the peak, which both saw at the same size; their clocks differ"}
			}
		}
		dev.Clocks = append(dev.Clocks, clockOf(dev, source, "trace", m.method, &m.offset, m.confidence, m.reason))
	}
}
