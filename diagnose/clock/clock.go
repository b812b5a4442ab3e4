// Package clock brings what was recorded by other clocks, or by none, onto the
// clock of a device's recording: readings of nvidia-smi, steps of logs and
// profiler traces, by their time stamps or by curves that agree.
//
// It knows what the report says of the device so far and the evidence. It must
// not know which of the evidence is about the device, or what follows for it:
// with what confidence clocks agree is all it says.
package clock

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// curve is a level over time that holds until its next point.
type curve struct {
	at    []float64 // seconds since 1970, rising
	level []float64 // bytes
}

func (c *curve) len() int { return len(c.at) }

func (c *curve) span() (first, last float64) { return c.at[0], c.at[len(c.at)-1] }

// value is the level at a time, that of the first point before it.
func (c *curve) value(at float64) float64 {
	i := sort.SearchFloat64s(c.at, at)
	if i < len(c.at) && c.at[i] == at {
		return c.level[i]
	}
	return c.level[max(i-1, 0)]
}

// recordedCurve is what the device's recording has on its own clock: the reserved
// curve, which nvidia-smi sees shifted by what lies outside PyTorch.
func recordedCurve(dev *report.Device) (curve, bool) {
	var c curve
	for i, at := range dev.Curve.TimeUS {
		if at <= 0 {
			continue // an event without a time
		}
		if s := float64(at) / 1e6; c.len() == 0 || s >= c.at[c.len()-1] {
			c.at, c.level = append(c.at, s), append(c.level, float64(dev.Curve.Reserved[i]))
		}
	}
	return c, c.len() > 1
}

// Align brings a device's nvidia-smi readings, its logs' steps and its traces onto
// the recording's clock, and puts the times of its events, in microseconds since
// 1970, beside its curve and the ends of its steps. gpu gives the GPU among a
// source's readings that the device is, nil for none.
func Align(dev *report.Device, times []int64, given *evidence.Evidence, gpu func(source int) *evidence.GPU) {
	stampCurve(dev, times)
	if dev.Events == 0 {
		return
	}
	for _, source := range given.Sources() {
		if g := gpu(source); g != nil {
			alignGPU(dev, source, g)
		}
		if log := given.Log(source); log != nil && log.Steps.Count > 1 {
			alignLog(dev, source, log.Steps)
		}
		if t := given.Trace(source); t != nil {
			alignTrace(dev, times, source, t)
		}
	}
}

// stampCurve puts times beside the points of the device's curve and the ends
// of its steps.
func stampCurve(dev *report.Device, times []int64) {
	if len(times) == 0 {
		return
	}
	dev.Curve.TimeUS = make([]int64, len(dev.Curve.Events))
	for i, event := range dev.Curve.Events {
		dev.Curve.TimeUS[i] = times[min(max(event, 0), len(times)-1)]
	}
	for _, s := range dev.Steps {
		if s.LastEvent < len(times) {
			dev.StepEndsUS = append(dev.StepEndsUS, times[s.LastEvent])
		}
	}
}

// clockOf makes the report's entry; without a method nothing could be said.
func clockOf(dev *report.Device, source int, what, method string, offset *float64, confidence float64,
	reason string) report.Clock {
	c := report.Clock{Source: source, What: what, Device: new(dev.Device), Reason: reason}
	if method != "" {
		c.Method, c.OffsetSeconds = &method, offset
		c.Confidence = new(math.Round(100*confidence) / 100)
	}
	return c
}

func alignGPU(dev *report.Device, source int, g *evidence.GPU) {
	if len(g.Series.Samples) < 2 {
		return // a single reading has no curve to lay beside another
	}
	ref, timed := recordedCurve(dev)
	readings, stamped, zoned := readingsOf(g)
	var c report.Clock
	switch {
	case stamped && timed:
		m := matchStamped(&ref, &readings, zoned)
		c = clockOf(dev, source, "nvidia_smi", m.method, &m.offset, m.confidence, m.reason)
		besides(&c, &m)
		if m.method != "" {
			for i, at := range readings.at {
				c.Track = append(c.Track, report.Instant{MicrosUTC: int64(math.Round((at + m.offset) * 1e6)),
					Bytes: int64(readings.level[i])})
			}
		}
	case timed:
		m := matchUnstamped(&ref, readings.level)
		c = clockOf(dev, source, "nvidia_smi", m.method, nil, m.confidence, m.reason)
		besides(&c, &m)
		if m.method != "" {
			for i, bytes := range readings.level {
				c.Track = append(c.Track, report.Instant{MicrosUTC: int64((m.offset + float64(i)*m.period) * 1e6),
					Bytes: int64(bytes)})
			}
		}
	default:
		m := matchLevels(dev.Curve.Reserved, readings.level)
		c = clockOf(dev, source, "nvidia_smi", m.method, nil, m.confidence, m.reason)
	}
	c.GPU = new(g.GPU)
	dev.Clocks = append(dev.Clocks, c)
}

// besides keeps by how much a GPU's readings lie above what was reserved, where
// it is known that they are of the same time.
func besides(c *report.Clock, m *match) {
	if m.method != "" && m.confidence >= sure && m.outside >= 0 {
		c.OutsideBytes = new(int64(m.outside))
	}
}

// sure is from which confidence on figures of two clocks are put together.
const sure = 0.7

// readingsOf are nvidia-smi's memory readings in order; by time where every
// one has it.
func readingsOf(g *evidence.GPU) (c curve, stamped, zoned bool) {
	stamped, zoned = true, true
	for _, s := range g.Series.Samples {
		if s.UsedBytes < 0 {
			continue
		}
		stamped, zoned = stamped && s.At.Known(), zoned && s.At.Zoned()
		c.at, c.level = append(c.at, float64(s.At.Nanoseconds())/1e9), append(c.level, float64(s.UsedBytes))
	}
	if stamped && !sort.Float64sAreSorted(c.at) {
		stamped = false // several runs in one file, or a clock that was set
	}
	return c, stamped && c.len() > 1, zoned
}

// zoneText is an offset as people name time zones: the log's clock was that
// much ahead of UTC.
func zoneText(offset float64) string {
	minutes := int(math.Round(-offset / 60))
	sign := '+'
	if minutes < 0 {
		sign, minutes = '-', -minutes
	}
	return fmt.Sprintf("UTC%c%02d:%02d", sign, minutes/60, minutes%60)
}

// quarter is what time zones differ by, in seconds; farthest is UTC+14.
const (
	quarter  = 15 * 60
	farthest = 14 * time.Hour / time.Second
)
