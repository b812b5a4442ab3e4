package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Histories and Stacks say how a device was recorded.
var (
	Histories = map[string]string{"complete": "history complete", "late": "recording began late",
		"overflowed": "oldest events lost", "none": "no history"}
	Stacks = map[string]string{"all": "C++ and Python stacks", "python": "Python stacks only", "none": "no stacks"}
)

// Beside are what a GPU holds outside PyTorch's allocator, Outsiders the same where that is said.
var (
	Beside = [...]string{"CUDA context and libraries, outside PyTorch", "other processes",
		"in use on the GPU, not accounted for"}
	Outsiders = [...]string{"CUDA context and libraries", "other processes", "not accounted for"}
)

// Besides lists how much of each, where it is known.
func Besides(m *report.Moment) [3]*int64 {
	return [...]*int64{m.CUDAContext, m.OtherProcesses, m.Unaccounted}
}

// Plain is a fixed name as words.
func Plain(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Saves is what a fix saves, in brackets; "" where that isn't known, or nothing.
func Saves(bytes *int64) string {
	if bytes == nil || *bytes <= 0 {
		return ""
	}
	return " (saves " + units.Bytes(*bytes) + ")"
}

// Gain is what comes of a finding's change, in brackets: what it makes of a peak where that is
// known, else what it saves.
func Gain(f *report.Finding) string {
	if f.Saves() > 0 {
		return Effect(&report.Change{Outcome: f.Outcome}, false)
	}
	return units.Rounded(Saves(f.SavesBytes))
}

// VerdictEffect is what comes of the verdict's change.
func VerdictEffect(v *report.Verdict) string {
	if v.Best == nil {
		return units.Rounded(Saves(v.SavesBytes))
	}
	return Effect(v.Best, v.Severity == report.Critical)
}

// Known is a size, "?" for an unknown one.
func Known(n *int64) string { return or(n, "?") }

func or(n *int64, unknown string) string {
	if n == nil {
		return unknown
	}
	return units.Bytes(*n)
}

// text is a text, "" for none.
func text(s *string) string { return evidence.Or(s, "") }

// when is what is said where something holds.
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// given is a known figure in a text, "" for an unknown one.
func given[T any](format string, figure *T) string {
	if figure == nil {
		return ""
	}
	return fmt.Sprintf(format, *figure)
}

// era is how the recording's PyTorch wrote, "" where that isn't known.
func era(in *report.Input) string { return given("PyTorch %s style", in.Era) }

// said are those of some texts that say anything.
func said(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// list joins what there is.
func list(parts ...string) string { return strings.Join(said(parts...), ", ") }

// more says how many aren't listed, "" for none.
func more(n int, noun string) string {
	switch {
	case n <= 0:
		return ""
	case noun == "":
		return "and " + units.Count(n) + " more"
	}
	return "and " + units.Plural(n, "more "+noun)
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

// Lacks says that more is allocated than reserved, which only a file that
// contradicts itself holds; "" for all others.
func Lacks(m *report.Moment) string {
	if m.CacheBytes >= 0 {
		return ""
	}
	return units.Bytes(-m.CacheBytes) + " more is allocated than reserved"
}

var capacitySources = map[string]string{"flag": "as given",
	"oom_entry": "reserved + left on the device when the request failed", "message": "from the error message",
	"nvidia_smi": "from nvidia-smi"}

// CapacityNote says where the size of the GPU is from.
func CapacityNote(d *report.Device) string {
	disproved := evidence.Or(d.CapacityDisproved, 0)
	return list(capacitySources[text(d.CapacitySource)], when(disproved > 0, "more than the "+units.Bytes(disproved)+" given"))
}

// Bar is a share as a row of block characters.
func Bar(part, whole int64, width int) string {
	n := 0
	if whole > 0 && part > 0 {
		n = int(float64(min(part, whole)) * float64(8*width) / float64(whole))
	}
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[n%8-1])
	}
	return s
}

// fit cuts a text in its middle.
func fit(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	tail := width / 3
	return string(runes[:width-tail-1]) + "…" + string(runes[len(runes)-tail:])
}

// place is a line of code with its file's last two folders.
func place(function, file string, line *int) string {
	where := report.ShortPlace(file, line)
	if function != "" && where != "" {
		return function + "  " + where
	}
	return function + where
}

// siteName is a call site that has no line: its operator, or why it has none.
func siteName(s *report.Site) string {
	switch {
	case s.Op != "":
		return s.Op
	case s.Older:
		return "older than the recording"
	case !s.Known:
		return "no stack"
	}
	return "a stack without names"
}

// siteCell is a call site: what allocated, and the user's line.
func siteCell(s *report.Site) Cell {
	switch {
	case s.Function == "" && s.Op == "":
		return cell("(" + siteName(s) + ")")
	case s.Function == "":
		return cell(Code(s.Op))
	}
	out := cell(Code(place(s.Function, s.File, s.Line)))
	if p := s.CalledFrom; p != nil {
		out = cell(out, ", from ", Code(place(p.Function, p.File, p.Line)))
	}
	if s.Op != "" {
		out = cell(out, "  [", Code(s.Op), "]")
	}
	return out
}

// ClockText says how an input's times were brought together with the recording's.
func ClockText(doc *report.Document, c *report.Clock) string {
	out := name(doc, c.Source) + " (" + c.Kind() + "): " + c.Reason
	if c.Confidence != nil {
		out += fmt.Sprintf(" (%.0f %% sure)", 100**c.Confidence)
	}
	return out
}

// name is an input's, with its folder.
func name(doc *report.Document, input int) string { return report.ShortFile(doc.Inputs[input].Path) }

func width(s string) int { return utf8.RuneCountInString(s) }
