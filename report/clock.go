package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// sentence says how an input's times were brought together with the recording's.
func (c *Clock) sentence(doc *Document) string {
	text := Printable(ShortFile(doc.Inputs[c.Source].Path)) + " (" + c.Kind() + "): " + c.Reason
	if c.Confidence != nil {
		text += fmt.Sprintf(" (%.0f %% sure)", 100**c.Confidence)
	}
	return text
}

// Kind is what of an input was aligned, in words.
func (c *Clock) Kind() string {
	text := strings.ReplaceAll(c.What, "_", "-")
	if c.GPU != nil {
		text += fmt.Sprintf(", GPU %d", *c.GPU)
	}
	return text
}

// Added is what makes the input's times the recording's, "" where they aren't
// used.
func (c *Clock) Added() string {
	if c.OffsetSeconds == nil {
		return ""
	}
	seconds := *c.OffsetSeconds
	sign := "+"
	if seconds < 0 {
		sign, seconds = "-", -seconds
	}
	if hours := math.Floor(seconds / 3600); hours > 0 && math.Mod(seconds, 60) == 0 {
		return fmt.Sprintf("%s%.0f:%02.0f h", sign, hours, math.Mod(seconds, 3600)/60)
	}
	return fmt.Sprintf("%s%.1f s", sign, seconds)
}

// largestFirst orders processes by the memory they held, unknown ones last.
func largestFirst(list []evidence.Process) []evidence.Process {
	list = slices.Clone(list)
	bytes := func(p evidence.Process) int64 {
		if p.PeakUsedBytes == nil {
			return -1
		}
		return *p.PeakUsedBytes
	}
	slices.SortStableFunc(list, func(a, b evidence.Process) int { return cmp.Compare(bytes(b), bytes(a)) })
	return list
}
