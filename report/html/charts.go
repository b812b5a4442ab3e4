package html

import (
	"math"
	"slices"
	"strconv"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/types"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// The charts are built as go-echarts options and leave Go as JSON only; that
// library's own renderer runs what it finds in names and is never called.
// Functions are words such as "fn:bytes", colours are words such as
// "css:--c-weights"; the page's script has the one table that gives them
// meaning, and never looks for them in data.

// option is an ECharts option.
type option = map[string]any

// unit is what the values of an axis are counted in.
type unit struct {
	Name  string
	Bytes float64
}

func unitFor(most int64) unit {
	switch {
	case most >= 1<<30:
		return unit{"GiB", 1 << 30}
	case most >= 1<<20:
		return unit{"MiB", 1 << 20}
	}
	return unit{"KiB", 1 << 10}
}

// value is a size in the unit, with as many digits as a picture can show.
func (u unit) value(n int64) float64 { return math.Round(float64(n)/u.Bytes*1e4) / 1e4 }

// niceStep is a distance of ticks that gives about five of them.
func niceStep(most float64) float64 {
	raw := most / 5
	base := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*base >= raw {
			return m * base
		}
	}
	return 10 * base
}

// points pairs events with sizes.
func (u unit) points(events []int, bytes []int64) [][2]float64 {
	out := make([][2]float64, len(events))
	for i, e := range events {
		out[i] = [2]float64{float64(e), u.value(bytes[i])}
	}
	return out
}

// plain is what all charts of the page have in common, with a legend from left on
// where one is shown.
func plain(tooltip, trigger, left string, more ...charts.GlobalOpts) []charts.GlobalOpts {
	legend := opts.Legend{Show: opts.Bool(left != ""), Left: left, Top: "0", Icon: "roundRect", ItemWidth: 12, ItemHeight: 8}
	if left == besideAxis {
		legend.Type, legend.Right = "scroll", "20"
	}
	return append([]charts.GlobalOpts{charts.WithAnimation(false), charts.WithLegendOpts(legend),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: trigger, Formatter: types.FuncStr("fn:" + tooltip)})},
		more...)
}

// besideAxis is where a legend begins above a chart.
const besideAxis = "54"

// upward is an axis of values from 0 on. It is made anew for each chart: the library writes into what it is given.
func upward() charts.GlobalOpts {
	return charts.WithYAxisOpts(opts.YAxis{Type: "value", Min: 0, AxisLabel: &opts.AxisLabel{Formatter: "fn:axis"}})
}

// series is a line, area or bar of a single colour.
func series(name, kind string, data any, color string, more ...charts.SeriesOpts) charts.SingleSeries {
	s := charts.SingleSeries{Name: name, Type: kind, Data: data}
	s.ConfigureSeriesOpts(append(more, charts.WithItemStyleOpts(opts.ItemStyle{Color: color}))...)
	return s
}

// finished is a chart's option, with the unit of its values.
func finished(c interface {
	Validate()
	JSON() map[string]any
}, u unit) option {
	c.Validate()
	o := c.JSON()
	o["unit"] = u
	return o
}

// areaChart is the allocated memory by category over the events, below what
// was reserved and the capacity.
func areaChart(d *report.Device) option {
	curve := &d.Pictures.Curve
	most := max(d.Peaks.Reserved.Bytes, d.Peaks.Allocated.Bytes, 1)
	if n := len(d.OOMs); n > 0 {
		most = max(most, min(d.OOMs[n-1].AllocatedBytes+d.OOMs[n-1].RequestedBytes, 3*most))
	}
	capacity := d.CapacityBytes
	if capacity != nil && *capacity < 3*most {
		most = max(most, *capacity)
	} else {
		capacity = nil
	}
	u := unitFor(most)
	line := charts.NewLine()
	line.SetGlobalOptions(plain("area", "axis", besideAxis,
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0, Max: max(1, d.Events-1), AxisLabel: &opts.AxisLabel{
			Formatter: "fn:event", HideOverlap: opts.Bool(true), ShowMaxLabel: opts.Bool(false)}}),
		upward(),
		charts.WithDataZoomOpts(opts.DataZoom{Type: "inside", FilterMode: "none"}, opts.DataZoom{Type: "slider",
			FilterMode: "none"}),
		charts.WithGridOpts(opts.Grid{Left: "70", Right: "24", Top: "58", Bottom: "66"}))...)
	for i, category := range d.Pictures.Categories {
		if !anyAbove(curve.Bytes[i]) {
			continue
		}
		name, color := report.CategoryTitle(category), "css:--c-"+category
		if category == "" || len(d.Pictures.Categories) == 1 {
			name, color = "Allocated", "css:--c-all"
		}
		line.MultiSeries = append(line.MultiSeries, series(name, types.ChartLine, u.points(curve.Events, curve.Bytes[i]), color,
			charts.WithLineChartOpts(opts.LineChart{Stack: "allocated", ShowSymbol: opts.Bool(false), Step: "end"}),
			charts.WithAreaStyleOpts(opts.AreaStyle{Opacity: opts.Float(0.85), Color: color}),
			charts.WithLineStyleOpts(opts.LineStyle{Width: 0.5, Color: color})))
	}
	s := series("Reserved", types.ChartLine, u.points(curve.Events, curve.Reserved), "css:--ink",
		charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(false), Step: "end"}),
		charts.WithLineStyleOpts(opts.LineStyle{Width: 1.6, Color: "css:--ink"}))
	s.MarkLines = &opts.MarkLines{Data: marks(d, u, capacity), MarkLineStyle: opts.MarkLineStyle{Symbol: []string{"none",
		"none"}}}
	if steps := stepAreas(d); len(steps) > 0 {
		s.MarkAreas = &opts.MarkAreas{Data: steps}
	}
	line.MultiSeries = append(line.MultiSeries, s)
	o := finished(line, u)
	step := niceStep(float64(most) * 1.04 / u.Bytes)
	o["ticks"] = option{"interval": step, "max": math.Ceil(float64(most)*1.02/u.Bytes/step) * step}
	return o
}

func anyAbove(values []int64) bool {
	return slices.ContainsFunc(values, func(v int64) bool { return v > 0 })
}

// mark is a line across a chart with what it means.
func mark(kind, axis string, at float64, label, position, align string) option {
	return option{"name": kind, axis: at, "label": option{"formatter": label, "position": position, "rotate": 0, "align": align}}
}

// marks are the lines of capacity, peak and failures; labels of neighbours are
// joined so that they don't lie on each other.
func marks(d *report.Device, u unit, capacity *int64) []any {
	var out []any
	if capacity != nil {
		out = append(out, mark("capacity", "yAxis", u.value(*capacity), "capacity "+units.Size(*capacity), "insideStartTop",
			"left"))
	}
	near := func(a, b int) bool { return math.Abs(float64(a-b)) < 0.22*float64(d.Events) }
	align := func(event int) string {
		if 2*event > d.Events {
			return "right"
		}
		return "left"
	}
	peak := evidence.Or(d.Peaks.Allocated.Event, -1)
	label := "peak " + units.Size(d.Peaks.Allocated.Bytes)
	last := -d.Events
	for i, o := range d.OOMs[:min(len(d.OOMs), 20)] {
		text := "out of memory"
		switch {
		case near(o.Event, last) && i > 0:
			text = ""
		case peak >= 0 && near(peak, o.Event):
			text, label = label+", then out of memory", ""
			if peak > o.Event {
				text = "out of memory, peak " + units.Size(d.Peaks.Allocated.Bytes)
			}
		}
		last = o.Event
		out = append(out, mark("oom", "xAxis", float64(o.Event), text, "end", align(o.Event)))
	}
	if n := len(d.OOMs); n > 0 { // what the last one asked for, on top of what was in use
		o := &d.OOMs[n-1]
		at := func(bytes int64) []float64 { return []float64{float64(o.Event), u.value(bytes)} }
		label := option{"formatter": "asked for " + units.Size(o.RequestedBytes), "position": "middle", "rotate": 0,
			"align": align(o.Event)}
		out = append(out, []any{option{"name": "request", "coord": at(o.AllocatedBytes), "label": label},
			option{"coord": at(o.AllocatedBytes + o.RequestedBytes)}})
	}
	if peak >= 0 {
		out = append(out, mark("peak", "xAxis", float64(peak), label, "end", align(peak)))
	}
	return out
}

// stepAreas shades every other step, and names them when there is room.
func stepAreas(d *report.Device) []any {
	const most = 60
	var out []any
	if len(d.Steps) > most {
		return nil
	}
	for i, s := range d.Steps {
		name, color := "", [...]string{"css:--shade", "css:--noshade"}[i%2]
		if len(d.Steps) <= 12 && 20*(s.LastEvent-s.FirstEvent) > d.Events {
			name = "step " + strconv.Itoa(s.Step)
		}
		out = append(out, []any{option{"name": name, "xAxis": s.FirstEvent, "itemStyle": option{"color": color}},
			option{"xAxis": s.LastEvent + 1}})
	}
	return out
}

// treeChart is a map of categories, and in them call sites; the script has the data of every moment.
func treeChart() option {
	tree := charts.NewTreeMap()
	tree.SetGlobalOptions(plain("tree", "item", "")...)
	tree.MultiSeries = charts.MultiSeries{{Type: types.ChartTreeMap, Data: []option{}}}
	return finished(tree, unitFor(0))
}

// growthChart is what is alive after each step, by the lines that made it.
func growthChart(d *report.Device, rows []grownRow) option {
	g := d.Pictures.Growth
	var most int64 = 1
	var names []string
	for k, step := range g.Steps {
		var sum int64
		for i := range g.Bytes {
			sum += g.Bytes[i][k]
		}
		most, names = max(most, sum), append(names, strconv.Itoa(step))
	}
	u := unitFor(most)
	bar := charts.NewBar()
	bar.SetGlobalOptions(plain("bars", "axis", "",
		charts.WithXAxisOpts(opts.XAxis{Type: "category", Name: "step", NameLocation: "middle", NameGap: 28}),
		upward(),
		charts.WithGridOpts(opts.Grid{Left: "70", Right: "24", Top: "14", Bottom: "46"}))...)
	bar.SetXAxis(names)
	for _, row := range rows {
		values := make([]float64, len(g.Steps))
		for k := range values {
			values[k] = u.value(g.Bytes[row.series][k])
		}
		bar.MultiSeries = append(bar.MultiSeries, series(row.Name, types.ChartBar, values, "css:--"+row.Color,
			charts.WithBarChartOpts(opts.BarChart{Stack: "alive"})))
	}
	return finished(bar, u)
}

// budgetChart puts bars of what was measured beside those of the theory.
func budgetChart(lines []report.Compared) option {
	var most int64 = 1
	for _, x := range lines {
		most = max(most, x.Budget, evidence.Or(x.Measured, 0))
	}
	u := unitFor(most)
	var names []string
	budget, measured := make([]any, len(lines)), make([]any, len(lines))
	for i, x := range lines {
		names = append(names, view.Plain(report.CategoryTitle(x.Name)))
		if budget[i] = u.value(x.Budget); x.Measured != nil {
			measured[i] = u.value(*x.Measured)
		}
	}
	bar := charts.NewBar()
	bar.SetGlobalOptions(plain("compared", "axis", "120",
		charts.WithXAxisOpts(opts.XAxis{Type: "value", AxisLabel: &opts.AxisLabel{Formatter: "fn:axis",
			HideOverlap: opts.Bool(true)}}),
		charts.WithYAxisOpts(opts.YAxis{Type: "category", Inverse: opts.Bool(true), Data: names}),
		charts.WithGridOpts(opts.Grid{Left: "130", Right: "30", Top: "32", Bottom: "28"}))...)
	for i, data := range [][]any{measured, budget} {
		s := series([]string{"Measured", "Budget"}[i], types.ChartBar, data, []string{"css:--used", "css:--empty"}[i])
		s.BarMaxWidth = "14"
		bar.MultiSeries = append(bar.MultiSeries, s)
	}
	return finished(bar, u)
}
