package logs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Ended is how the process ended, from all evidence; nil where nothing could tell.
func Ended(doc *report.Document) *report.Ended {
	for i := range doc.Devices {
		if d := &doc.Devices[i]; len(d.OOMs) > 0 && d.OOMs[len(d.OOMs)-1].Event >= d.Events-1 {
			return &report.Ended{How: string(evidence.GPUMemory), Source: evidence.Known(d.Input),
				Text: units.Bytes(d.OOMs[len(d.OOMs)-1].RequestedBytes) + " asked for, and refused"}
		}
	}
	if doc.Evidence == nil || len(doc.Evidence.Logs) == 0 {
		return nil
	}
	return endOfLogs(doc)
}

// endOfLogs is the end that says most, of those that logs tell.
func endOfLogs(doc *report.Document) *report.Ended {
	best := report.Ended{How: string(evidence.UnknownEnd)}
	well := wentWell(doc)
	for i := range doc.Evidence.Logs {
		log := &doc.Evidence.Logs[i]
		end := log.Ending
		if well && (end.How == evidence.Failed || end.How == evidence.Stopped) {
			end = evidence.Ending{How: evidence.EndedWell}
		}
		messages := doc.Evidence.MessagesOf(log.Source)
		if k := slices.IndexFunc(messages, func(m evidence.OOMMessage) bool { return !m.Unsure && !m.WentOn }); k >= 0 &&
			end.How != evidence.HostMemory && end.How != evidence.EndedWell {
			end = evidence.Ending{How: evidence.GPUMemory, Line: messages[k].Line, Text: "out of memory"}
		}
		more := cmp.Compare(slices.Index(weight, string(end.How)), slices.Index(weight, best.How))
		if end.How == "" || more < 0 || more == 0 && (end.Line == 0 || best.Line != nil) { // of two alike the one with a line
			continue
		}
		best = report.Ended{How: string(end.How), Text: saidAt(&end), Source: &log.Source}
		if end.Line > 0 {
			best.Line = &end.Line
		}
	}
	return &best
}

// wentWell reports whether the record of the one run that is told of has the exit code 0: what the program logged of an
// exception didn't end it.
func wentWell(doc *report.Document) bool {
	records, well := 0, 0
	for i := range doc.Evidence.Logs {
		log := &doc.Evidence.Logs[i]
		if log.Source >= len(doc.Inputs) || doc.Inputs[log.Source].Kind != "run_record" {
			continue
		}
		records++
		if log.Ending.How == evidence.EndedWell {
			well++
		}
	}
	return records == 1 && well == 1
}

// weight is how much each way to end says, where several logs tell.
var weight = []string{string(evidence.UnknownEnd), string(evidence.EndedWell), string(evidence.Stopped), string(evidence.Failed),
	string(evidence.Killed), string(evidence.HostMemory), string(evidence.GPUMemory)}

// saidAt is what was said of an end, and at which line of the user's.
func saidAt(e *evidence.Ending) string {
	if e.UserFile == "" {
		return e.Text
	}
	return e.Text + " at " + placeOf(e.UserFile, e.UserLine)
}

// WithoutFailure is how a recorded process ended otherwise than well, as the verdict begins; "" where it didn't.
func WithoutFailure(end *report.Ended) string {
	if text, _ := withoutFailure(end, nil); !strings.HasPrefix(text, "No failure found") {
		return text
	}
	return ""
}

// withoutFailure begins the verdict on evidence that has no failure of memory: none was
// found only where nothing says that the process ended otherwise than well.
func withoutFailure(end *report.Ended, facts []string) (text string, fix *string) {
	if end == nil {
		return "No failure found: " + firstFacts(facts), nil
	}
	switch evidence.How(end.How) {
	case evidence.Failed:
		text = "No failure of memory: it ended in " + end.Text
		if strings.Contains(end.Text, "CUDA error") || strings.Contains(end.Text, "assert triggered") {
			fix = advice.Text("log.cuda_error")
		}
	case evidence.Stopped:
		text = "No failure of memory: it was stopped: " + end.Text
	case evidence.Killed:
		text = "Killed, nobody says for what: " + end.Text
	default:
		return "No failure found: " + firstFacts(facts), nil
	}
	if len(facts) > 0 {
		text += "; " + firstFacts(facts)
	}
	return text, fix
}
