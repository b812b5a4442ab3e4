package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

var cacheFlushed = Check{
	ID: "cache_flushed", Group: mistakes, Severity: "warning from three times on, otherwise info",
	Doc: "The program runs at the limit of the GPU: the driver refused requests until PyTorch had given back all of " +
		"its cache (`num_alloc_retries`). Nothing failed in the end. It happened three times or more, or with a " +
		"twentieth of what is reserved. A log tells it by \"allocator cache flushes\" of DeepSpeed and \"memory " +
		"allocation retries\" of torchtitan.",
	Saves: "no memory: each time waits for all work on the GPU.",
	Run:   findCacheFlushed,
}

// givesBack reports whether memory goes back to the driver within the recording.
func givesBack(d *report.Device) bool {
	return slices.ContainsFunc(d.Actions, func(a report.KeyCount) bool {
		return a.Key == "segment_free" || a.Key == "segment_unmap"
	})
}

func findCacheFlushed(p *facts.Pass) []Draft {
	if len(p.Dev.OOMs) > 0 || !givesBack(p.Dev) {
		return nil
	}
	flushes := replay.Flushes(p.T)
	if len(flushes) == 0 {
		return nil
	}
	var freed int64
	least := flushes[0] // where it had the least room
	where := map[frames.Line]int{}
	sure := true
	for _, x := range flushes {
		freed += x.Freed
		sure = sure && x.Certain
		if x.Reserved+x.Wanted < least.Reserved+least.Wanted {
			least = x
		}
		if lines := p.View.User(p.T.Device.Events.StackOf(x.Asked)); len(lines) > 0 {
			where[lines[0]]++
		}
	}
	const often, large = 3, 20 // times; a twentieth of what is reserved
	if len(flushes) < often && freed*large < p.Dev.Peaks.Reserved.Bytes {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.95}}
	if len(flushes) >= often {
		d.Severity = report.Warning
	}
	if !sure {
		d.Confidence = 0.7
	}
	d.Title = fmt.Sprintf("The GPU was full %s: PyTorch gave its cache back, %s, before it got more", units.Times(len(flushes)),
		units.Bytes(freed))
	d.Evidence = []string{
		fmt.Sprintf("%s were asked for with %s reserved, and refused at first: this process can't have so much",
			units.Bytes(least.Wanted), units.Bytes(least.Reserved)),
		"torch.cuda.memory_stats()[\"num_alloc_retries\"] counts them; each waits for all work on the GPU to end",
	}
	for _, line := range mostOften(where, 3) {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s at %s", units.Times(where[line]), facts.LineText(line)))
	}
	d.advise("cache_flushed")
	return []Draft{d}
}

// mostOften are the lines that occur most often, at most so many.
func mostOften(where map[frames.Line]int, most int) []frames.Line {
	lines := make([]frames.Line, 0, len(where))
	for line := range where {
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b frames.Line) int {
		return cmp.Or(cmp.Compare(where[b], where[a]), cmp.Compare(facts.LineText(a), facts.LineText(b)))
	})
	return lines[:min(most, len(lines))]
}
