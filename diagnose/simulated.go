package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// simulatedOn is the GPU that a run was simulated on, nil for a real one.
func simulatedOn(ev *evidence.Evidence) *evidence.Simulated {
	if p := ev.Settings(); p != nil && p.Machine != nil {
		return p.Machine.Simulated
	}
	return nil
}

// simulated says whether a program that ran on a GPU that wasn't there fits on one, and adds the context to what it holds; ""
// where it failed, for memory or otherwise, or on a real GPU.
func simulated(doc *report.Document) string {
	s := doc.Environment.Simulated
	if s == nil {
		return ""
	}
	failed := s.Fits != nil && !*s.Fits // as its processes say
	for i := range doc.Devices {
		d := &doc.Devices[i]
		failed = failed || len(d.OOMs) > 0
		if d.AtPeak.CUDAContext == nil && s.ContextBytes > 0 {
			d.AtPeak.CUDAContext = new(s.ContextBytes)
		}
	}
	main := doc.Fullest()
	if main == nil || main.History == "none" && main.Peaks.Allocated.Bytes == 0 {
		return ""
	}
	s.SpareBytes = new(s.Spare(main.Peaks.Reserved.Bytes))
	fits := !failed && *s.SpareBytes >= 0
	if fits && brokeOff(doc) {
		return ""
	}
	if s.Fits = &fits; failed {
		return ""
	}
	text := fmt.Sprintf("Needs %s of %s (%s reserved, %s for the CUDA context", units.Size(main.Peaks.Allocated.Bytes),
		units.Size(s.CapacityBytes), units.Size(main.Peaks.Reserved.Bytes), units.Size(s.ContextBytes))
	if s.OtherBytes > 0 {
		text += ", " + units.Size(s.OtherBytes) + " of other processes"
	}
	return text + fmt.Sprintf("): %s to spare. %s", units.Size(max(*s.SpareBytes, 0)), assumed(s))
}

// brokeOff reports whether a program ended before it was through, and not by the simulation: what it would have held isn't known.
func brokeOff(doc *report.Document) bool {
	return doc.Environment.Simulated.Ended == nil && logs.WithoutFailure(doc.Ended) != ""
}

// assumed says on how much of a simulation's answer the data would decide.
func assumed(s *evidence.Simulated) string {
	var bytes, most int64
	for i := range s.Assumptions {
		bytes, most = max(bytes, s.Assumptions[i].Bytes), max(most, s.Assumptions[i].MostBytes)
	}
	text := "Nothing was assumed."
	if n := len(s.Assumptions); n > 0 {
		text = "That rests on " + units.Plural(n, "assumption")
		if bytes > 0 {
			text += ": up to " + units.Size(bytes) + " hang on one"
			if most > bytes && s.Sizes == "even" {
				text += ", and `--assume both` shows the most it can be"
			}
		}
		text += "."
	}
	if len(s.Uncounted) > 0 {
		text += " Workspaces of cuDNN are not counted."
	}
	if len(s.Unknown) > 0 {
		text += " " + units.Plural(len(s.Unknown), "library call") + " had no answer."
	}
	return text
}
