package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
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
		if d := &doc.Devices[i]; len(d.OOMs) > 0 {
			return oomVerdict(d)
		}
	}
	if v, ok := logs.Verdict(doc); ok && v.Severity == report.Critical {
		return v // the recording has no failed request, but the log does
	}
	main := doc.Fullest()
	if v, ok := defectVerdict(doc); ok {
		return v
	}
	v := report.Verdict{Severity: report.Info}
	where := ""
	if len(doc.Devices) > 1 {
		where = fmt.Sprintf(" on device %d, the fullest of %d", main.Device, len(doc.Devices))
	}
	switch {
	case main.History == "none":
		v.Severity = report.Warning
		said := "No history was recorded; at the dump"
		if doc.Inputs[main.Input].Partial {
			said = "The file was cut off before its events; in what is left of its segments"
		}
		v.Text = fmt.Sprintf("%s %s were allocated in %s and %s reserved%s", said,
			units.Bytes(main.AtEnd.AllocatedBytes), units.Plural(main.AtEnd.Blocks, "block"),
			units.Bytes(main.AtEnd.ReservedBytes), where)
		if i := slices.IndexFunc(main.Findings, func(f report.Finding) bool {
			return f.ID == "recording_empty" ||
				f.ID == "recording_stopped"
		}); i >= 0 {
			v.Fix = main.Findings[i].Fix
		}
	default:
		v.Text = fmt.Sprintf("No failure recorded: memory peaked at %s allocated and %s reserved%s",
			units.Bytes(main.Peaks.Allocated.Bytes), units.Bytes(main.Peaks.Reserved.Bytes), where)
		if main.CapacityBytes != nil {
			v.Text += fmt.Sprintf(", of %s", units.Bytes(*main.CapacityBytes))
		}
		if reserved := main.Peaks.Reserved.Bytes; main.Before() && share(reserved-main.Peaks.Allocated.Bytes,
			reserved) >= wasteLong {
			v.Text += "; so much was reserved before the recording that more may have been allocated then"
		}
	}
	full := slices.IndexFunc(main.Findings, func(f report.Finding) bool {
		return f.ID == "cache_flushed" &&
			f.Severity == report.Warning
	})
	if full >= 0 {
		v.Severity = report.Warning
		v.Text = "No request failed, but " + lowerFirst(main.Findings[full].Title) + strings.Replace(v.Text,
			"No failure recorded: ", "; ", 1)
	}
	if f := worthChanging(main); f != nil && v.Fix == nil {
		v.Fix, v.SavesBytes = f.Fix, f.SavesBytes
	} else if full >= 0 && v.Fix == nil {
		v.Fix = main.Findings[full].Fix
	}
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			if f.ID == "damage" && v.Severity == report.Info {
				v.Severity = report.Warning
			}
		}
	}
	return v
}

// worthChanging is the finding whose fix saves most of those that save a part of
// the peak worth having and are sure enough, nil when none is.
func worthChanging(d *report.Device) *report.Finding {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Fix != nil && f.Confidence >= 0.7 && share(saved(f), d.Peaks.Allocated.Bytes) >= 10 {
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
			for k := range d.Leaks {
				if l := &d.Leaks[k]; l.Kind == f.ID && l.Defect && !l.Suspected && leakTitle(l) == f.Title {
					return leakVerdict(d, l, f), true
				}
			}
			if text, ok := mistake(f); ok {
				return report.Verdict{Severity: f.Severity, Text: text, Fix: f.Fix, SavesBytes: f.SavesBytes}, true
			}
		}
	}
	return report.Verdict{}, false
}

// mistake is a mistake in the program that isn't told by a leak, in one sentence
// with the line of code that its evidence begins with.
func mistake(f *report.Finding) (string, bool) {
	if f.ID != "missing_no_grad" && !isAgain(f) {
		return "", false
	}
	text := f.Title
	for _, at := range []string{"called in ", "made at ", "stepped at "} {
		if len(f.Evidence) > 0 && strings.HasPrefix(f.Evidence[0], at) {
			text += ", " + f.Evidence[0]
		}
	}
	return text, true
}

// leakVerdict says what grows, by how much, and where.
func leakVerdict(d *report.Device, l *report.Leak, f *report.Finding) report.Verdict {
	text := f.Title
	if l.BytesPerStep != nil && (l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph) {
		about := ""
		if uneven(l, 0) {
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
		text += calledFrom(l.CalledFrom)
	}
	return report.Verdict{Severity: f.Severity, Text: text, Fix: f.Fix, SavesBytes: f.SavesBytes}
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
		return v
	}
	return report.Verdict{Severity: report.Info, Text: "no snapshot was given"}
}

// oomVerdict says what failed, when, and what held the memory.
func oomVerdict(d *report.Device) report.Verdict {
	o := d.OOMs[len(d.OOMs)-1]
	text := "Out of memory"
	if o.Phase != nil {
		text += " in " + phaseText[*o.Phase]
	}
	text += ofStep(d, o.Event) + fmt.Sprintf(" on device %d: %s asked for", d.Device, units.Bytes(o.RequestedBytes))
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
	if name, bytes := largest(&d.AtPeak); bytes > 0 && name != "unknown" {
		text += fmt.Sprintf("; %s %s (%s)", holding(name), units.Bytes(bytes), units.Percent(bytes, d.AtPeak.AllocatedBytes))
	}
	if n := stepsAfter(d, o.Event); n > 1 {
		text += fmt.Sprintf(". The program caught it and went on: %s without a failure follow", units.Plural(n, "step"))
	}
	v := report.Verdict{Severity: report.Critical, Text: text}
	for _, f := range d.Findings {
		if f.Severity == report.Critical {
			v.Fix, v.SavesBytes = f.Fix, f.SavesBytes
			break
		}
	}
	return v
}

// refusedFor is why a request failed that the bytes missing don't tell.
var refusedFor = map[string]string{"fragmentation": ", free only in pieces",
	"memory_fraction": ", refused by a limit below the device's size",
	"other_process":   ", with others on the device"}

// phaseText is a phase in a sentence.
var phaseText = map[string]string{"setup": "setup", "data": "data loading", "forward": "the forward pass",
	"backward":  "the backward pass",
	"optimizer": "the optimizer step", "zero_grad": "zero_grad", "generate": "generation", "other": "other work"}

// holding is a category as the beginning of a sentence on what it holds.
func holding(category string) string {
	switch category {
	case "temporary":
		return "temporary tensors hold"
	case "kv_cache":
		return "keys and values hold"
	case "communication":
		return "buffers for communication hold"
	case "optimizer_state", "workspace":
		return strings.ReplaceAll(category, "_", " ") + " holds"
	}
	return strings.ReplaceAll(category, "_", " ") + " hold"
}

// largest is the category that holds most, unknown where that is weights by guess.
func largest(m *report.Moment) (name string, bytes int64) {
	for _, c := range report.Categories {
		if m.Categories[c] > bytes {
			name, bytes = c, m.Categories[c]
		}
	}
	if name == classify.Weights.String() && m.GuessedWeights {
		name = classify.Unknown.String()
	}
	return name, bytes
}
