package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/evidence"
)

// sentence says how an input's times were brought together with the recording's.
func (c *Clock) sentence(doc *Document) string {
	what := map[string]string{"nvidia_smi": "nvidia-smi", "log": "log", "trace": "trace"}[c.What]
	text := printable(ShortFile(doc.Inputs[c.Source].Path)) + " (" + what
	if c.GPU != nil {
		text += fmt.Sprintf(", GPU %d", *c.GPU)
	}
	text += "): " + c.Reason
	if c.Confidence != nil {
		text += fmt.Sprintf(" (%.0f %% sure)", 100**c.Confidence)
	}
	return text
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
