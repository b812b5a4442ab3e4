package html

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// page is what the templates see.
type page struct {
	*report.Document
	Policy   string
	Shared   string // the file with its script, "": they are in the page
	Style    template.CSS
	Name     string // in the head of the page
	Devices  []deviceView
	Plots    []*plot // of logs and monitors
	Pinned   *plot   // host memory, nil where none was recorded
	Sections []section
	Sheet    *view.Page
	Markdown string
	Tag      string // above the verdict
	Main     int    // place in Devices of the one that the verdict is about
}

// deviceView is a device with what the templates need beside it.
type deviceView struct {
	*report.Device
	Sheet  view.OfDevice
	Index  int
	Suffix string        // makes the ids of its elements unique
	Table  []report.Site // the first rows of the table, for those without scripts
	More   int           // rows that only the script shows
	Charts []chart
	Data   any  // the columns in base64, where a server has them, or nil without pictures
	Kinds  bool // memory was told apart by category
	Stacks []stackView
	Mapped bool       // the page can say where everything lies at any event
	Grown  []grownRow // what its chart draws

	columns []byte // gzipped
}

// chart is an ECharts option with its place in the page.
type chart struct {
	ID     string
	Option option
}

// tableRows is how many rows of the table stand in the page without a script.
const tableRows = 25

// longestName is how long a command may be that names a page, in bytes.
const longestName = 80

func newPage(doc *report.Document) (*page, error) {
	v := &page{Document: doc, Name: doc.Title, Markdown: ticket(view.Document(doc, view.Ticket))}
	if c := doc.Environment.Command; v.Name == "" && c != nil && len(*c) <= longestName {
		v.Name = *c
	}
	if in := doc.About(); v.Name == "" && in != nil {
		v.Name = report.ShortFile(in.Path)
		var paths []string
		for i := range doc.Inputs {
			paths = append(paths, strings.ReplaceAll(doc.Inputs[i].Path, `\`, "/"))
		}
		if folder := path.Base(rootOf(paths)); doc.Ranks != nil && strings.Trim(folder, "./") != "" {
			v.Name = folder // a job, of which the first input is any rank's
		}
	}
	main := view.Main(doc)
	v.Tag = verdictTag(doc, main)
	v.Sheet = view.OnPage(doc)
	for place, i := range view.Shown(doc) {
		d, err := newDeviceView(&doc.Devices[i], place, doc)
		d.Sheet = v.Sheet.Devices[place]
		if err != nil {
			return nil, err
		}
		v.Devices = append(v.Devices, d)
		if i == main {
			v.Main = place
		}
	}
	v.Plots, v.Pinned = evidencePlots(doc), hostPlot(doc.Host)
	v.Sections = v.sections()
	return v, nil
}

// verdictTag is the verdict in a few words, those of a failed request if one is told.
func verdictTag(doc *report.Document, main int) string {
	const failed = "Out of memory"
	if main >= 0 {
		if n := len(doc.Devices[main].OOMs); n > 0 && doc.Devices[main].OOMs[n-1].Verdict != report.UnknownVerdict {
			return failed + ": " + doc.Devices[main].OOMs[n-1].Why()
		} else if n > 0 {
			return failed
		}
	}
	if a := doc.Verdict.About; a != nil && a.Device < 0 && a.Finding >= 0 {
		f := &doc.Findings[a.Finding]
		if kind, ok := strings.CutPrefix(f.ID, "oom_"); ok && f.Confidence < 0.5 {
			return failed
		} else if ok {
			return failed + ": " + view.Plain(kind)
		}
	}
	return capital(doc.Verdict.Severity.Words())
}

func newDeviceView(d *report.Device, index int, doc *report.Document) (deviceView, error) {
	v := deviceView{Device: d, Index: index, Table: d.Sites[:min(len(d.Sites), tableRows)]}
	v.More = len(d.Sites) - len(v.Table)
	if index > 0 {
		v.Suffix = fmt.Sprintf("-d%d", index)
	}
	for category, bytes := range d.AtPeak.Categories {
		v.Kinds = v.Kinds || bytes > 0 && category != words.Unknown.String()
	}
	if c := doc.Comparison; c != nil && d == &doc.Devices[c.Index] {
		v.add("phases", budgetChart(append([]report.Compared{c.Peak}, c.Phases...)))
		v.add("budget", budgetChart(c.Categories))
	}
	if d.Pictures == nil {
		return v, nil
	}
	return v, v.draw()
}

// draw makes the pictures.
func (v *deviceView) draw() (err error) {
	d := v.Device
	v.Stacks = largestStacks(d)
	if len(d.Pictures.Curve.Events) > 1 {
		v.add("area", areaChart(d))
	}
	if len(d.Sites) > 0 {
		v.add("tree", treeChart())
	}
	if d.Pictures.Growth != nil {
		v.Grown = grownRows(d)
		v.add("grown", growthChart(d, v.Grown))
	}
	v.Mapped = len(d.Pictures.Segments) > 0 || len(d.Pictures.Bands.Address) > 0
	if v.columns, err = pack(d); err == nil {
		v.Data = base64.StdEncoding.EncodeToString(v.columns)
	}
	return err
}

func (v *deviceView) add(id string, o option) { v.Charts = append(v.Charts, chart{id + v.Suffix, o}) }

// HasChart reports whether a chart was made.
func (v *deviceView) HasChart(id string) bool {
	return slices.ContainsFunc(v.Charts, func(c chart) bool { return c.ID == id+v.Suffix })
}

// bare is a text without the parentheses around it.
func bare(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "("), ")")
}

// Drawn reports whether anything needs the charting library.
func (v *page) Drawn() bool {
	return slices.ContainsFunc(v.Devices, func(d deviceView) bool { return len(d.Charts) > 0 || d.Data != nil })
}

// section is a part of the page, for its navigation.
type section struct{ ID, Name string }

// sections are those that the page has of the device that it opens at.
func (v *page) sections() (out []section) {
	add := func(id, name string, there bool) {
		if there {
			out = append(out, section{id, name})
		}
	}
	add("overview", "Verdict", true)
	add("ranks", "Ranks", v.Ranks != nil)
	add("run-findings", "Findings", len(v.Findings) > 0 && len(v.Devices) == 0)
	if len(v.Devices) > 0 {
		d := &v.Devices[v.Main]
		add("changes"+d.Suffix, "Changes", len(d.Changes) > 0)
		add("findings"+d.Suffix, "Findings", len(d.Findings) > 0 && len(d.Changes) == 0)
		add("memory"+d.Suffix, "Memory", d.HasMemory())
		add("events"+d.Suffix, "Events", d.Data != "" && d.Mapped && d.Events > 1)
		add("peak"+d.Suffix, "Call sites", true)
		add("findings"+d.Suffix, "Findings", len(d.Findings) > 0 && len(d.Changes) > 0)
		add("budget"+d.Suffix, "Budget", len(d.Sheet.Budget) > 0)
		add("settings"+d.Suffix, "Settings", len(d.Sheet.Trials) > 0)
		add("segments"+d.Suffix, "Segments", d.HasSegments())
		add("growth"+d.Suffix, "Growth", d.HasGrowth())
		add("stacks"+d.Suffix, "Stacks", len(d.Stacks) > 0)
	}
	add("host", "Host memory", v.Host != nil)
	add("evidence", "Logs and monitors", len(v.Sheet.Said)+len(v.Plots) > 0)
	add("made", "How made", true)
	return out
}

// HasMemory reports whether there is a curve to show.
func (v *deviceView) HasMemory() bool { return v.HasChart("area") || v.Data != nil && v.Events > 1 }

// HasSegments is about the map, pools and what pinned free memory.
func (v *deviceView) HasSegments() bool {
	return v.Segments.Count > 0 || v.Mapped || len(v.Pools) > 0 || len(v.OOMs) > 0
}

// HasGrowth is about what is worth more than a word.
func (v *deviceView) HasGrowth() bool { return len(v.Leaks) > 0 || v.HasChart("grown") }

// Leaking reports whether what stays from step to step is the verdict's proof.
func (v *deviceView) Leaking() bool {
	return v.HasChart("grown") && slices.ContainsFunc(v.Leaks, func(l report.Leak) bool {
		return l.Kind == "growing_list" || l.Kind == "retained_graph"
	})
}

// InPieces reports whether the failure is about how the memory lies.
func (v *deviceView) InPieces() bool {
	n := len(v.OOMs)
	return n > 0 && v.OOMs[n-1].Verdict == report.Fragmentation
}
