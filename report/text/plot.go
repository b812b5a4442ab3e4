package text

import (
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// plotHeight is the rows of the terminal's plot.
const plotHeight = 6

// plot draws allocated memory (full blocks) and reserved memory (shade) over
// the events.
func (t *writer) plot(d *report.Device) {
	c := &d.Curve
	if len(c.Events) < 8 || d.History == "none" {
		return
	}
	width := min(t.style.Width-14, 100)
	allocated, reserved := make([]int64, width), make([]int64, width)
	last := max(c.Events[len(c.Events)-1], 1)
	prev := 0
	for i, event := range c.Events {
		x := max(event, 0) * (width - 1) / last
		for k := prev; k <= x; k++ { // levels hold until the next point
			if k > prev || k == x {
				allocated[k] = max(allocated[k], c.Allocated[max(i-1, 0)])
				reserved[k] = max(reserved[k], c.Reserved[max(i-1, 0)])
			}
		}
		allocated[x], reserved[x] = max(allocated[x], c.Allocated[i]), max(reserved[x], c.Reserved[i])
		prev = x
	}
	top := max(d.Peaks.Reserved.Bytes, d.Peaks.Allocated.Bytes, 1)
	t.line("")
	for row := plotHeight - 1; row >= 0; row-- {
		label := map[int]string{plotHeight - 1: units.Bytes(top), 0: "0"}[row]
		var b strings.Builder
		for x := range width {
			b.WriteRune(cell(allocated[x], reserved[x], top, row))
		}
		t.line("%12s %s", label, b.String())
	}
	t.line("%s █ allocated  ░ reserved, over %s", strings.Repeat(" ", 12), units.Plural(d.Events, "event"))
}

// cell is one character of the plot; row 0 is the lowest.
func cell(allocated, reserved, top int64, row int) rune {
	eighths := func(v int64) int { return int(float64(v)/float64(top)*plotHeight*8+0.5) - 8*row }
	if a := eighths(allocated); a >= 8 {
		return '█'
	} else if a > 0 {
		return []rune("▁▂▃▄▅▆▇")[a-1]
	}
	if eighths(reserved) >= 4 {
		return '░'
	}
	return ' '
}
