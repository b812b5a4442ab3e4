package html

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/templates"
)

// Index writes the page over many runs. Like a report it needs nothing but
// itself; its links lead to the reports beside it.
func Index(w io.Writer, x *report.Index) error {
	return indexTemplate().Execute(shown{w}, newIndexView(x))
}

var indexTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("index").Funcs(functions).Funcs(template.FuncMap{
		"day": day, "minute": minute, "seen": seen, "sparkline": sparkline,
		"statusWord": func(s report.Status) string { return statusWords[s] },
	}).Parse(templates.Index))
})

// indexView is what the template sees.
type indexView struct {
	*report.Index
	Policy     string
	Style      template.CSS
	Script     template.JS
	Data       []rowData
	Tiles      []tile
	Axes       []string           // names of the numbers that runs may be compared by
	Capacities bool               // of any run is known
	First      []*report.IndexRow // for those without scripts
	Kinds      []string           // categories that occur
	Whole      int64              // what bars of runs without a capacity are drawn against
	Root       string             // the folder that all runs lie in, with its slash; "": they have none in common
}

// rowData is a row for the script.
type rowData struct {
	*report.IndexRow
	Parts []int64 `json:"k"` // category, bytes, category, bytes, …
	Time  string  `json:"w"`
	At    *int64  `json:"m"`           // milliseconds since the Unix epoch
	Facts []any   `json:"x,omitempty"` // number of the axis, value, and so on
}

// tile is a figure over all runs, and the rows that it counts.
type tile struct {
	Label, Value, Note string
	Status             report.Status // "": all
	Filter             bool          // pressing it shows those rows
}

// leakNote says what leaking runs do, and which of them count twice.
func leakNote(f *report.IndexFigures) string {
	if f.LeakingOOM == 0 {
		return "grow from step to step"
	}
	return units.Count(f.LeakingOOM) + " of them out of memory, too"
}

// firstRows is how many rows stand in the page without a script.
const firstRows = 200

func newIndexView(x *report.Index) *indexView {
	script := templates.IndexScript()
	v := &indexView{Index: x, Style: template.CSS(templates.Style() + templates.IndexStyle()), Script: template.JS(script),
		Whole: 1, Data: []rowData{}}
	v.Policy = inline(script).policy
	f := &x.Figures
	v.Tiles = []tile{
		{"Runs", units.Count(f.Runs), runsNote(x), "", true},
		{"Out of memory", units.Count(f.OOM), kindsOfOOM(len(x.OOMs)), report.StatusOOM, f.OOM > 0},
		{"Leaking", units.Count(f.Leaking), leakNote(f), report.StatusLeak, f.Leaking > 0},
		{"Warnings", units.Count(f.Warning), "something to look at", report.StatusWarning, f.Warning > 0},
		{"Could not be read", units.Count(f.Failed), map[bool]string{true: "every run has a report",
			false: "the table says why"}[f.Failed == 0], report.StatusFailed, f.Failed > 0},
		{"Fine", units.Count(f.Fine), units.Percent(int64(f.Fine), int64(f.Runs)) + " of all runs", report.StatusFine,
			f.Fine > 0},
	}
	v.Axes = axesOf(x.Rows)
	var paths []string
	for i := range x.Rows {
		r := &x.Rows[i]
		paths = append(paths, r.Path)
		v.Capacities = v.Capacities || r.Capacity != nil
		v.Whole = max(v.Whole, evidence.Or(r.Capacity, 0), evidence.Or(r.Allocated, 0))
	}
	if v.Root = rootOf(paths); len(paths) < 2 {
		v.Root = ""
	}
	for i, c := range report.Categories {
		if slices.ContainsFunc(x.Rows, func(r report.IndexRow) bool { return len(r.Categories) > 0 && r.Categories[i] > 0 }) {
			v.Kinds = append(v.Kinds, c)
		}
	}
	for _, i := range report.WorstFirst(x.Rows)[:min(len(x.Rows), firstRows)] {
		v.First = append(v.First, &x.Rows[i])
	}
	for i := range x.Rows {
		v.Data = append(v.Data, v.data(&x.Rows[i]))
	}
	return v
}

// runsNote says what the runs are of, where that is more than their number.
func runsNote(x *report.Index) string {
	f := &x.Figures
	note := seen(f.FirstTime, f.LastTime)
	if x.Experiments > 1 && x.Experiments < f.Runs {
		note = strings.TrimSuffix(units.Plural(x.Experiments, "experiment")+", "+note, ", ")
	}
	return note
}

// mostAxes bounds what runs may be compared by.
const mostAxes = 24

// mostTexts is how many texts of one name runs are compared by: a name for each run is none.
const mostTexts = 20

// axesOf are the names of facts that differ between runs.
func axesOf(rows []report.IndexRow) []string {
	first, differ, texts := map[string]report.Fact{}, map[string]bool{}, map[string]map[string]bool{}
	for i := range rows {
		for _, f := range rows[i].Facts {
			if x, ok := first[f.Name]; !ok {
				first[f.Name], texts[f.Name] = f, map[string]bool{}
			} else if x != f {
				differ[f.Name] = true
			}
			if f.Text != "" && len(texts[f.Name]) <= mostTexts {
				texts[f.Name][f.Text] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(differ))
	names = slices.DeleteFunc(names, func(name string) bool { return len(texts[name]) > mostTexts })
	return names[:min(len(names), mostAxes)]
}

func kindsOfOOM(n int) string {
	if n == 0 {
		return "no request failed"
	}
	return units.Plural(n, "different failure")
}

// WholeOf is what a row's bar is drawn against.
func (v *indexView) WholeOf(r *report.IndexRow) int64 {
	if r.Capacity != nil && r.Allocated != nil {
		return max(*r.Capacity, *r.Allocated)
	}
	return v.Whole
}

func (v *indexView) data(r *report.IndexRow) rowData {
	d := rowData{IndexRow: r, Parts: []int64{}, Time: minute(r.Time)}
	if r.Time != nil {
		d.At = new(*r.Time / 1000)
	}
	for _, f := range r.Facts {
		if at, ok := slices.BinarySearch(v.Axes, f.Name); ok {
			if d.Facts = append(d.Facts, at, f.Value); f.Text != "" {
				d.Facts[len(d.Facts)-1] = f.Text
			}
		}
	}
	for k, bytes := range r.Categories {
		if bytes > 0 {
			d.Parts = append(d.Parts, int64(k), bytes)
		}
	}
	return d
}

var statusWords = map[report.Status]string{report.StatusOOM: "Out of memory", report.StatusLeak: "Leak",
	report.StatusWarning: "Warning", report.StatusFailed: "Failed", report.StatusFine: "Fine"}

// CategoryNames are what the script calls the parts of bars by.
func (v *indexView) CategoryNames() []string { return report.Categories }

// day and minute are times as UTC, "" for unknown ones.
func day(us *int64) string    { return clock(us, "2006-01-02") }
func minute(us *int64) string { return clock(us, "2006-01-02 15:04") }

func clock(us *int64, layout string) string {
	if us == nil {
		return ""
	}
	return time.UnixMicro(*us).UTC().Format(layout)
}

// seen is when a failure was, from the first to the last day; "" when that isn't known.
func seen(first, last *int64) string {
	if a, b := day(first), day(last); a != b {
		return a + " to " + b
	}
	return day(first)
}

// rootOf is the innermost folder that all paths lie in, with the slash behind it.
func rootOf(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	root := paths[0]
	for _, path := range paths {
		for !strings.HasPrefix(path, root) {
			root = root[:strings.LastIndexByte(strings.TrimSuffix(root, "/"), '/')+1]
		}
	}
	return root[:strings.LastIndexByte(root, '/')+1]
}

// Below is a path without the folder that all runs lie in, and of a long one the end.
func (v *indexView) Below(path string) string {
	if path = strings.TrimPrefix(path, v.Root); len(path) > longestPath {
		if short := report.ShortFile(path); short != path {
			return "…/" + short
		}
	}
	return path
}

// longestPath is how long a path stands in the page as it is, in bytes.
const longestPath = 36

// curve is a small curve, 120 wide and 28 high, and where it ends.
type curve struct {
	Points string
	X, Y   float64
}

func sparkline(values []int64) curve {
	const width, height, most = 120.0, 28.0, 240
	var points [][2]float64
	for _, n := range values {
		points = append(points, [2]float64{0, float64(n)})
	}
	points = thinned(points, most)
	var c curve
	top := float64(max(1, slices.Max(values)))
	for i, at := range points {
		c.X, c.Y = width/2, height-3-(height-6)*at[1]/top
		if len(points) > 1 {
			c.X = 3 + (width-6)*float64(i)/float64(len(points)-1)
		}
		c.Points += fmt.Sprintf("%.1f,%.1f ", c.X, c.Y)
	}
	return c
}
