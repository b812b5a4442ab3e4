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
	again := map[string]int{}
	for i := range out {
		row := &out[i]
		if site := g.Sites[row.series]; seen[row.Name] > 1 && site >= 0 {
			s := &d.Pictures.Sites[site]
			if c := s.CalledFrom; c != nil {
				row.Name += ", from " + c.Function + " " + report.ShortPlace(c.File, c.Line)
			}
			if s.Op != "" && s.Op != s.Short() {
				row.Name += " [" + s.Op + "]"
			}
		}
		if again[row.Name]++; again[row.Name] > 1 {
			row.Name += fmt.Sprintf(" (%d)", again[row.Name])
		}
	}
	return out
}
