package main

import (
	"fmt"
	"html/template"
	"io"
	"sync"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/templates"
)

// budgetPage is what the page shows.
type budgetPage struct {
	Doc             *budgetDocument
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
	Parts        []barPart
}

type barPart struct {
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

func budgetHTML(w io.Writer, doc *budgetDocument) error {
	d := doc.Document
	p := budgetPage{Doc: doc, Verdict: verdictOf(d), Model: modelLine(d), Setting: settingLine(d),
		Colours: template.CSS(templates.Colours())}
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
		b := phaseBar{Label: phaseWords[ph.Phase], Total: sizeText(ph.PeakBytes), Y: barTop + i*barStep}
		x := float64(barLeft)
		for _, k := range largestFirst(ph.Categories) {
			n := float64(ph.Categories[k]) * scale
			b.Parts = append(b.Parts, barPart{X: x, Y: b.Y, Width: n, Category: k, Text: fmt.Sprintf("%s %s", word(k),
				sizeText(ph.Categories[k]))})
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
	for _, k := range largestFirst(d.Categories) {
		p.Rows = append(p.Rows, legendEntry{word(k), k, sizeText(d.Categories[k]), fmt.Sprintf("%.1f %%",
			100*float64(d.Categories[k])/float64(max(d.PeakBytes, 1)))})
	}
	return budgetTemplate().Execute(report.Shown{W: w}, p)
}

var budgetTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("budget").Funcs(template.FuncMap{
		"size": sizeText, "count": countText, "optional": optional, "phase": func(s string) string { return phaseWords[s] },
		"top": topThree, "saved": saved, "solved": solvedText,
		"bottom": func(y, n int) int { return y + n },
	}).Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{or .Doc.Title (print "Memory budget: " .Doc.Model.Type)}}</title>
<style>
{{.Colours}}
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:960px;margin:0 auto;padding:24px 16px}
h1{font-size:1.3rem;margin:0 0 4px}h2{font-size:1.05rem;margin:28px 0 8px}
p{margin:4px 0}.soft{color:var(--mut)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:5px 10px;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;white-space:nowrap}
.wrap{overflow-x:auto}svg{max-width:100%;height:auto;background:var(--card);border:1px solid var(--line);border-radius:6px}
svg line{stroke:var(--fail);stroke-dasharray:4 3}svg text{fill:var(--ink);font:12px system-ui,sans-serif}.swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
.yes{color:var(--ok);font-weight:600}.no{color:var(--fail);font-weight:600}code{background:var(--code);padding:1px 4px;border-radius:4px}
@media print{body{max-width:none;padding:0}svg{border:0}}
</style>
</head>
<body>
{{with .Doc.Title}}<p>{{.}}</p>{{end}}
<h1>{{.Verdict}}</h1>
{{range .Doc.Given}}<p class="soft">{{.Key}}: {{.Value}}</p>{{end}}
<p>{{.Model}}</p>
<p class="soft">{{.Setting}}</p>
{{with .Doc.Solved}}<p>{{solved .}}</p>{{end}}
<h2>What is alive in each phase</h2>
<svg viewBox="0 0 860 {{.Height}}" role="img" aria-label="Bytes by category in each phase, against the capacity of devices">
{{range .Lines}}<line x1="{{.X}}" x2="{{.X}}" y1="20" y2="{{.Y}}"/><text x="{{.X}}" y="{{.Y}}" text-anchor="end" dx="-4">{{.Label}}</text>
{{end}}{{range .Bars}}<text x="102" y="{{bottom .Y 15}}" text-anchor="end">{{.Label}}</text>
{{range .Parts}}<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="22" style="fill:var(--c-{{.Category}})"><title>{{.Text}}</title></rect>
{{end}}<text x="756" y="{{bottom .Y 15}}">{{.Total}}</text>
{{end}}</svg>
<h2>At the peak</h2>
<div class="wrap"><table><thead><tr><th>Category</th><th class="n">Bytes</th><th class="n">Share</th></tr></thead><tbody>
{{range .Rows}}<tr><td><span class="swatch" style="background:var(--c-{{.Category}})"></span>{{.Name}}</td><td class="n">{{.Size}}</td><td class="n">{{.Share}}</td></tr>
{{end}}</tbody></table></div>
<p class="soft">Reserved by the allocator about {{size .Doc.Reserved}}; with the CUDA context {{size .Doc.TotalDevice}} on the device. First step: {{size .Doc.FirstStep}}.{{if .Doc.CacheToken}} KV cache: {{size .Doc.CacheToken}} per token.{{end}}</p>
<h2>By phase</h2>
<div class="wrap"><table><thead><tr><th>Phase</th><th class="n">Peak</th><th class="n">End</th><th>Largest</th></tr></thead><tbody>
{{range .Doc.Phases}}<tr><td>{{phase .Phase}}</td><td class="n">{{size .PeakBytes}}</td><td class="n">{{size .EndBytes}}</td><td>{{top .Categories}}</td></tr>
{{end}}</tbody></table></div>
<h2>Devices</h2>
<div class="wrap"><table><thead><tr><th>GPU</th><th class="n">Total</th><th>Fits</th><th class="n">Largest batch</th><th class="n">Longest sequence</th>{{if .Serving}}<th class="n">Tokens in cache</th>{{end}}</tr></thead><tbody>
{{range .Doc.Fits}}<tr><td>{{.GPU}}</td><td class="n">{{size .Capacity}}</td><td>{{if .Fits}}<span class="yes">yes</span>{{else}}<span class="no">no</span>{{end}}</td><td class="n">{{count .MaxBatch}}</td><td class="n">{{optional .MaxSequence}}</td>{{if $.Serving}}<td class="n">{{optional .MaxTokens}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{if .Doc.Ladder}}<h2>What would save memory, cheapest first</h2>
<div class="wrap"><table><thead><tr><th>Change</th><th class="n">Saves</th><th class="n">Then</th><th>Flags</th><th>Costs</th></tr></thead><tbody>
{{range .Doc.Ladder}}<tr><td>{{.Change}}{{if .Fits}} <span class="yes">fits</span>{{end}}</td><td class="n">{{size .Saves}}</td><td class="n">{{size .TotalDevice}}</td><td><code>{{.Flags}}</code></td><td>{{.Costs}}</td></tr>
{{end}}</tbody></table></div>{{end}}
{{with .Doc.Vocabulary}}<p>With a vocabulary of {{count .Vocabulary}}: {{count .Parameters}} parameters, peak {{size .PeakBytes}} ({{saved .Saves}}).</p>{{end}}
{{if .Doc.Notes}}<h2>Notes</h2><ul>{{range .Doc.Notes}}<li>{{.}}</li>{{end}}</ul>{{end}}
</body>
</html>
`))
})
