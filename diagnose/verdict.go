package diagnose

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
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
	v := report.Verdict{Severity: report.Info, About: &report.About{Finding: -1}, Causes: main.Causes}
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
		if held := heldMost(main); held != "" { // as `vramscope attach` asks a program: nothing was to be recorded
			v.Text += "; " + held
		} else if i := findingWith(main, "recording_empty", "recording_stopped"); i >= 0 {
			v.Fix = main.Findings[i].Fix
		}
	case full >= 0:
		v.Severity, v.About.Finding = report.Warning, full
		v.Text = "No request failed, but " + facts.LowerFirst(main.Findings[full].Title) + "; " + peaked(main, where)
	case main.Input < len(doc.Inputs) && doc.Inputs[main.Input].Partial:
		v.Severity, v.Text = report.Warning, "The file is cut off; up to there no request failed, and "+peaked(main, where)
	default:
		sayWhole(doc, &v, peaked(main, where))
	}
	if v.Fix == nil {
		takeChange(&v, main)
	}
	if full >= 0 && v.Fix == nil {
		v.Fix = main.Findings[full].Fix
	}
	return v
}

// sayWhole is about a recording in which nothing failed, by what else is known of the run.
func sayWhole(doc *report.Document, v *report.Verdict, peaked string) {
	grows, ended := grownInLog(doc), logs.WithoutFailure(doc.Ended)
	switch {
	case ended != "":
		v.Text = ended + "; " + peaked
	case grows != nil:
		v.Text = "No request failed, but " + facts.LowerFirst(grows.Title) + "; " + peaked
	default:
		v.Text = "No failure recorded: " + peaked
	}
	if grows != nil {
		v.Severity, v.Fix = report.Warning, grows.Fix
	}
}

// grownInLog is what a log's own figures show of memory that rises step by step, which a recording of
// the end may not, when all has been let go; nil where they don't.
func grownInLog(doc *report.Document) *report.Finding {
	if doc.Evidence == nil || len(doc.Evidence.Steps) == 0 {
		return nil
	}
	i := slices.IndexFunc(doc.Findings, func(f report.Finding) bool {
		return f.ID == "memory_grows" && f.Severity == report.Warning && f.Confidence >= surelyGrows
	})
	if i < 0 {
		return nil
	}
	return &doc.Findings[i]
}

// surelyGrows is how sure a log's growth must be to speak against a recording without any.
const surelyGrows = 0.75

// atTheDump says what was there at the end of a recording that holds no history.
func atTheDump(d *report.Device, cut bool) string {
	said := "No history was recorded; at the dump"
	if cut {
		said = "The file was cut off before its events; in what is left of its segments"
	}
	return fmt.Sprintf("%s %s were allocated in %s and %s reserved", said, units.Size(d.AtEnd.AllocatedBytes),
		units.Plural(d.AtEnd.Blocks, "block"), units.Size(d.AtEnd.ReservedBytes))
}

// heldMost names the variable that holds most at the dump, "" where none was looked for or holds a tenth.
func heldMost(d *report.Device) string {
	if len(d.Holders) == 0 {
		return ""
	}
	h := &d.Holders[0]
	bytes := h.Bytes + h.GraphBytes
	if facts.Share(bytes, d.AtEnd.AllocatedBytes) < 10 {
		return ""
	}
	return h.Path + " holds " + units.Size(bytes) + " of them in " + units.Plural(h.Tensors, "tensor")
}

// peaked says how much memory a device held at most.
func peaked(d *report.Device, where string) string {
	allocated, reserved := d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes
	text := fmt.Sprintf("memory peaked at %s allocated and %s reserved%s", units.Size(allocated), units.Size(reserved), where)
	switch {
	case d.CapacityBytes == nil:
	case reserved > *d.CapacityBytes:
		text += ", more than the GPU's " + units.Size(*d.CapacityBytes)
	default:
		text += ", of " + units.Size(*d.CapacityBytes)
	}
	if d.Before() && facts.Share(reserved-allocated, reserved) >= facts.WasteLong {
		text += "; so much was reserved before the recording that more may have been allocated then"
	}
	return text
}

// takeChange makes the first change to a device that of the verdict.
func takeChange(v *report.Verdict, d *report.Device) {
	if v.Best = firstChange(d); v.Best == nil {
		return
	}
	v.Fix, v.SavesBytes = &v.Best.Text, nil
	if saves := v.Best.Saves(); saves > 0 {
		v.SavesBytes = &saves
	} else if f := &d.Findings[v.Best.Finding]; f.FixID != nil && *f.FixID == *v.Best.FixID {
		v.SavesBytes = f.SavesBytes
	}
}

// defectVerdict is about the first mistake in the program that is sure enough.
func defectVerdict(doc *report.Document) (report.Verdict, bool) {
	for i := range doc.Devices {
		d := &doc.Devices[i]
		for j := range d.Findings {
			f := &d.Findings[j]
			if !isDefect(f) || slight(d, f) {
				continue
			}
			v := report.Verdict{Severity: f.Severity, Text: mistake(d, f), Fix: f.Fix, SavesBytes: f.SavesBytes,
				About: &report.About{Device: i, Finding: j}, Causes: d.Causes}
			takeChange(&v, d)
			return v, true
		}
	}
	return report.Verdict{}, false
}

// mistake is a mistake in the program in one or two sentences, with the line of code that
// the finding names.
func mistake(d *report.Device, f *report.Finding) string {
	switch {
	case f.Leak != nil && f.Leak.Defect:
		return leakText(d, f.Leak, f)
	case f.At == nil:
		return f.Title
	}
	return f.Title + ", " + f.Did + " " + facts.PlaceText(f.At)
}

// leakText says what grows, by how much, where, and when the GPU is full.
func leakText(d *report.Device, l *report.Leak, f *report.Finding) string {
	at := ""
	if p := l.Made(); p != nil {
		at = " at " + facts.PlaceText(p) + facts.CalledFrom(l.CalledFrom)
	}
	switch {
	case l.Steps == 0 && at != "":
		return f.Title + ", made" + at
	case l.Each() == "" || !grows(f):
		return f.Title + at
	}
	text := "Every step leaves " + l.Each() + " behind"
	if l.Uneven() { // perhaps some leave nothing
		text = units.Plural(l.Steps, "step") + " left " + units.Size(l.TotalBytes-l.Older) + " behind, " + l.Each() + " each"
	}
	if l.Older > 0 || !l.Uneven() {
		text += ", " + units.Size(l.TotalBytes) + " so far"
	}
	holder := ""
	if len(l.Holders) > 0 {
		holder = l.Holders[0].Path
	}
	if l.Kind == classify.RetainedGraph {
		return text + graphText(holder, at) + fullAt(d, l)
	}
	if holder != "" {
		holder = ", held by " + holder
	}
	if p := l.Stored(); p != nil {
		holder += ", stored at " + facts.PlaceText(p)
	}
	return text + ": " + outliving(l, at) + holder + fullAt(d, l)
}

// outliving says that what a leak keeps, made at a place, outlives its steps.
func outliving(l *report.Leak, at string) string {
	what, outlive := "tensors", " outlive it"
	switch c := evidence.Or(l.Category, ""); c {
	case "", classify.Temporary.String(), classify.Unknown.String():
	case classify.OptimizerState.String(), classify.KVCache.String():
		what, outlive = report.CategoryWords(c), " outlives it"
	default:
		what = report.CategoryWords(c)
	}
	if at != "" {
		what += " made" + at
	}
	return what + outlive
}

// graphText is the end of a sentence about a graph that is kept.
func graphText(holder, at string) string {
	keeps := "its autograd graph is kept"
	if holder != "" {
		keeps = holder + " keeps its autograd graph"
	}
	if at != "" {
		at = ". The last tensor of the graph is made" + at
	}
	return ": " + keeps + ", with all that was saved for backward" + at
}

// fullAt says when a leak will have filled the GPU, "" where nothing tells.
func fullAt(d *report.Device, l *report.Leak) string {
	if l.FullAtStep == nil || len(d.OOMs) > 0 {
		return ""
	}
	text := fmt.Sprintf(". At this pace the GPU is full at step %s", units.Count(*l.FullAtStep))
	if ends := d.StepEndsUS; len(ends) > 2 && len(d.Steps) > 0 { // of many devices no steps are kept
		seconds := float64(ends[len(ends)-1]-ends[0]) / 1e6 / float64(len(ends)-1)
		if more := *l.FullAtStep - d.Steps[len(d.Steps)-1].Step; seconds > 0 && more > 0 {
			text += ", after about " + units.Duration(seconds*float64(more)) + " more"
		}
	}
	return text
}

func noDevices(doc *report.Document) report.Verdict {
	for _, in := range doc.Inputs {
		if in.Kind == "snapshot" && in.Era != nil { // it was read
			if len(in.Damage) > 0 {
				return report.Verdict{Severity: report.Warning, Text: "the recording is damaged, and nothing of it is left: " +
					in.Damage[0], Fix: advice.Text("damage.all")}
			}
			return report.Verdict{Severity: report.Warning,
				Text: "empty recording: no CUDA memory was allocated, and no event recorded",
				Fix:  advice.Text("recording")}
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
