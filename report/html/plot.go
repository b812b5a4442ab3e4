package html

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/units"
)

// plot is a chart of lines that the page shows without the charting library: a
// page over a log alone stays small, and its curves are there without scripts.
type plot struct {
	ID     string
	Label  string // for those who don't see it
	Lines  []plotLine
	XTicks []tick
	YTicks []tick
	Shade  *shade
	Hover  hover // what the script says of a place
}

// plotLine is one curve. Its points are in per mille of the width and height.
type plotLine struct {
	Name   string
	Color  string // a variable of the style sheet, without its dashes
	Points string
	Dots   [][2]float64 // of a curve too short for a line
}

// tick is a label beside an axis, at so many percent of it.
type tick struct {
	At   float64
	Text string
}

// shade is a stretch of the x axis with a name, in percent.
type shade struct {
	From, Width float64
	Name        string
}

// hover is a plot's data for the script.
type hover struct {
	X     string      `json:"x"` // what x counts: "clock" or a word such as "step"
	First float64     `json:"a"` // the range of x
	Last  float64     `json:"b"`
	Lines []hoverLine `json:"l"`
}

type hoverLine struct {
	Name  string       `json:"n"`
	Color string       `json:"c"`
	Unit  string       `json:"u"` // "bytes" or "seconds"
	At    [][2]float64 `json:"p"`
}

// curveOf is a line before it has a place in a plot.
type curveOf struct {
	name, color string
	points      [][2]float64
}

// Units of a plot's values.
const (
	inBytes   = "bytes"
	inSeconds = "seconds"
	onClock   = "clock" // x in milliseconds since the Unix epoch
)

// mostPoints of a line; more are summed up by the largest of each stretch.
const mostPoints = 600

// newPlot lays lines out between their first and last x, and 0 and their largest
// value. It is nil without a point.
func newPlot(id, label, x, unit string, lines ...curveOf) *plot {
	p := &plot{ID: id, Label: label, Hover: hover{X: x, First: math.Inf(1), Last: math.Inf(-1)}}
	most := 0.0
	for _, l := range lines {
		for _, at := range l.points {
			p.Hover.First, p.Hover.Last = min(p.Hover.First, at[0]), max(p.Hover.Last, at[0])
			most = max(most, at[1])
		}
	}
	if math.IsInf(p.Hover.First, 0) {
		return nil
	}
	if most <= 0 {
		most = 1
	}
	p.yTicks(most, unit)
	top := most * 1.08
	for _, l := range lines {
		points := thinned(l.points, mostPoints)
		line := plotLine{Name: l.name, Color: l.color}
		var b strings.Builder
		for _, at := range points {
			px, py := 10*p.percent(at[0]), 1000-1000*at[1]/top
			fmt.Fprintf(&b, "%.1f,%.1f ", px, py)
			if len(points) < 3 {
				line.Dots = append(line.Dots, [2]float64{px / 10, 100 - py/10})
			}
		}
		line.Points = strings.TrimSpace(b.String())
		p.Lines = append(p.Lines, line)
		p.Hover.Lines = append(p.Hover.Lines, hoverLine{l.name, l.color, unit, points})
	}
	p.xTicks()
	return p
}

// percent is where an x lies.
func (p *plot) percent(x float64) float64 {
	if p.Hover.Last <= p.Hover.First {
		return 50
	}
	return 100 * (x - p.Hover.First) / (p.Hover.Last - p.Hover.First)
}

func (p *plot) yTicks(most float64, unit string) {
	scale, name := 1.0, "s"
	if unit == inBytes {
		u := unitFor(int64(most))
		scale, name = u.Bytes, u.Name
	}
	step := niceStep(most / scale)
	for v := 0.0; v <= most/scale*1.04; v += step {
		text := strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
		p.YTicks = append(p.YTicks, tick{100 * v * scale / (most * 1.08), text + " " + name})
	}
}

func (p *plot) xTicks() {
	span := p.Hover.Last - p.Hover.First
	if p.Hover.X == onClock {
		layout := "15:04:05"
		if span < 4000 {
			layout += ".000"
		}
		for _, part := range []float64{0, 1.0 / 3, 2.0 / 3, 1} {
			at := time.UnixMilli(int64(p.Hover.First + part*span)).UTC()
			p.XTicks = append(p.XTicks, tick{100 * part, at.Format(layout)})
		}
		return
	}
	step := max(1, niceStep(span))
	for v := math.Ceil(p.Hover.First/step) * step; v <= p.Hover.Last; v += step {
		p.XTicks = append(p.XTicks, tick{p.percent(v), units.Count(int(v))})
	}
}

// thinned keeps the largest value of each stretch.
func thinned(points [][2]float64, most int) [][2]float64 {
	if len(points) <= most {
		return points
	}
	out := make([][2]float64, 0, most)
	for i, at := range points {
		if k := i * most / len(points); k == len(out) {
			out = append(out, at)
		} else if at[1] > out[k][1] {
			out[k] = at
		}
	}
	return out
}
