package html

import (
	"fmt"
	"html/template"
	"io"
	"sync"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/templates"
)

// budgetPage is what the page shows.
type budgetPage struct {
	Doc             *budget.Document
	Title           string
	Given           []report.Note
	Verdict         string
	Model, Setting  string
	Bars            []phaseBar
	Lines           []capacityLine
	Rows            []legendEntry
	Height, Serving int
	Colours         template.CSS // those of the report
}

type phaseBar struct {
	Label, Total string
	Y            int
	Parts        []phasePart
}

type phasePart struct {
	X, Width       float64
	Y              int
	Category, Text string
}

type capacityLine struct {
	X     float64
	Label string
	Y     int
}

type legendEntry struct{ Name, Category, Size, Share string }

// The chart's measures in its own units.
const (
	barLeft, barWidth, barStep, barTop = 110, 640, 34, 40
)

// Budget writes a budget as one page that loads nothing and runs nothing.
func Budget(w io.Writer, d *budget.Document, title string, given []report.Note) error {
	p := budgetPage{Doc: d, Title: title, Given: given, Verdict: view.BudgetVerdict(d), Model: view.BudgetModel(d),
		Setting: view.BudgetSetting(d), Colours: template.CSS(templates.Colours())}
	if d.Setting["inference"] == true {
		p.Serving = 1
	}
	top := d.TotalDevice
	for _, f := range d.Fits {
		if f.Capacity < 2*top {
			top = max(top, f.Capacity)
		}
	}
	scale := float64(barWidth) / float64(max(top, 1))
	for i, ph := range d.Phases {
		b := phaseBar{Label: view.BudgetPhases[ph.Phase], Total: units.Bytes(ph.PeakBytes), Y: barTop + i*barStep}
		x := float64(barLeft)
		for _, k := range view.LargestCategories(ph.Categories) {
			n := float64(ph.Categories[k]) * scale
			b.Parts = append(b.Parts, phasePart{X: x, Y: b.Y, Width: n, Category: k, Text: fmt.Sprintf("%s %s", view.Plain(k),
				units.Bytes(ph.Categories[k]))})
			x += n
		}
		p.Bars = append(p.Bars, b)
	}
	p.Height = barTop + len(d.Phases)*barStep + 24*len(d.Fits) + 10
	for i, f := range d.Fits {
		if f.Capacity <= top {
			p.Lines = append(p.Lines, capacityLine{X: barLeft + float64(f.Capacity)*scale, Label: f.GPU, Y: barTop +
				len(d.Phases)*barStep + 20 + 18*i})
		}
	}
	for _, k := range view.LargestCategories(d.Categories) {
		p.Rows = append(p.Rows, legendEntry{view.Plain(k), k, units.Bytes(d.Categories[k]), fmt.Sprintf("%.1f %%",
			100*float64(d.Categories[k])/float64(max(d.PeakBytes, 1)))})
	}
	return budgetTemplate().Execute(shown{w}, p)
}

var budgetTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("budget.html").Funcs(template.FuncMap{
		"size": units.Bytes, "count": func(n int64) string { return units.Count(int(n)) }, "optional": view.Optional,
		"phase": func(s string) string { return view.BudgetPhases[s] }, "top": view.TopThree, "saved": view.Saved,
		"solved": view.BudgetSolved, "bottom": func(y, n int) int { return y + n },
	}).ParseFS(templates.Plain, "plain/budget.html"))
})
