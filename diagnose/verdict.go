package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
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
	case main.Input < len(doc.Inputs) && doc.Inputs[main.Input].Partial:
		v.Severity, v.Text = report.Warning, "The file is cut off; up to there no request failed, and "+peaked(main, where)
	default:
		v.Text = "No failure recorded: " + peaked(main, where)
	}
	if v.Fix == nil {
		takeChange(&v, main)
	}
	if full >= 0 && v.Fix == nil {
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
	return fmt.Sprintf("%s %s were allocated in %s and %s reserved", said, units.Size(d.AtEnd.AllocatedBytes),
		units.Plural(d.AtEnd.Blocks, "block"), units.Size(d.AtEnd.ReservedBytes))
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
	if len(d.Changes) == 0 {
		return
	}
	v.Best = &d.Changes[0]
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
			if !isDefect(f) {
				continue
			}
			v := report.Verdict{Severity: f.Severity, Text: mistake(d, f), Fix: f.Fix, SavesBytes: f.SavesBytes,
				About: &report.About{Device: i, Finding: j}}
			for k := range d.Changes {
				if d.Changes[k].Finding == j {
					v.Best = &d.Changes[k]
					break
				}
			}
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
	if l.File != nil {
		at = " at " + facts.PlaceText(&report.Place{Function: *l.Function, File: *l.File, Line: l.Line}) +
			facts.CalledFrom(l.CalledFrom)
	}
	if l.BytesPerStep == nil || !grows(f) {
		return f.Title + at
	}
	about := ""
	if checks.Uneven(l, 0) {
		about = "about "
	}
	text := fmt.Sprintf("Every step leaves %s%s behind, %s so far", about, units.Size(*l.BytesPerStep), units.Size(l.TotalBytes))
	what := "tensors"
	switch {
	case l.Kind == classify.RetainedGraph:
		keeps := "its autograd graph is kept"
		if len(l.Holders) > 0 {
			keeps = l.Holders[0].Path + " keeps its autograd graph"
		}
		text += ": " + keeps + ", with all that was saved for backward. The last tensor of the graph is made" + at
		if at == "" {
			text = strings.TrimSuffix(text, ". The last tensor of the graph is made")
		}
		return text + fullAt(d, l)
	case l.Category != nil && *l.Category != classify.Temporary.String() && *l.Category != classify.Unknown.String():
		what = report.CategoryWords(*l.Category)
	}
	text += ": " + what + " made" + at + " outlive it"
	if len(l.Holders) > 0 {
		text += ", held by " + l.Holders[0].Path
	}
	return text + fullAt(d, l)
}

// fullAt says when a leak will have filled the GPU, "" where nothing tells.
func fullAt(d *report.Device, l *report.Leak) string {
	if l.FullAtStep == nil || len(d.OOMs) > 0 {
		return ""
	}
	text := fmt.Sprintf(". At this pace the GPU is full at step %s", units.Count(*l.FullAtStep))
	if ends := d.StepEndsUS; len(ends) > 2 {
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
					in.Damage[0], Fix: new("Dump again if you can")}
			}
			return report.Verdict{Severity: report.Warning,
				Text: "empty recording: no CUDA memory was allocated, and no event recorded",
				Fix:  new("Record in the process that uses the GPU, before the model is built, and dump while it is alive")}
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
	if at := failedIn(d, &o); at != "" {
		text += " in " + at
	}
	if len(doc.Devices) > 1 {
		text += fmt.Sprintf(" on device %d", d.Device)
	}
	text += ": " + cause(d, &o)
	switch n := facts.StepsAfter(d, o.Event); {
	case n > 1:
		text += fmt.Sprintf(". The program caught the error and went on: %s without a failure follow", units.Plural(n, "step"))
	case peaksAfter(d, &o):
		text += fmt.Sprintf(". The program caught the error and went on, up to %s in use", units.Size(d.AtPeak.AllocatedBytes))
	}
	v := report.Verdict{Severity: report.Critical, Text: text, About: &report.About{Device: device, Finding: -1}}
	if len(d.Findings) > 0 && d.Findings[0].Severity == report.Critical { // the worst stand first
		f := &d.Findings[0]
		v.Fix, v.SavesBytes, v.About.Finding = f.Fix, f.SavesBytes, 0
	}
	takeChange(&v, d)
	return v
}

// failedIn is where in the run a request failed, "" where that isn't known.
func failedIn(d *report.Device, o *report.OOM) string {
	step := strings.TrimPrefix(facts.OfStep(d, o.Event), " of ")
	switch {
	case o.Phase == nil || *o.Phase == classify.OtherPhase.String():
		return step
	case *o.Phase == classify.Optimizer.String() && d.Projection != nil && stillToCome(d, *o.Phase) > 0:
		return "the first optimizer step"
	case *o.Phase == classify.Optimizer.String() && step != "":
		return "the optimizer's part of " + step
	case step == "":
		return report.PhaseText[*o.Phase]
	}
	return report.PhaseText[*o.Phase] + " of " + step
}

// stillToCome is what of the optimizer's state a first step had yet to make.
func stillToCome(d *report.Device, phase string) int64 {
	if phase != classify.Optimizer.String() {
		return 0
	}
	return d.Projection.Missed(classify.OptimizerState.String())
}

// cause says what filled the GPU and what was asked for, in two or three sentences.
func cause(d *report.Device, o *report.OOM) string {
	asked := units.Size(o.RequestedBytes) + " asked for"
	if o.Site != nil && (o.Site.Op != "" || o.Site.Function != "") {
		asked = cmp.Or(strings.TrimPrefix(o.Site.Op, "aten::"), "a request") + asksAt(o.Site) + " asked for " +
			units.Size(o.RequestedBytes)
	}
	asked = strings.ToUpper(asked[:1]) + asked[1:]
	free := o.ReservedBytes - o.AllocatedBytes
	if o.DeviceFreeBytes != nil {
		free += *o.DeviceFreeBytes
	}
	name, bytes := facts.Largest(&d.AtPeak)
	full := "the GPU is full"
	if bytes > 0 && name != classify.Unknown.String() {
		full = fmt.Sprintf("%s %s of %s in use", holding(name), units.Size(bytes), units.Size(d.AtPeak.AllocatedBytes))
	}
	if peaksAfter(d, o) {
		full = units.Size(o.AllocatedBytes) + " were in use"
	}
	full = cmp.Or(piledUp(d), full)
	short := o.MissingBytes != nil && *o.MissingBytes > 0
	switch {
	case o.Verdict == report.Fragmentation:
		return fmt.Sprintf("memory was free, but in pieces. %s; %s were free, the largest block %s", asked, units.Size(free),
			largestBlock(o))
	case o.Verdict == report.MemoryFraction:
		return fmt.Sprintf("a limit below the GPU's size refused the request. %s, with %s free on the GPU; %s", asked,
			units.Size(*o.DeviceFreeBytes), full)
	case o.Verdict == report.PendingFree:
		return "memory that the program had freed waits for another stream. " + asked + ", and the freed blocks would " +
			"have held it; " + full
	case o.Verdict == report.OtherProcess:
		held := "memory of this GPU"
		if n := d.AtPeak.OtherProcesses; n != nil && *n > 0 {
			held = units.Size(*n) + " of this GPU"
		}
		return "other processes hold " + held + ". " + asked + ", " + freeWords(o) + "; " + full
	case short && d.Projection != nil && o.Phase != nil && stillToCome(d, *o.Phase) > 0:
		return fmt.Sprintf("the optimizer's state doesn't fit. %s of it exist, %s are still to come; %s",
			units.Size(d.AtPeak.Categories[classify.OptimizerState.String()]), units.Size(stillToCome(d, *o.Phase)),
			facts.Needs(d.Projection, usable(d, o)))
	case short && d.Projection != nil && d.Projection.Missed(classify.Activations.String()) > 0:
		return fmt.Sprintf("%s. %s, %s; the whole pass needs about %s, PyTorch could have %s", full, asked, freeWords(o),
			units.Size(d.Projection.NeedsBytes), units.Size(usable(d, o)))
	case short && *o.MissingBytes > o.RequestedBytes:
		return fmt.Sprintf("%s. %s, %s; by the step before, the rest of the step needs %s more than there is", full, asked,
			freeWords(o), units.Size(*o.MissingBytes))
	case short:
		return fmt.Sprintf("%s. %s, %s: %s short", full, asked, freeWords(o), units.Size(*o.MissingBytes))
	case o.Verdict == report.UnknownVerdict:
		return full + ". " + asked
	}
	return fmt.Sprintf("%s. %s, %s", full, asked, freeWords(o))
}

// peaksAfter reports whether more was in use after a failure than before it: the program went on.
func peaksAfter(d *report.Device, o *report.OOM) bool {
	return d.AtPeak.Event != nil && *d.AtPeak.Event > o.Event
}

// piledUp names the growth that most of the memory belongs to, "" where none does.
func piledUp(d *report.Device) string {
	for i := range d.Findings {
		f := &d.Findings[i]
		if !grows(f) || 2*f.Leak.TotalBytes <= d.AtPeak.AllocatedBytes {
			continue
		}
		who, bytes := "tensors of all steps hold", f.Leak.TotalBytes
		if len(f.Leak.Holders) > 0 {
			if h := &f.Leak.Holders[0]; 2*(h.Bytes+h.GraphBytes) > d.AtPeak.AllocatedBytes {
				who, bytes = h.Path+" holds", h.Bytes+h.GraphBytes
			}
		}
		return fmt.Sprintf("%s %s of %s in use, more with every step", who, units.Size(bytes),
			units.Size(d.AtPeak.AllocatedBytes))
	}
	return ""
}

// usable is what PyTorch could have had.
func usable(d *report.Device, o *report.OOM) int64 {
	if o.DeviceFreeBytes == nil && d.CapacityBytes != nil {
		return *d.CapacityBytes
	}
	return o.ReservedBytes + evidence.Or(o.DeviceFreeBytes, 0)
}

// asksAt is the line that asked for memory, the user's where it is known.
func asksAt(s *report.Site) string {
	if p := facts.UserPlace(s); p != nil {
		return " at " + facts.PlaceText(p)
	}
	return ""
}

// freeWords is what was free, on the device and in the cache.
func freeWords(o *report.OOM) string {
	cached := o.ReservedBytes - o.AllocatedBytes
	if o.DeviceFreeBytes == nil {
		return units.Size(cached) + " were free in PyTorch's cache"
	}
	return units.Size(cached+*o.DeviceFreeBytes) + " were free"
}

func largestBlock(o *report.OOM) string {
	if o.LargestFreeBlock == nil {
		return "unknown"
	}
	return units.Size(*o.LargestFreeBlock)
}

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
