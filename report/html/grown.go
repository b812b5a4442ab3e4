package html

import (
	"fmt"

	"github.com/vramscope/vramscope/report"
)

// grownRow is a line of code whose memory is alive after steps, as the chart draws it.
type grownRow struct {
	Name, Color string // its own; of the style sheet
	First, Last int64  // bytes after the first step and after the last
	series      int
}

// grownRows are what the chart of growth draws, no two of one name or colour.
func grownRows(d *report.Device) (out []grownRow) {
	g, seen := d.Pictures.Growth, map[string]int{}
	for i, site := range g.Sites {
		if !anyAbove(g.Bytes[i]) {
			continue
		}
		row := grownRow{Name: "all other lines", Color: "mut", First: g.Bytes[i][0], Last: g.Bytes[i][len(g.Steps)-1], series: i}
		if len(g.Sites) == 1 {
			row.Name = "no line recorded"
		}
		if site >= 0 {
			row.Name, row.Color = d.Pictures.Sites[site].Short(), fmt.Sprintf("s%d", i%8)
		}
		seen[row.Name]++
		out = append(out, row)
	}
	for i := range out {
		row := &out[i]
		if seen[row.Name] < 2 || g.Sites[row.series] < 0 {
			continue
		}
		s := &d.Pictures.Sites[g.Sites[row.series]]
		name := row.Name
		if c := s.CalledFrom; c != nil {
			name += ", from " + c.Function + " " + report.ShortPlace(c.File, c.Line)
		}
		if s.Op != "" && s.Op != row.Name {
			name += " [" + s.Op + "]"
		}
		row.Name = name
	}
	clear(seen)
	for i := range out {
		if seen[out[i].Name]++; seen[out[i].Name] > 1 {
			out[i].Name += fmt.Sprintf(" (%d)", seen[out[i].Name])
		}
	}
	return out
}
