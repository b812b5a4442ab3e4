package html

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/markdown"
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
	Plots    []*plot // of the evidence
	Sections []section
	Said     []view.Part // by logs, monitors and traces
	Markdown string
	Tag      string // above the verdict
	Main     int    // place in Devices of the one that the verdict is about
}

// deviceView is a device with what the templates need beside it.
type deviceView struct {
	*report.Device
	Index   int
	Suffix  string // makes the ids of its elements unique
	Figures []figure
	Table   []report.Site // the first rows of the table, for those without scripts
	More    int           // rows that only the script shows
	Charts  []chart
	Data    any  // the columns in base64, where a server has them, or nil without pictures
	Kinds   bool // memory was told apart by category
	Stacks  []stackView
	Gaps    []string // what the recording can't show
	Mapped  bool     // the page can say where everything lies at any event
	Proof   proof
	Budget  *report.Comparison
	Trials  *report.Trials

	CategoryRows []categoryRow
	Grown        []grownRow // what its chart draws

	columns []byte // gzipped
}

// categoryRow is a category at the two moments that everybody asks for.
type categoryRow struct {
	Category  string
	Peak, End int64
}

// figure is one of the key figures.
type figure struct{ Label, Value, Note string }

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
	v := &page{Document: doc, Name: doc.Title}
	if c := doc.Environment.Command; v.Name == "" && c != nil && len(*c) <= longestName {
		v.Name = *c
	}
	if in := doc.About(); v.Name == "" && in != nil {
		v.Name = report.ShortFile(in.Path)
		if folder := commonFolder(doc.Inputs); doc.Ranks != nil && folder != "" {
			v.Name = folder // a job, of which the first input is any rank's
		}
	}
	doc = offMachine(doc)
	v.Document = doc
	main := verdictDevice(doc)
	v.Tag = verdictTag(doc, main)
	for place, i := range view.Shown(doc) {
		d, err := newDeviceView(&doc.Devices[i], place, doc)
		if err != nil {
			return nil, err
		}
		v.Devices = append(v.Devices, d)
		if i == main {
			v.Main = place
		}
	}
	v.Plots, v.Said = evidencePlots(doc), view.Evidence(doc)
	v.Sections = v.sections()
	var ticket strings.Builder
	err := markdown.Write(&ticket, view.Document(doc, view.Ticket))
	v.Markdown = ticket.String()
	return v, err
}

// offMachine is a report whose inputs are named without the folders of a machine: a page is shown to others.
func offMachine(doc *report.Document) *report.Document {
	shown := *doc
	shown.Inputs = slices.Clone(doc.Inputs)
	for i := range shown.Inputs {
		shown.Inputs[i].Path = report.OffMachine(shown.Inputs[i].Path)
	}
	shown.Command = slices.Clone(doc.Command)
	for i, word := range shown.Command {
		shown.Command[i] = report.OffMachine(word)
	}
	return &shown
}

// commonFolder is the name of the innermost folder that holds all inputs, ""
// without one.
func commonFolder(inputs []report.Input) string {
	var common []string
	for i, in := range inputs {
		folders := strings.Split(path.Dir(strings.ReplaceAll(in.Path, `\`, "/")), "/")
		if i == 0 {
			common = folders
		}
		n := 0
		for n < min(len(common), len(folders)) && common[n] == folders[n] {
			n++
		}
		common = common[:n]
	}
	if len(common) == 0 || strings.Trim(common[len(common)-1], ".") == "" {
		return ""
	}
	return common[len(common)-1]
}

// verdictDevice is the index of the device to show first: the one that failed, first
// of all ranks, or that the verdict is about; else the fullest. It is -1 without devices.
func verdictDevice(doc *report.Document) int {
	if doc.Ranks != nil && doc.Ranks.FirstOOM != nil {
		return doc.Ranks.Rows[doc.Ranks.FirstOOM.Row].Index
	}
	shown, main := view.Shown(doc), -1
	for _, i := range shown {
		if len(doc.Devices[i].OOMs) > 0 {
			return i
		}
		if main < 0 || doc.Devices[i].Peaks.Allocated.Bytes > doc.Devices[main].Peaks.Allocated.Bytes {
			main = i
		}
	}
	if a := doc.Verdict.About; a != nil && slices.Contains(shown, a.Device) {
		return a.Device
	}
	return main
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
	return severityWord(doc.Verdict.Severity)
}

func newDeviceView(d *report.Device, index int, doc *report.Document) (deviceView, error) {
	v := deviceView{Device: d, Index: index, Figures: figures(d), Table: d.Sites[:min(len(d.Sites), tableRows)], Gaps: gaps(d),
		Proof: newProof(d)}
	v.More = len(d.Sites) - len(v.Table)
	if index > 0 {
		v.Suffix = fmt.Sprintf("-d%d", index)
	}
	for category, bytes := range d.AtPeak.Categories {
		v.Kinds = v.Kinds || bytes > 0 && category != unknown
	}
	if x := doc.Trials; x != nil && d == &doc.Devices[x.Index] {
		v.Trials = x
	}
	if c := doc.Comparison; c != nil && d == &doc.Devices[c.Index] {
		v.Budget = c
		v.add("phases", budgetChart(append([]report.Compared{c.Peak}, c.Phases...)))
		v.add("budget", budgetChart(c.Categories))
	}
	for _, category := range report.Categories {
		if row := (categoryRow{category, d.AtPeak.Categories[category], d.AtEnd.Categories[category]}); row.Peak > 0 ||
			row.End > 0 {
			v.CategoryRows = append(v.CategoryRows, row)
		}
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
		v.add("tree", treeChart(d))
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
func (v *deviceView) HasChart(id string) bool { return hasChart(v.Charts, id+v.Suffix) }

// Logged are the plots of logs and monitors.
func (v *page) Logged() []*plot {
	return slices.DeleteFunc(slices.Clone(v.Plots), func(p *plot) bool { return p.ID == "host" })
}

// Plot is a plot of the evidence, nil where none was made.
func (v *page) Plot(id string) *plot {
	if i := slices.IndexFunc(v.Plots, func(p *plot) bool { return p.ID == id }); i >= 0 {
		return v.Plots[i]
	}
	return nil
}

// MoreDevices says how many devices have no place in the page, "" for none.
func (v *page) MoreDevices() string {
	return strings.TrimPrefix(view.MoreDevices(v.Document, len(v.Devices)), "and ")
}

// Effect is what comes of the verdict's change.
func (v *page) Effect() string { return bare(view.VerdictEffect(&v.Verdict)) }

// Where says where the run ran, as far as any evidence tells.
func (v *page) Where() (out []string) {
	e := &v.Environment
	add := func(name string, value *string) {
		if value != nil && *value != "" {
			out = append(out, strings.TrimSpace(name+" "+*value))
		}
	}
	add("", e.GPU)
	if e.WorldSize != nil && *e.WorldSize > 1 {
		out = append(out, units.Plural(*e.WorldSize, "rank"))
	}
	add("torch", e.Torch)
	add("CUDA", e.CUDA)
	add("driver", e.Driver)
	add("", e.Settings)
	return out
}

// Simulated is the badge of a GPU that wasn't there, "" for a real one.
func (v *page) Simulated() string { return view.Simulated(v.Document) }

// Rests is what the answer of a simulated GPU rests on.
func (v *page) Rests() []string { return view.SimulatedLines(v.Document) }

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
		add("budget"+d.Suffix, "Budget", d.Budget != nil)
		add("settings"+d.Suffix, "Settings", d.Trials != nil)
		add("segments"+d.Suffix, "Segments", d.HasSegments())
		add("growth"+d.Suffix, "Growth", d.HasGrowth())
		add("stacks"+d.Suffix, "Stacks", len(d.Stacks) > 0)
	}
	add("host", "Host memory", v.Host != nil)
	add("evidence", "Logs and monitors", len(v.Said)+len(v.Logged()) > 0)
	add("made", "How made", true)
	return out
}

func hasChart(charts []chart, id string) bool {
	return slices.ContainsFunc(charts, func(c chart) bool { return c.ID == id })
}

// HasMemory reports whether there is a curve to show.
func (v *deviceView) HasMemory() bool { return v.HasChart("area") || v.Data != nil && v.Events > 1 }

// HasSegments is about the map, pools and what pinned free memory.
func (v *deviceView) HasSegments() bool {
	return v.Segments.Count > 0 || v.Mapped || len(v.Pools) > 0 || v.Pinned()
}

// Pinned reports whether it is known what kept free memory from a failed request.
func (v *deviceView) Pinned() bool {
	return slices.ContainsFunc(v.OOMs, func(o report.OOM) bool { return len(o.PinnedBy) > 0 })
}

// HasGrowth is about what is worth more than a word.
func (v *deviceView) HasGrowth() bool { return len(v.Leaks) > 0 || v.HasChart("grown") }

// Leaking reports whether what stays from step to step is the verdict's proof.
func (v *deviceView) Leaking() bool {
	return v.HasChart("grown") && slices.ContainsFunc(v.Leaks, func(l report.Leak) bool {
		return l.Kind == "growing_list" || l.Kind == "retained_graph"
	})
}

// found are findings, the first of them open where nothing above it says what to change.
type found struct {
	List []*report.Finding
	Open bool
}

func foundOf(list []report.Finding, open bool) found {
	f := found{Open: open}
	for i := range list {
		f.List = append(f.List, &list[i])
	}
	return f
}

// Found are the device's findings.
func (v *deviceView) Found() found { return foundOf(v.Findings, len(v.Changes) == 0) }

// Found are the findings of the run.
func (v *page) Found() found { return foundOf(v.Findings, len(v.Devices) == 0) }

// Failed reports whether a request failed.
func (v *deviceView) Failed() bool { return len(v.OOMs) > 0 }

// Settings says what became of a run that failed under other settings of the allocator.
func (v *deviceView) Settings() string { return view.SettingsText(v.Device, v.Trials) }

// InPieces reports whether the failure is about how the memory lies.
func (v *deviceView) InPieces() bool {
	n := len(v.OOMs)
	return n > 0 && v.OOMs[n-1].Verdict == report.Fragmentation
}

// atEvent says where a peak lies.
func atEvent(d *report.Device, event *int) string {
	switch {
	case event != nil:
		return "at event " + units.Count(*event)
	case d.Events == 0:
		return "at the dump"
	}
	return "before the first event"
}

// figures are the key figures of a device, each with its name: "peak" alone
// means four different things.
func figures(d *report.Device) []figure {
	of := func(bytes int64, note string) string {
		if d.CapacityBytes != nil {
			return units.Percent(bytes, *d.CapacityBytes) + " of capacity, " + note
		}
		return note
	}
	cached := d.AtPeak.CacheBytes
	highest := atEvent(d, d.Peaks.Allocated.Event)
	if d.Before() {
		highest += "; before the recording it may have been more"
	}
	f := []figure{
		{"Peak allocated", units.Size(d.Peaks.Allocated.Bytes), of(d.Peaks.Allocated.Bytes, highest)},
		{"Peak reserved", units.Size(d.Peaks.Reserved.Bytes), of(d.Peaks.Reserved.Bytes, atEvent(d, d.Peaks.Reserved.Event))},
		{"Peak requested", units.Size(d.Peaks.Requested.Bytes), "what the program asked for, until really freed"},
		{"Capacity", "", ""},
		{"Free in the cache at the peak", units.Size(cached), units.Percent(cached, d.AtPeak.ReservedBytes) +
			" of what was reserved"},
		{"Outside PyTorch", "", ""},
		{"Recorded", units.Plural(d.Events, "event"), units.Plural(d.Allocations, "allocation") + ", " +
			view.Histories[d.History] + ", " + view.Stacks[d.Stacks] + duration(d)},
	}
	if d.AtPeak.ReservedBytes == 0 {
		f[4].Note = "nothing was reserved"
	}
	if lacks := view.Lacks(&d.AtPeak); lacks != "" {
		f[4].Value, f[4].Note = "none", lacks
	}
	if d.CapacityBytes != nil {
		f[3].Value, f[3].Note = units.Size(*d.CapacityBytes), ""
	}
	if note := view.CapacityNote(d); note != "" {
		f[3].Note = note
	}
	if m := &d.AtPeak; m.CUDAContext != nil || m.OtherProcesses != nil || m.Unaccounted != nil {
		var bytes int64
		var parts []string
		for i, part := range view.Besides(m) {
			if part != nil && *part > 0 {
				bytes += *part
				parts = append(parts, units.Size(*part)+" "+[...]string{"context and libraries", "other processes",
					"not accounted for"}[i])
			}
		}
		f[5].Value, f[5].Note = units.Size(bytes), strings.Join(parts, ", ")
	} else if outside, ok := outside(d); ok {
		f[5].Value, f[5].Note = units.Size(outside), "CUDA context, libraries and other processes when the request failed"
	}
	return slices.DeleteFunc(f, func(x figure) bool { return x.Value == "" }) // not known
}

// outside is what others held when a request failed.
func outside(d *report.Device) (int64, bool) {
	if n := len(d.OOMs); n > 0 && d.CapacityBytes != nil && d.CapacitySource != nil && *d.CapacitySource != "oom_entry" &&
		d.OOMs[n-1].DeviceFreeBytes != nil {
		o := &d.OOMs[n-1]
		if rest := *d.CapacityBytes - o.ReservedBytes - *o.DeviceFreeBytes; rest >= 0 {
			return rest, true
		}
	}
	return 0, false
}

// duration is how long the recording ran, where it has a clock.
func duration(d *report.Device) string {
	if d.FirstTime == nil || d.LastTime == nil || *d.LastTime < *d.FirstTime {
		return ""
	}
	return ", over " + units.Duration(float64(*d.LastTime-*d.FirstTime)/1e6)
}

// gaps says what the recording can't show, one line each.
func gaps(d *report.Device) []string {
	var out []string
	if d.History == "none" {
		out = append(out, "No history: the curves and the allocation timeline are missing ("+d.HistoryReason+").")
	}
	if d.Stacks == "none" {
		out = append(out, "No stacks: no line of code can be named.")
	}
	if d.CapacityBytes == nil {
		out = append(out, "The GPU's size isn't known: give it with --gpu, or add the log of the failure.")
	}
	return out
}

// InputPath is the name of an input.
func (v *page) InputPath(i int) string {
	if i < 0 || i >= len(v.Inputs) {
		return ""
	}
	return v.Inputs[i].Path
}
