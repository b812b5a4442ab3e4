package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// evidencePlots draw what nvidia-smi and the logs saw over time.
func evidencePlots(doc *report.Document) (out []*plot) {
	if doc.Evidence == nil {
		return out
	}
	add := func(plots ...*plot) (any bool) {
		for _, p := range plots {
			if p != nil {
				out, any = append(out, p), true
			}
		}
		return any
	}
	add(smiPlot(doc), clockPlot(doc))
	for _, log := range doc.Evidence.Logs {
		if add(stepPlots(log.Steps)...) {
			break
		}
	}
	return out
}

// hostPlot is what is pinned of the host's memory, over the events of its own trace.
func hostPlot(h *report.HostMemory) *plot {
	if h == nil || len(h.Curve.Events) < 2 {
		return nil
	}
	c := &h.Curve
	line := func(name, color string, bytes []int64) curveOf {
		l := curveOf{name: name, color: color}
		for i, event := range c.Events {
			at := float64(event)
			if i > 0 { // a level lasts until the next one
				l.points = append(l.points, [2]float64{at, float64(bytes[i-1])})
			}
			l.points = append(l.points, [2]float64{at, float64(bytes[i])})
		}
		return l
	}
	return newPlot("host", "Pinned host memory over the events of its trace: in use, and reserved.", "event", inBytes,
		line("reserved", "c-cache", c.Reserved), line("in use", "c-weights", c.Allocated))
}

// mostTracks bounds the lines of a chart.
const mostTracks = 16

// used are a GPU's samples that say how much memory is in use, by their places; not
// every query of nvidia-smi asks for that.
func used(g *evidence.GPU) (places []int) {
	for i, s := range g.Series.Samples {
		if s.UsedBytes >= 0 {
			places = append(places, i)
		}
	}
	return places
}

// smiPlot is the memory in use on each GPU as nvidia-smi saw it; on the clock
// where the samples have one, with the time of the recording shaded where both
// clocks name instants.
func smiPlot(doc *report.Document) *plot {
	var lines []curveOf
	gpus := slices.DeleteFunc(slices.Clone(doc.Evidence.GPUs), func(g evidence.GPU) bool { return len(used(&g)) < 2 })
	axis, zoned := onClock, true
	for i := range gpus {
		for _, k := range used(&gpus[i]) {
			at := gpus[i].Series.Samples[k].At
			if zoned = zoned && at.Zoned(); !at.Known() {
				axis = "sample"
			}
		}
	}
	for n := range gpus[:min(len(gpus), mostTracks)] {
		g := &gpus[n]
		line := curveOf{name: fmt.Sprintf("GPU %d, in use", g.GPU), color: fmt.Sprintf("s%d", n%8)}
		if gpus[0].Source != gpus[len(gpus)-1].Source {
			line.name = fmt.Sprintf("GPU %d in %s", g.GPU, report.ShortFile(doc.Inputs[g.Source].Path))
		}
		for _, k := range used(g) {
			x, at := float64(k), g.Series.Samples[k].At
			if axis == onClock {
				x = float64(at.Nanoseconds() / 1e6)
			}
			line.points = append(line.points, [2]float64{x, float64(g.Series.Samples[k].UsedBytes)})
		}
		lines = append(lines, line)
	}
	p := newPlot("smi", "Memory in use over time; the lines above hold the largest values.", axis, inBytes, lines...)
	if p != nil && axis == onClock && zoned {
		p.shadeRecording(doc)
	}
	return p
}

// shadeRecording shades the time of the first recording that has a clock.
func (p *plot) shadeRecording(doc *report.Document) {
	clocked := func(d report.Device) bool { return d.FirstTime != nil && d.LastTime != nil }
	if i := slices.IndexFunc(doc.Devices, clocked); i >= 0 {
		from := max(float64(*doc.Devices[i].FirstTime/1000), p.Hover.First)
		if to := min(float64(*doc.Devices[i].LastTime/1000), p.Hover.Last); from < to {
			p.Shade = &shade{p.percent(from), p.percent(to) - p.percent(from), "recording"}
		}
	}
}

// clockPlot puts what nvidia-smi saw on the recording's clock, beside what
// PyTorch had reserved and allocated; nil where no reading could be placed.
func clockPlot(doc *report.Document) *plot {
	for i := range doc.Clocks {
		c := &doc.Clocks[i]
		if len(c.Track) < 2 || c.Device == nil {
			continue
		}
		for k := range doc.Devices {
			if d := &doc.Devices[k]; d.Device == *c.Device && len(d.Curve.TimeUS) > 1 {
				return trackPlot(d, c)
			}
		}
	}
	return nil
}

func trackPlot(d *report.Device, c *report.Clock) *plot {
	first, last := d.Curve.TimeUS[0], d.Curve.TimeUS[len(d.Curve.TimeUS)-1]
	margin := max((last-first)/10, 1000)
	var used, reserved, allocated [][2]float64
	for _, x := range c.Track {
		if x.MicrosUTC >= first-margin && x.MicrosUTC <= last+margin {
			used = append(used, [2]float64{float64(x.MicrosUTC) / 1e3, float64(x.Bytes)})
		}
	}
	for i, at := range d.Curve.TimeUS {
		reserved = append(reserved, [2]float64{float64(at) / 1e3, float64(d.Curve.Reserved[i])})
		allocated = append(allocated, [2]float64{float64(at) / 1e3, float64(d.Curve.Allocated[i])})
	}
	return newPlot("clock", "What PyTorch had reserved and what nvidia-smi saw in use, over the time of the recording.", onClock,
		inBytes, curveOf{fmt.Sprintf("In use on GPU %d, as nvidia-smi saw it", *c.GPU), "s0", used},
		curveOf{"Reserved by PyTorch", "s1", reserved}, curveOf{"Allocated", "s2", allocated})
}

// stepPlots are what a log says of its steps: memory where it has it, and time.
func stepPlots(steps *evidence.Steps) []*plot {
	var seconds, memory [][2]float64
	name, bytesOf := view.StepMemory(steps)
	for i, s := range steps.Curve {
		x := float64(i)
		if s.Number >= 0 {
			x = float64(s.Number)
		}
		if s.Seconds > 0 && !math.IsInf(s.Seconds, 0) && !math.IsNaN(s.Seconds) {
			seconds = append(seconds, [2]float64{x, math.Round(s.Seconds*1e6) / 1e6})
		}
		if bytes := bytesOf(&s); bytes > 0 {
			memory = append(memory, [2]float64{x, float64(bytes)})
		}
	}
	var out []*plot
	if len(memory) > 1 {
		name = strings.ToUpper(name[:1]) + name[1:] + " by the log"
		out = append(out, newPlot("memory-steps", name+", by step; the lines above sum it up.", "step", inBytes,
			curveOf{name, "s0", memory}))
	}
	if len(seconds) > 1 {
		out = append(out, newPlot("steps", "Seconds of each step by the log; the lines above sum them up.", "step", inSeconds,
			curveOf{"Seconds per step", "s1", seconds}))
	}
	return out
}
