package html

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/types"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// evidenceCharts draw what nvidia-smi and the logs saw over time.
func evidenceCharts(doc *report.Document) (out []chart) {
	if doc.Evidence == nil {
		return nil
	}
	add := func(id string, o option) bool {
		if o != nil {
			out = append(out, chart{id, o})
		}
		return o != nil
	}
	add("smi", smiChart(doc))
	add("clock", clockChart(doc))
	for _, log := range doc.Evidence.Logs {
		if add("steps", stepChart(log.Steps)) {
			break
		}
	}
	return out
}

// lines is a line chart over time or steps.
func lines(x opts.XAxis, y ...opts.YAxis) *charts.Line {
	line := charts.NewLine()
	line.SetGlobalOptions(plain("lines", "axis", besideAxis, charts.WithXAxisOpts(x), charts.WithYAxisOpts(y[0]),
		charts.WithDataZoomOpts(opts.DataZoom{Type: "inside", FilterMode: "none"}),
		charts.WithGridOpts(opts.Grid{Left: "70", Right: "60", Top: "44", Bottom: "46"}))...)
	for _, more := range y[1:] {
		line.ExtendYAxis(more)
	}
	return line
}

// clockAxis is one of instants, numberAxis one of steps or samples.
func clockAxis() opts.XAxis {
	return opts.XAxis{Type: "value", Scale: opts.Bool(true), AxisLabel: &opts.AxisLabel{Formatter: "fn:clock",
		HideOverlap: opts.Bool(true)}}
}

func numberAxis(name string) opts.XAxis {
	return opts.XAxis{Type: "value", Name: name, NameLocation: "middle", NameGap: 28}
}

func addLine(l *charts.Line, name, color string, data [][2]float64, axis int) {
	l.MultiSeries = append(l.MultiSeries, series(name, types.ChartLine, data, color,
		charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(len(data) < 3), YAxisIndex: axis}),
		charts.WithLineStyleOpts(opts.LineStyle{Width: 1.5, Color: color})))
}

// reading is a sample with its place in the file.
type reading struct {
	evidence.Sample
	number int
}

// readings are a GPU's samples that say how much memory is in use; not every
// query of nvidia-smi asks for that.
func readings(g *evidence.GPU) []reading {
	var out []reading
	for i, s := range g.Series.Samples {
		if s.UsedBytes >= 0 {
			out = append(out, reading{s, i})
		}
	}
	return out
}

// track is what one GPU had in use, in one input.
type track struct {
	source, gpu int
	used        []reading
}

// tracks are those with something to draw.
func tracks(ev *evidence.Evidence) (out []track) {
	for i := range ev.GPUs {
		g := &ev.GPUs[i]
		if used := readings(g); len(used) > 1 {
			out = append(out, track{g.Source, g.GPU, used})
		}
	}
	return out
}

// mostTracks bounds the lines of a chart.
const mostTracks = 16

// smiChart is the memory in use on each GPU as nvidia-smi saw it; on the clock
// where the samples have one, with the time of the recording shaded where both
// clocks name instants.
func smiChart(doc *report.Document) option {
	all := tracks(doc.Evidence)
	if len(all) == 0 {
		return nil
	}
	var most int64 = 1
	timed, zoned := true, true
	for _, x := range all {
		for _, s := range x.used {
			most = max(most, s.UsedBytes)
			timed = timed && s.At.Known()
			zoned = zoned && s.At.Zoned()
		}
	}
	u, axis := unitFor(most), numberAxis("sample")
	if timed {
		axis = clockAxis()
	}
	l := lines(axis, valueAxis("axis"))
	for n, x := range all[:min(len(all), mostTracks)] {
		var data [][2]float64
		for _, s := range x.used {
			at := float64(s.number)
			if timed {
				at = float64(s.At.Nanoseconds() / 1e6)
			}
			data = append(data, [2]float64{at, u.value(s.UsedBytes)})
		}
		name := fmt.Sprintf("GPU %d, in use", x.gpu)
		if all[0].source != all[len(all)-1].source {
			name = fmt.Sprintf("GPU %d in %s", x.gpu, report.ShortFile(doc.Inputs[x.source].Path))
		}
		addLine(l, name, fmt.Sprintf("css:--s%d", n%8), data, 0)
	}
	if timed && zoned {
		l.MultiSeries[0].MarkAreas = recordingArea(doc)
	}
	return finished(l, u)
}

// recordingArea is the time of the first recording that has a clock.
func recordingArea(doc *report.Document) *opts.MarkAreas {
	for _, d := range doc.Devices {
		if d.FirstTime != nil && d.LastTime != nil {
			return &opts.MarkAreas{Data: []any{[]any{
				option{"name": "recording", "xAxis": *d.FirstTime / 1000, "itemStyle": option{"color": "css:--shade"}},
				option{"xAxis": *d.LastTime / 1000}}}}
		}
	}
	return nil
}

// clockChart puts what nvidia-smi saw on the recording's clock, beside what
// PyTorch had reserved and allocated; nil where no reading could be placed.
func clockChart(doc *report.Document) option {
	for i := range doc.Clocks {
		c := &doc.Clocks[i]
		if len(c.Track) < 2 || c.Device == nil {
			continue
		}
		for k := range doc.Devices {
			if d := &doc.Devices[k]; d.Device == *c.Device && len(d.Curve.TimeUS) > 1 {
				return trackChart(d, c)
			}
		}
	}
	return nil
}

func trackChart(d *report.Device, c *report.Clock) option {
	first, last := d.Curve.TimeUS[0], d.Curve.TimeUS[len(d.Curve.TimeUS)-1]
	margin := max((last-first)/10, 1000)
	most := max(d.Peaks.Reserved.Bytes, 1)
	for _, x := range c.Track {
		most = max(most, x.Bytes)
	}
	u := unitFor(most)
	axis := clockAxis()
	axis.Min, axis.Max = float64(first-margin)/1e3, float64(last+margin)/1e3
	l := lines(axis, valueAxis("axis"))
	var used, reserved, allocated [][2]float64
	for _, x := range c.Track {
		if x.MicrosUTC >= first-margin && x.MicrosUTC <= last+margin {
			used = append(used, [2]float64{float64(x.MicrosUTC) / 1e3, u.value(x.Bytes)})
		}
	}
	for i, at := range d.Curve.TimeUS {
		reserved = append(reserved, [2]float64{float64(at) / 1e3, u.value(d.Curve.Reserved[i])})
		allocated = append(allocated, [2]float64{float64(at) / 1e3, u.value(d.Curve.Allocated[i])})
	}
	addLine(l, fmt.Sprintf("In use on GPU %d, as nvidia-smi saw it", *c.GPU), "css:--s0", used, 0)
	addLine(l, "Reserved by PyTorch", "css:--s1", reserved, 0)
	addLine(l, "Allocated", "css:--s2", allocated, 0)
	return finished(l, u)
}

// stepChart is what a log says of its steps: time, and memory where it has it.
func stepChart(steps *evidence.Steps) option {
	var seconds, memory [][2]float64
	var most int64 = 1
	name, bytesOf := view.StepMemory(steps)
	for i := range steps.Curve {
		most = max(most, bytesOf(&steps.Curve[i]))
	}
	u := unitFor(most)
	for i, s := range steps.Curve {
		x := float64(i)
		if s.Number >= 0 {
			x = float64(s.Number)
		}
		if s.Seconds > 0 && !math.IsInf(s.Seconds, 0) && !math.IsNaN(s.Seconds) {
			seconds = append(seconds, [2]float64{x, math.Round(s.Seconds*1e6) / 1e6})
		}
		if bytes := bytesOf(&s); bytes > 0 {
			memory = append(memory, [2]float64{x, u.value(bytes)})
		}
	}
	if len(seconds) < 2 && len(memory) < 2 {
		return nil
	}
	axis := numberAxis("step")
	axis.Scale = opts.Bool(true)
	l := lines(axis, valueAxis("seconds"), valueAxis("axis"))
	if len(seconds) > 1 {
		addLine(l, "Seconds per step", "css:--s0", seconds, 0)
	}
	if len(memory) > 1 {
		addLine(l, strings.ToUpper(name[:1])+name[1:]+" by the log", "css:--s1", memory, 1)
	}
	return finished(l, u)
}
