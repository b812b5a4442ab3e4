package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Simulated is the line above a verdict of a GPU that wasn't there, "" of a real one.
func Simulated(doc *report.Document) string {
	s := doc.Environment.Simulated
	if s == nil {
		return ""
	}
	head := "SIMULATED " + when(s.Count > 1, fmt.Sprintf("%d × ", s.Count)) + s.GPU
	if s.Fits == nil {
		return head
	}
	return head + map[bool]string{true: " · fits", false: " · doesn't fit"}[*s.Fits]
}

// SimulatedLines say what an answer of a simulated GPU rests on.
func SimulatedLines(doc *report.Document) (lines []string) {
	s := doc.Environment.Simulated
	if s == nil {
		return nil
	}
	for i := range s.Assumptions {
		lines = append(lines, assumption(&s.Assumptions[i]))
	}
	if len(s.Uncounted) > 0 {
		lines = append(lines, "not counted: "+counted(s.Uncounted)+", whose size cuDNN decides on the card")
	}
	if len(s.Unknown) > 0 {
		lines = append(lines, "library calls without an answer: "+counted(s.Unknown))
	}
	if s.NoWeights {
		lines = append(lines, "checkpoints were taken by their headers: no weight was read")
	}
	return append(lines, otherVersions(doc)...)
}

// assumption is one in a line.
func assumption(a *evidence.Assumption) string {
	at := Code(fmt.Sprintf("%s:%d", report.ShortFile(a.File), a.Line))
	if a.Taken != "" {
		return fmt.Sprintf("assumed at %s: %s was taken to be %s, %s", at, a.What, a.Taken, units.Plural(a.Calls, "time"))
	}
	return fmt.Sprintf("assumed at %s: %s of %s gave %s of at most %s rows%s", at, a.What, units.Plural(a.Calls, "call"),
		units.Count(int(a.Rows)), units.Count(int(a.MostRows)),
		when(a.Bytes > 0, fmt.Sprintf("; %s hang on it, at most %s", units.Size(a.Bytes), units.Size(a.MostBytes))))
}

// counted are names with how often each was called.
func counted(calls map[string]int) string {
	const most = 5
	names := slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(calls[b]-calls[a], strings.Compare(a, b))
	})
	rest := more(len(names)-most, "")
	names = names[:min(len(names), most)]
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%s)", name, units.Count(calls[name]))
	}
	return list(append(names, rest)...)
}

// otherVersions say what another PyTorch than the program's would change.
func otherVersions(doc *report.Document) []string {
	s, torch := doc.Environment.Simulated, doc.Environment.Torch
	if torch == nil {
		return nil
	}
	var major, minor int
	if n, _ := fmt.Sscanf(*torch, "%d.%d", &major, &minor); n < 2 {
		return nil
	}
	workspace := "8,519,680"
	if s.Capability >= "9." || len(s.Capability) > 3 {
		workspace = "33,554,432"
	}
	others, sign, then := "2.15 keeps no workspace of cuBLAS", "-", "sooner"
	if major > 2 || major == 2 && minor >= 12 {
		others, sign, then = "Up to 2.11 cuBLAS' workspaces stay", "+", "later"
	}
	return []string{fmt.Sprintf("computed with torch %s. %s: %s%s bytes for each handle, of which a training has two; and a "+
		"training frees the gradient of its logits %s (%[3]s1 to 5 %% in three programs). Reserved memory varies by up to 5 %% "+
		"between versions", *torch, others, sign, workspace, then)}
}

// simulatedCard is the first line of the footer.
func simulatedCard(doc *report.Document) string {
	s := doc.Environment.Simulated
	if s == nil {
		return ""
	}
	return fmt.Sprintf("simulated: no GPU was used; %s, compute capability %s, %d multiprocessors%s%s", s.Device, s.Capability,
		s.Multiprocessors, when(s.WorldSize > 0, fmt.Sprintf("; rank %d of %s, alone", s.Rank, units.Count(s.WorldSize))),
		given("; ended %s", s.Ended))
}
