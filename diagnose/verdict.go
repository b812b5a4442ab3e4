package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// verdict is the whole report in one sentence.
func verdict(doc *report.Document) report.Verdict {
	if len(doc.Devices) == 0 {
		return noDevices(doc)
	}
	for i := range doc.Devices {
		if len(doc.Devices[i].OOMs) > 0 {
			return oomVerdict(doc, i)
		}
	}
	if v, ok := logs.Verdict(doc); ok && v.Severity == report.Critical {
		v.About = &report.About{Device: -1}
		return v // the recording has no failed request, but the log does
	}
	if v, ok := defectVerdict(doc); ok {
		return v
	}
	v := fullestVerdict(doc)
	for _, d := range doc.Devices {
		if v.Severity == report.Info && findingWith(&d, "damage") >= 0 {
			v.Severity = report.Warning
		}
	}
	return v
}

// findingWith is the index of a device's first finding with one of some ids, -1 for
// none.
func findingWith(d *report.Device, ids ...string) int {
	return slices.IndexFunc(d.Findings, func(f report.Finding) bool { return slices.Contains(ids, f.ID) })
}

// fullestVerdict is about the device that held most, where nothing failed.
func fullestVerdict(doc *report.Document) report.Verdict {
	main := doc.Fullest()
	v := report.Verdict{Severity: report.Info, About: &report.About{Finding: -1}}
	for &doc.Devices[v.About.Device] != main {
		v.About.Device++
	}
	where := ""
	if len(doc.Devices) > 1 {
		where = fmt.Sprintf(" on device %d, the fullest of %d", main.Device, len(doc.Devices))
	}
	full := findingWith(main, "cache_flushed")
	if full >= 0 && main.Findings[full].Severity != report.Warning {
		full = -1
	}
	switch {
	case main.History == "none":
		v.Severity, v.Text = report.Warning, atTheDump(main, doc.Inputs[main.Input].Partial)+where
		if i := findingWith(main, "recording_empty", "recording_stopped"); i >= 0 {
			v.Fix = main.Findings[i].Fix
		}
	case full >= 0:
		v.Severity, v.About.Finding = report.Warning, full
		v.Text = "No request failed, but " + facts.LowerFirst(main.Findings[full].Title) + "; " + peaked(main, where)
	default:
		v.Text = "No failure recorded: " + peaked(main, where)
	}
	if f := worthChanging(main); f != nil && v.Fix == nil {
		v.Fix, v.SavesBytes = f.Fix, f.SavesBytes
	} else if full >= 0 && v.Fix == nil {
		v.Fix = main.Findings[full].Fix
	}
	return v
}

// atTheDump says what was there at the end of a recording that holds no history.
func atTheDump(d *report.Device, cut bool) string {
	said := "No history was recorded; at the dump"
	if cut {
		said = "The file was cut off before its events; in what is left of its segments"
	}
	return fmt.Sprintf("%s %s were allocated in %s and %s reserved", said, units.Bytes(d.AtEnd.AllocatedBytes),
		units.Plural(d.AtEnd.Blocks, "block"), units.Bytes(d.AtEnd.ReservedBytes))
}

// peaked says how much memory a device held at most.
func peaked(d *report.Device, where string) string {
	allocated, reserved := d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes
	text := fmt.Sprintf("memory peaked at %s allocated and %s reserved%s", units.Bytes(allocated), units.Bytes(reserved), where)
	if d.CapacityBytes != nil {
		text += ", of " + units.Bytes(*d.CapacityBytes)
	}
	if d.Before() && facts.Share(reserved-allocated, reserved) >= facts.WasteLong {
		text += "; so much was reserved before the recording that more may have been allocated then"
	}
	return text
}

// worthChanging is the finding whose fix saves most of those that save a part of
// the peak worth having and are sure enough, nil when none is.
func worthChanging(d *report.Device) *report.Finding {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Fix != nil && f.Confidence >= 0.7 && facts.Share(saved(f), d.Peaks.Allocated.Bytes) >= 10 {
			return f
		}
	}
	return nil
}

// defectVerdict is about the first mistake in the program that is sure enough.
func defectVerdict(doc *report.Document) (report.Verdict, bool) {
	for i := range doc.Devices {
		d := &doc.Devices[i]
		for j := range d.Findings {
			f := &d.Findings[j]
			if text, ok := mistake(d, f); ok {
				return report.Verdict{Severity: f.Severity, Text: text, Fix: f.Fix, SavesBytes: f.SavesBytes,
					About: &report.About{Device: i, Finding: j}}, true
			}
		}
	}
	return report.Verdict{}, false
}

// mistake is a mistake in the program in one sentence, with the line of code that the
// finding names.
func mistake(d *report.Device, f *report.Finding) (string, bool) {
	switch l := f.Leak; {
	case l != nil && l.Defect && !l.Suspected:
		return leakText(d, l, f), true
	case f.ID != "missing_no_grad" && f.Kind != report.MadeAgain:
		return "", false
	case f.At == nil:
		return f.Title, true
	}
	return f.Title + ", " + f.Did + " " + facts.PlaceText(f.At), true
}

// leakText says what grows, by how much, and where.
func leakText(d *report.Device, l *report.Leak, f *report.Finding) string {
	text := f.Title
	if l.BytesPerStep != nil && (l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph) {
		about := ""
		if checks.Uneven(l, 0) {
			about = "about "
		}
		text = fmt.Sprintf("Memory on device %d grows by %s%s in every step. %s", d.Device, about, units.Bytes(*l.BytesPerStep),
			text)
	}
	if l.File != nil {
		text += ", at " + *l.Function + " " + report.ShortFile(*l.File)
		if l.Line != nil {
			text += fmt.Sprintf(":%d", *l.Line)
		}
		text += facts.CalledFrom(l.CalledFrom)
	}
	return text
}

func noDevices(doc *report.Document) report.Verdict {
	for _, in := range doc.Inputs {
		if in.Kind == "snapshot" && in.Era != nil { // it was read
			if len(in.Damage) > 0 {
				return report.Verdict{Severity: report.Warning, Text: "the recording is damaged, and nothing of it is left: " +
					in.Damage[0], Fix: ptr("Dump again if you can")}
			}
			return report.Verdict{Severity: report.Warning,
				Text: "empty recording: no CUDA memory was allocated, and no event recorded",
				Fix:  ptr("Record in the process that uses the GPU, before the model is built, and dump while it is alive")}
		}
	}
	if v, ok := logs.Verdict(doc); ok {
		if len(doc.Findings) > 0 && doc.Findings[0].Severity != report.Info {
			v.About = &report.About{Device: -1}
		}
		return v
	}
	return report.Verdict{Severity: report.Info, Text: "nothing in it tells of memory or of a failure"}
}

// oomVerdict says what failed, when, and what held the memory.
func oomVerdict(doc *report.Document, device int) report.Verdict {
	d := &doc.Devices[device]
	o := d.OOMs[len(d.OOMs)-1]
	text := "Out of memory"
	if o.Phase != nil {
		text += " in " + report.PhaseText[*o.Phase]
	}
	text += facts.OfStep(d, o.Event) + fmt.Sprintf(" on device %d: %s asked for", d.Device, units.Bytes(o.RequestedBytes))
	if o.Site != nil && (o.Site.Op != "" || o.Site.Function != "") {
		text += " by " + o.Site.Short()
		if o.Site.Function != "" && o.Site.Op != "" {
			text += " (" + o.Site.Op + ")"
		}
	}
	if o.MissingBytes != nil && *o.MissingBytes > 0 {
		text += fmt.Sprintf(", %s missing", units.Bytes(*o.MissingBytes))
	}
	text += refusedFor[o.Verdict]
	if o.DeviceFreeBytes != nil {
		text += fmt.Sprintf(" (%s left on the device, %s free in PyTorch's cache)", units.Bytes(*o.DeviceFreeBytes),
			units.Bytes(o.ReservedBytes-o.AllocatedBytes))
	}
	if name, bytes := facts.Largest(&d.AtPeak); bytes > 0 && name != classify.Unknown.String() {
		text += fmt.Sprintf("; %s %s (%s)", holding(name), units.Bytes(bytes), units.Percent(bytes, d.AtPeak.AllocatedBytes))
	}
	if n := facts.StepsAfter(d, o.Event); n > 1 {
		text += fmt.Sprintf(". The program caught it and went on: %s without a failure follow", units.Plural(n, "step"))
	}
	v := report.Verdict{Severity: report.Critical, Text: text, About: &report.About{Device: device, Finding: -1}}
	if len(d.Findings) > 0 && d.Findings[0].Severity == report.Critical { // the worst stand first
		f := &d.Findings[0]
		v.Fix, v.SavesBytes, v.About.Finding = f.Fix, f.SavesBytes, 0
	}
	return v
}

// refusedFor is why a request failed that the bytes missing don't tell.
var refusedFor = map[string]string{report.Fragmentation: ", free only in pieces",
	report.MemoryFraction: ", refused by a limit below the device's size",
	report.OtherProcess:   ", with others on the device"}

// holding is a category as the beginning of a sentence on what it holds.
func holding(category string) string {
	switch category {
	case classify.Temporary.String():
		return "temporary tensors hold"
	case classify.KVCache.String():
		return "keys and values hold"
	case classify.Communication.String():
		return "buffers for communication hold"
	case classify.OptimizerState.String(), classify.Workspace.String():
		return strings.ReplaceAll(category, "_", " ") + " holds"
	}
	return strings.ReplaceAll(category, "_", " ") + " hold"
}
