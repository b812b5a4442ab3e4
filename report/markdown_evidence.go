package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// monitors are the tools that printed readings of GPUs, in the order in which they come.
func monitors(gpus []evidence.GPU) string {
	var names []string
	for i := range gpus {
		if name := gpus[i].Monitor(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ticketGPUs is how many GPUs of nvidia-smi go into a ticket.
const ticketGPUs = 8

// evidence sums up nvidia-smi's readings, the steps of logs and traces.
func (m *markdownWriter) evidence(doc *Document) {
	ev := doc.Evidence
	if ev == nil {
		return
	}
	if len(ev.GPUs) > 0 {
		m.line("\n### %s\n", monitors(ev.GPUs))
		m.line("| GPU | Name | Readings | Most in use | Total | Holds most |\n|---:|---|---:|---:|---:|---|")
	}
	for i := range ev.GPUs {
		if i == ticketGPUs {
			m.line("\nand %s", units.Plural(len(ev.GPUs)-i, "more GPU"))
			break
		}
		g := &ev.GPUs[i]
		most := ""
		if len(g.Processes) > 0 {
			p := largestFirst(g.Processes)[0]
			most = fmt.Sprintf("process %d", p.PID)
			if p.Name != nil {
				most += " " + code(*p.Name)
			}
			if p.PeakUsedBytes != nil {
				most += ", " + units.Bytes(*p.PeakUsedBytes)
			}
		}
		m.row(fmt.Sprint(g.GPU), Prose(text0(g.Name)), units.Count(g.Samples), bytesOr(g.PeakUsedBytes), bytesOr(g.TotalBytes),
			most)
	}
	if len(ev.Steps) > 0 {
		m.line("\n### Steps in the logs\n")
		m.line("| Log | Steps | Seconds per step (median) | Most memory | Most reserved |\n|---|---:|---:|---:|---:|")
	}
	for _, s := range ev.Steps {
		seconds := "?"
		if s.MedianStepSeconds != nil {
			seconds = fmt.Sprintf("%.3f", *s.MedianStepSeconds)
		}
		m.row(code(ShortFile(doc.Inputs[s.Source].Path)), units.Count(s.Count), seconds, bytesOr(s.MaxMemoryBytes),
			bytesOr(s.MaxReservedBytes))
	}
	for i := range doc.Clocks {
		if doc.Clocks[i].Method == nil {
			continue
		}
		m.line("\n%s", Prose(doc.Clocks[i].sentence(doc)))
	}
}
